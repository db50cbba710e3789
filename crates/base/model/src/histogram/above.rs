//! Number of periods that exceed a limit.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Number of periods that exceed a limit. They are counted one by one against the exact limit,
/// because a histogram cannot tell which samples in the bucket of the limit exceed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboveLimit {
    /// The limit.
    pub limit_ns: Nanos,
    /// Samples above the limit, plus missed periods that are known to exceed it.
    pub periods: u64,
}

/// Lower and upper bounds of the number of periods that exceed a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Above {
    /// The lower bound.
    pub at_least: u64,
    /// The upper bound.
    pub at_most: u64,
}
