//! How a fact stands in formats that know no unknown.

use punctual_model::Fact;

/// What stands for a text that is not known, under keys that programs rely on;
/// importers take it for that.
pub(crate) const UNKNOWN: &str = "unknown";

/// The text, or the word for what is not known.
pub(crate) fn or_unknown(fact: &Fact<String>) -> &str {
    fact.get().map_or(UNKNOWN, String::as_str)
}
