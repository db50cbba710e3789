//! Finds the cause of a gap by comparing the kernel's counters before and after it.

use punctual_host::{CpuCounts, CpuWatch};
use punctual_model::{Cell, Nanos, Table};

use super::spin::{Gaps, Ticks};

/// The cause of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The processor's counter of system management interrupts changed.
    Smi,
    /// The thread was preempted.
    Preemption,
    /// The hypervisor ran another guest on the CPU.
    Steal,
    /// An interrupt occurred, and it cannot have caused any other gap.
    Interrupt,
    /// None of the kernel's counters changed.
    Unaccounted,
    /// The cause is unknown: the time for reading the counters was used up in this window,
    /// or the counters are not available, or they do not distinguish this gap from others.
    Unknown,
    /// The gap is not above the threshold.
    Short,
}

impl Cause {
    const ALL: [Self; 7] = [
        Self::Unaccounted,
        Self::Smi,
        Self::Steal,
        Self::Preemption,
        Self::Interrupt,
        Self::Unknown,
        Self::Short,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Smi => "SMI",
            Self::Preemption => "preemption",
            Self::Steal => "steal",
            Self::Interrupt => "interrupt",
            Self::Unaccounted => "unaccounted",
            Self::Unknown => "unknown",
            Self::Short => "below the threshold",
        }
    }
}

/// All counts at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    cpu: CpuCounts,
    /// Involuntary context switches of the thread.
    preempted: u64,
}

impl Counts {
    /// Reads the counts of the current CPU. Takes some tens of microseconds on a small machine.
    pub(super) fn read(watch: &mut CpuWatch) -> Self {
        let preempted = punctual_rt::thread_usage().involuntary_switches;
        Self {
            cpu: watch.read(),
            preempted,
        }
    }
}

/// Returns the cause of the last gap between two readings of the counters. `others` is the number
/// of gaps before it.
pub(super) fn cause(before: &Counts, after: &Counts, others: u64) -> Cause {
    fn moved<T: PartialOrd>(before: Option<T>, after: Option<T>) -> bool {
        matches!((before, after), (Some(before), Some(after)) if after > before)
    }
    if moved(before.cpu.smis, after.cpu.smis) {
        return Cause::Smi;
    }
    if after.preempted > before.preempted {
        return Cause::Preemption;
    }
    if moved(before.cpu.steal, after.cpu.steal) {
        return Cause::Steal;
    }
    let (Some(before), Some(after)) = (before.cpu.interrupts, after.cpu.interrupts) else {
        return Cause::Unknown;
    };
    match after.saturating_sub(before) {
        0 => Cause::Unaccounted,
        came if came > others => Cause::Interrupt,
        // The interrupt may have caused one of the other gaps or this one.
        _ => Cause::Unknown,
    }
}

/// The results of the thread of one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Total time of spinning, in ticks.
    pub(super) spun: u64,
    /// The largest sum of the gaps above the threshold in one window, in ticks.
    pub(super) most: u64,
    gaps: [Gaps; Cause::ALL.len()],
}

impl Tally {
    pub(super) fn add(&mut self, cause: Cause, gaps: Gaps) {
        let place = Cause::ALL.iter().position(|&c| c == cause).unwrap_or(0);
        self.gaps[place].merge(gaps);
    }

    /// Returns the sum of all gaps above the threshold, in ticks.
    pub(super) fn noise(&self) -> u64 {
        let above = Cause::ALL.iter().zip(&self.gaps);
        let above = above.filter(|(cause, _)| **cause != Cause::Short);
        above.map(|(_, gaps)| gaps.total).sum()
    }

    /// Ends a window. `before` is the [`noise`](Self::noise) at its start.
    pub(super) fn end_window(&mut self, before: u64) {
        self.most = self.most.max(self.noise().saturating_sub(before));
    }

    pub(super) fn gaps_of(&self, cause: Cause) -> Gaps {
        let place = Cause::ALL.iter().position(|&c| c == cause).unwrap_or(0);
        self.gaps[place]
    }
}

