//! How many periods exceed a limit.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::schema::JsonSchema;

/// How many periods exceed a limit. They are counted one by one against the exact limit, because a
/// bucket of a histogram may contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AboveLimit {
    /// The limit.
    pub limit_ns: Nanos,
    /// Samples above it, and missed periods that are known to be above it.
    pub periods: u64,
}

/// How many periods exceed a limit, as a lower and an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Above {
    /// The lower bound.
    pub at_least: u64,
    /// The upper bound.
    pub at_most: u64,
}
