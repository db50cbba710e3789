//! How a fact stands in formats that know no unknown.

use punctual_model::Fact;

/// The text, or the word `unknown`: for keys that programs rely on.
pub(crate) fn or_unknown(fact: &Fact<String>) -> &str {
    fact.get().map_or("unknown", String::as_str)
}