/// Creates the table: one row for each CPU and cause.
pub(super) fn gaps_table() -> Table {
    Table::new(
        "gaps",
        "Gaps of the spinning threads, by cause",
        &[
            ("cpu", "CPU"),
            ("cause", "cause"),
            ("count", "gaps"),
            ("total_ns", "in all"),
            ("max_ns", "longest"),
            ("share_ppm", "ppm of spin"),
        ],
    )
}

/// Adds the rows of one CPU.
pub(super) fn push_gaps<T: Ticks>(table: &mut Table, cpu: u32, clock: T, tally: &Tally) {
    let spun = clock.to_nanos(tally.spun);
    for cause in Cause::ALL {
        let gaps = tally.gaps_of(cause);
        // These two causes are shown only if there are gaps with them.
        if gaps.count == 0 && matches!(cause, Cause::Smi | Cause::Unknown) {
            continue;
        }
        let total = clock.to_nanos(gaps.total);
        table.push([
            Cell::from(u64::from(cpu)),
            cause.name().into(),
            gaps.count.into(),
            Nanos(total).into(),
            Nanos(clock.to_nanos(gaps.max)).into(),
            (spun > 0).then(|| total as f64 / spun as f64 * 1e6).into(),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(interrupts: u64, steal: u64, smis: Option<u64>, preempted: u64) -> Counts {
        Counts {
            cpu: CpuCounts {
                interrupts: Some(interrupts),
                steal: Some(Nanos(steal)),
                smis,
            },
            preempted,
        }
    }

    #[test]
    fn the_surest_witness_is_heard_first() {
        let before = counts(10, 0, Some(4), 7);
        let after = |i, s, m, p| cause(&before, &counts(i, s, m, p), 0);
        assert_eq!(after(12, 9, Some(5), 8), Cause::Smi);
        assert_eq!(after(12, 9, Some(4), 8), Cause::Preemption);
        assert_eq!(after(12, 9, None, 7), Cause::Steal);
        assert_eq!(after(12, 0, Some(4), 7), Cause::Interrupt);
        assert_eq!(after(10, 0, Some(4), 7), Cause::Unaccounted);
    }

    #[test]
    fn other_gaps_may_account_for_an_interrupt() {
        let before = counts(100, 0, None, 0);
        let after = |interrupts| cause(&before, &counts(interrupts, 0, None, 0), 12);
        assert_eq!(after(100), Cause::Unaccounted);
        assert_eq!(after(101), Cause::Unknown);
        assert_eq!(after(112), Cause::Unknown);
        assert_eq!(after(113), Cause::Interrupt);
    }

    #[test]
    fn without_counters_nothing_is_claimed() {
        let none = Counts::default();
        assert_eq!(cause(&none, &none, 0), Cause::Unknown);
    }

    #[test]
    fn a_tally_adds_up() {
        let mut tally = Tally::default();
        let gap = |ticks| {
            let mut gaps = Gaps::default();
            gaps.add(ticks);
            gaps
        };
        tally.add(Cause::Steal, gap(5));
        tally.add(Cause::Steal, gap(9));
        assert_eq!(tally.gaps_of(Cause::Steal).total, 14);
        assert_eq!(tally.gaps_of(Cause::Steal).max, 9);
        assert_eq!(tally.gaps_of(Cause::Interrupt), Gaps::default());
        tally.end_window(0);
        tally.add(Cause::Short, gap(100));
        tally.end_window(tally.noise() - 5);
        assert_eq!((tally.noise(), tally.most), (14, 14));
        tally.spun = 1_000_000;
        let mut table = gaps_table();
        push_gaps(&mut table, 3, super::super::spin::RawClock, &tally);
        let steal = &table.rows[1];
        assert_eq!(steal[1], Cell::from("steal"));
        assert_eq!(steal[5], Cell::Number(14.0));
    }
}
