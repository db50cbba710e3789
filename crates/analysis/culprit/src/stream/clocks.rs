//! Limits on the difference between the clocks of CPUs, derived from the trace itself.

use std::collections::BTreeMap;

use punctual_model::Nanos;

/// Limits on the difference between the clocks of CPUs.
///
/// A thread that CPU a wakes runs on CPU b at a later time, so b's clock minus a's clock is at most
/// the shortest such wait. Waits in both directions limit the difference on both sides. This
/// assumes that the difference is the same throughout the trace.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    shortest: BTreeMap<(u32, u32), Nanos>,
}

impl Clocks {
    /// Records that a thread was woken by CPU `waker` and ran on CPU `cpu` after `wait`.
    pub(super) fn note(&mut self, waker: u32, cpu: u32, wait: Nanos) {
        if waker != cpu {
            let shortest = self.shortest.entry((waker, cpu)).or_insert(wait);
            *shortest = wait.min(*shortest);
        }
    }

    /// Returns the largest possible difference between two clocks. `None` if the trace does not
    /// limit it.
    pub(super) fn error(&self, one: u32, other: u32) -> Option<Nanos> {
        if one == other {
            return Some(Nanos::ZERO);
        }
        let there = self.shortest.get(&(one, other))?;
        let back = self.shortest.get(&(other, one))?;
        Some(*there.max(back))
    }
}
