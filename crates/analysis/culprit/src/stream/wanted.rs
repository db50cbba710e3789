//! Which late reactions are asked for.

use punctual_model::{Comm, Nanos};

use crate::Late;

/// Which late reactions are asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Only longer ones. `None`: the longest ones.
    pub threshold: Option<Nanos>,
    /// Maximum number that is kept, the longest.
    pub most: usize,
    /// Only of these threads. Empty: of all.
    pub pids: Vec<u32>,
    /// Only of threads with this name.
    pub comm: Option<Comm>,
    /// Only those that ended on this CPU.
    pub cpu: Option<u32>,
    /// Only those with a part in this span of time, on the clock of the trace.
    pub between: Option<(Nanos, Nanos)>,
}

impl Wanted {
    /// Number of reactions that are kept without a threshold.
    pub const LONGEST: usize = 20;

    /// Selects the longest of all.
    pub const fn longest() -> Self {
        Self {
            threshold: None,
            most: Self::LONGEST,
            pids: Vec::new(),
            comm: None,
            cpu: None,
            between: None,
        }
    }

    /// Returns whether the user selected threads, so that ordinary ones count as well.
    pub(super) const fn names_threads(&self) -> bool {
        !self.pids.is_empty() || self.comm.is_some()
    }

    /// Returns whether a reaction of any length is selected.
    pub(super) fn has(&self, late: &Late) -> bool {
        let comm = self.comm.is_none_or(|comm| comm == late.comm);
        let pid = self.pids.is_empty() || self.pids.contains(&late.tid);
        let cpu = self.cpu.is_none_or(|cpu| cpu == late.cpu);
        let (from, to) = self.between.unwrap_or((Nanos::ZERO, Nanos(u64::MAX)));
        comm && pid && cpu && late.expected <= to && late.actual >= from
    }
}
