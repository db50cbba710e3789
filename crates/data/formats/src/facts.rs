//! Facts in formats that have no value for unknown facts.

use punctual_model::Fact;

/// Text for an unknown fact under keys that programs rely on. Importers read this text as unknown.
pub(crate) const UNKNOWN: &str = "unknown";

/// Returns the text, or [`UNKNOWN`].
pub(crate) fn or_unknown(fact: &Fact<String>) -> &str {
    fact.get().map_or(UNKNOWN, String::as_str)
}
