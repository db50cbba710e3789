//! The statements that convert stores of earlier schemas.

use crate::tables::SCHEMA;

/// The earliest schema that can be converted.
pub(crate) const OLDEST: i64 = 13;

/// The statements that convert each schema to the next one, from [`OLDEST`] on. SQLite keeps the
/// text of a statement, so that of a new table must be the one in [`TABLES`](crate::tables::TABLES).
/// `tests/fixtures` contains a store of each of these schemas.
pub(crate) const STEPS: [&str; (SCHEMA - OLDEST) as usize] = [
    "CREATE TABLE retired (
    machine TEXT NOT NULL PRIMARY KEY,
    at_ns INTEGER NOT NULL
) STRICT;",
    "CREATE TABLE earlier_name (
    name TEXT NOT NULL PRIMARY KEY,
    machine TEXT NOT NULL
) STRICT;",
];

/// Returns how to read a store of an earlier schema.
pub(crate) fn remedy(found: i64) -> &'static str {
    if found < OLDEST {
        "export its recordings with the punctual that created it (punctual export ID) and import \
         them with punctual import"
    } else {
        "convert it with punctual store upgrade (for a collector, punctual-server upgrade)"
    }
}
