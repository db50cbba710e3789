//! Selection of late reactions.

use punctual_model::{Comm, Nanos};

use crate::Late;

/// Selection of the late reactions that are searched for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Minimum length; only longer reactions are selected. `None` selects the longest ones.
    pub threshold: Option<Nanos>,
    /// Maximum number of reactions that are kept: the longest ones.
    pub most: usize,
    /// Threads whose reactions are selected. If empty, all threads.
    pub pids: Vec<u32>,
    /// Name of the threads whose reactions are selected, if limited.
    pub comm: Option<Comm>,
    /// CPU on which selected reactions ended, if limited.
    pub cpu: Option<u32>,
    /// Span of time, on the clock of the trace, that selected reactions overlap, if limited.
    pub between: Option<(Nanos, Nanos)>,
    /// Jobs to explain in place of the waits and stated latencies of the trace, in order of their
    /// ends. The selection above also applies to them.
    pub jobs: Option<Vec<Late>>,
}

impl Wanted {
    /// Number of reactions that are kept without a threshold.
    pub const LONGEST: usize = 20;

    /// Selects the longest reactions of all threads.
    pub const fn longest() -> Self {
        Self {
            threshold: None,
            most: Self::LONGEST,
            pids: Vec::new(),
            comm: None,
            cpu: None,
            between: None,
            jobs: None,
        }
    }

    /// Returns whether the user selected threads. If so, reactions of ordinary threads also count.
    pub(super) const fn names_threads(&self) -> bool {
        !self.pids.is_empty() || self.comm.is_some()
    }

    /// Returns whether a reaction matches the selection. The threshold is not checked.
    pub fn has(&self, late: &Late) -> bool {
        let cpu = self.cpu.is_none_or(|cpu| cpu == late.cpu);
        cpu && self.has_thread((late.tid, late.comm)) && self.overlaps(late.expected, late.actual)
    }

    /// Returns whether a thread, by its ID and name, is selected.
    pub fn has_thread(&self, (tid, comm): (u32, Comm)) -> bool {
        let is_named = self.comm.is_none_or(|wanted| wanted == comm);
        is_named && (self.pids.is_empty() || self.pids.contains(&tid))
    }

    /// Returns whether the selected span of time contains a part of this one.
    pub fn overlaps(&self, begin: Nanos, end: Nanos) -> bool {
        let (from, to) = self.between.unwrap_or((Nanos::ZERO, Nanos(u64::MAX)));
        begin <= to && end >= from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Delay, KernelPriority};

    fn late() -> Late {
        Late {
            tid: 7,
            comm: Comm::new(b"audio"),
            prio: KernelPriority(50),
            cpu: 2,
            delay: Delay::Wakeup,
            expected: Nanos(100),
            actual: Nanos(200),
            events_from: Nanos(100),
        }
    }

    fn wanted(change: impl FnOnce(&mut Wanted)) -> Wanted {
        let mut wanted = Wanted::longest();
        change(&mut wanted);
        wanted
    }

    #[test]
    fn each_part_of_the_selection_must_match() {
        let has = |change: fn(&mut Wanted)| wanted(change).has(&late());
        assert!(has(|_| ()));
        assert!(has(|wanted| wanted.cpu = Some(2)) && !has(|wanted| wanted.cpu = Some(1)));
        assert!(has(|wanted| wanted.pids = vec![8, 7]) && !has(|wanted| wanted.pids = vec![8]));
        assert!(has(|wanted| wanted.comm = Some(Comm::new(b"audio"))));
        assert!(!has(|wanted| wanted.comm = Some(Comm::new(b"video"))));
        // The thread has the name, but not the ID.
        assert!(!has(|wanted| {
            wanted.comm = Some(Comm::new(b"audio"));
            wanted.pids = vec![8];
        }));
        for (from, to, expected) in [
            (0, 100, true),
            (0, 99, false),
            (200, 300, true),
            (201, 300, false),
            (120, 130, true),
            (0, 900, true),
        ] {
            let wanted = wanted(|wanted| wanted.between = Some((Nanos(from), Nanos(to))));
            assert_eq!(wanted.has(&late()), expected, "{from} to {to}");
        }
    }

    #[test]
    fn threads_are_named_by_id_or_name() {
        assert!(!wanted(|wanted| wanted.cpu = Some(2)).names_threads());
        assert!(wanted(|wanted| wanted.pids = vec![7]).names_threads());
        assert!(wanted(|wanted| wanted.comm = Some(Comm::new(b"audio"))).names_threads());
    }
}
