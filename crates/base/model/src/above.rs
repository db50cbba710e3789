//! How many periods exceed a limit.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::schema::JsonSchema;

/// How many periods exceed a limit: counted one by one against the limit's own value,
/// which a bucket of a histogram may cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AboveLimit {
    /// The limit.
    pub limit_ns: Nanos,
    /// Samples above it, and missed periods of which is known that they were.
    pub periods: u64,
}

/// How many periods exceed a limit, between what is sure and what is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Above {
    /// At least so many.
    pub at_least: u64,
    /// At most so many.
    pub at_most: u64,
}
