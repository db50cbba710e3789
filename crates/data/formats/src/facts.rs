//! Facts in formats that have no value for unknown.

use punctual_model::Fact;

/// The value of an unknown text, under keys that programs rely on; importers
/// read it as unknown.
pub(crate) const UNKNOWN: &str = "unknown";

/// The text, or [`UNKNOWN`].
pub(crate) fn or_unknown(fact: &Fact<String>) -> &str {
    fact.get().map_or(UNKNOWN, String::as_str)
}
