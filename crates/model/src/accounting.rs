//! Where each expected wake-up went.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The account of one measuring thread: every wake-up that should have
/// happened is recorded, missed, or was discarded as warm-up.
///
/// `expected` is computed from the clock (deadlines that came due), the others
/// are counted one by one, so that the balance is a real check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accounting {
    /// Wake-ups that came due.
    pub expected: u64,
    /// Wake-ups that were measured, after the warm-up.
    pub recorded: u64,
    /// Periods that passed without a sample, after the warm-up.
    pub missed: u64,
    /// Of the recorded: woke before their time.
    pub early: u64,
    /// Periods of the warm-up at the start, discarded.
    pub warm_up: u64,
    /// Of the warm-up: periods that passed without a sample.
    pub warm_up_missed: u64,
    /// Of the recorded: beyond the range of the histogram.
    pub overflow: u64,
}

impl Accounting {
    /// Whether `expected = recorded + missed + warm-up`.
    pub fn balances(&self) -> bool {
        self.expected == self.recorded + self.missed + self.warm_up
    }

    /// Adds another thread's account.
    pub fn add(&mut self, other: &Self) {
        self.expected += other.expected;
        self.recorded += other.recorded;
        self.missed += other.missed;
        self.early += other.early;
        self.warm_up += other.warm_up;
        self.warm_up_missed += other.warm_up_missed;
        self.overflow += other.overflow;
    }
}
