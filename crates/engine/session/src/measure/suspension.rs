//! Detects when the user stopped the process or suspended the machine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_model::{Nanos, Suspension, SuspensionKind};
use punctual_rt::Clock;
use signal_hook::SigId;
use signal_hook::consts::SIGCONT;

use crate::lifecycle::{Start, monotonic};

/// Minimum length of a stop: three polls of 100 ms. If a SIGCONT is sent to a process that is
/// running, the gaps between polls are shorter.
const LEAST_STOP: Nanos = Nanos::from_millis(300);

/// A shorter stop is detected from the samples: when a SIGCONT arrived, each worker had a wait of
/// at least this length and of at least three periods.
const LEAST_SHORT_STOP: Nanos = Nanos::from_millis(5);

/// Minimum advance of CLOCK_BOOTTIME over CLOCK_MONOTONIC between two polls.
const LEAST_SUSPEND: Nanos = Nanos::from_millis(10);

/// Values that are read by one poll of the housekeeping.
#[derive(Clone, Copy, Debug)]
struct Turn {
    monotonic: Nanos,
    /// CLOCK_BOOTTIME, read after `monotonic`.
    boottime: Nanos,
    /// Maximum time between the two readings.
    apart: Nanos,
    /// Whether a SIGCONT came since the previous poll.
    continued: bool,
}

/// A suspension found between two polls.
type Found = (SuspensionKind, Gap, Nanos);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    from: Nanos,
    until: Nanos,
}

impl Gap {
    fn length(self) -> Nanos {
        self.until.saturating_sub(self.from)
    }
}

/// A wait of a worker, with its period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) due: Nanos,
    pub(crate) woke: Nanos,
    pub(crate) period: Nanos,
}

impl Wait {
    pub(crate) fn length(&self) -> Nanos {
        self.woke.saturating_sub(self.due)
    }

    fn is_long(&self) -> bool {
        let periods = Nanos(self.period.0.saturating_mul(3));
        self.length() >= LEAST_SHORT_STOP.max(periods)
    }
}

/// Returns the time that the longest waits of all workers have in common, because a stop delays all
/// threads of the process at once. Returns `None` if a worker was on time.
fn in_common(waits: impl Iterator<Item = Option<Wait>>) -> Option<Gap> {
    let mut common: Option<Gap> = None;
    for wait in waits {
        let wait = wait.filter(Wait::is_long)?;
        let before = common.unwrap_or(Gap {
            from: wait.due,
            until: wait.woke,
        });
        common = Some(Gap {
            from: before.from.max(wait.due),
            until: before.until.min(wait.woke),
        });
    }
    common.filter(|gap| gap.length() >= LEAST_SHORT_STOP)
}

/// Compares each poll with the previous one.
#[derive(Debug, Default)]
struct Comparison {
    last: Option<Nanos>,
    /// Gap before the last poll. The SIGCONT that ended it may be read one poll later.
    gap: Option<Gap>,
    /// Maximum lead of CLOCK_BOOTTIME over CLOCK_MONOTONIC.
    ahead: Nanos,
}

impl Comparison {
    fn turn(&mut self, turn: Turn) -> Vec<Found> {
        let mut found = Vec::new();
        let most_ahead = turn.boottime.saturating_sub(turn.monotonic);
        let Some(last) = self.last.replace(turn.monotonic) else {
            self.ahead = most_ahead;
            return found;
        };
        let gap = Gap {
            from: last,
            until: turn.monotonic,
        };
        let grown = most_ahead
            .saturating_sub(turn.apart)
            .saturating_sub(self.ahead);
        if grown > LEAST_SUSPEND {
            self.ahead = most_ahead;
            found.push((SuspensionKind::MachineSuspended, gap, grown));
        }
        self.ahead = self.ahead.min(most_ahead);
        let before = self.gap.replace(gap);
        if turn.continued {
            let mut gaps = [Some(gap), before].into_iter().flatten();
            if let Some(stop) = gaps.find(|gap| gap.length() >= LEAST_STOP) {
                self.gap = None;
                found.push((SuspensionKind::StoppedBySignal, stop, stop.length()));
            }
        }
        found
    }
}

/// Watches for suspensions from poll to poll.
#[derive(Debug)]
pub(crate) struct SuspensionWatch {
    continued: Arc<AtomicBool>,
    /// Handler of SIGCONT; without it, stops are not detected.
    handler: Option<SigId>,
    comparison: Comparison,
    /// Time of a SIGCONT that did not end a long stop.
    unexplained: Option<Nanos>,
    found: Vec<Suspension>,
}

impl SuspensionWatch {
    pub(crate) fn new() -> Self {
        let continued = Arc::new(AtomicBool::new(false));
        let handler: io::Result<SigId> =
            signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        Self {
            continued,
            handler: handler.ok(),
            comparison: Comparison::default(),
            unexplained: None,
            found: Vec::new(),
        }
    }

    /// Performs one poll of the housekeeping.
    pub(crate) fn turn(&mut self, start: &Start) {
        let before = monotonic();
        let boottime = Nanos(Clock::Boottime.now().as_nanos());
        let turn = Turn {
            monotonic: before,
            boottime,
            apart: monotonic().saturating_sub(before),
            continued: self.continued.swap(false, Ordering::Relaxed),
        };
        let found = self.comparison.turn(turn);
        let is_stop = |found: &Found| found.0 == SuspensionKind::StoppedBySignal;
        if found.iter().any(is_stop) {
            self.unexplained = None;
        } else if turn.continued {
            self.unexplained = Some(before);
        }
        let new = found.into_iter().map(|(kind, gap, length)| Suspension {
            kind,
            started: start.wall_at(gap.from),
            from_monotonic_ns: gap.from,
            until_monotonic_ns: gap.until,
            length_ns: length,
        });
        self.found.extend(new);
    }

    /// Called after a poll, once the samples are available, with the longest recent wait of each
    /// worker that has periods.
    pub(crate) fn short_stop(&mut self, start: &Start, waits: impl Iterator<Item = Option<Wait>>) {
        let Some(seen) = self.unexplained else {
            return;
        };
        if monotonic().saturating_sub(seen) > LEAST_STOP {
            self.unexplained = None;
        }
        if let Some(gap) = in_common(waits) {
            self.unexplained = None;
            self.found.push(Suspension {
                kind: SuspensionKind::StoppedBySignal,
                started: start.wall_at(gap.from),
                from_monotonic_ns: gap.from,
                until_monotonic_ns: gap.until,
                length_ns: gap.length(),
            });
        }
    }

    /// Returns the suspensions found so far.
    pub(crate) fn found(&self) -> &[Suspension] {
        &self.found
    }
}

impl Drop for SuspensionWatch {
    fn drop(&mut self) {
        self.handler.map(signal_hook::low_level::unregister);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in milliseconds: CLOCK_MONOTONIC, CLOCK_BOOTTIME, the time between reading them; and
    /// whether a SIGCONT came.
    fn watched(turns: &[(u64, u64, u64, bool)]) -> Vec<Found> {
        let mut comparison = Comparison::default();
        let turns = turns
            .iter()
            .map(|&(monotonic, boottime, apart, continued)| Turn {
                monotonic: Nanos::from_millis(monotonic),
                boottime: Nanos::from_millis(boottime),
                apart: Nanos::from_millis(apart),
                continued,
            });
        turns.flat_map(|turn| comparison.turn(turn)).collect()
    }

    fn found(kind: SuspensionKind, from: u64, until: u64, length: u64) -> Found {
        let [from, until, length] = [from, until, length].map(Nanos::from_millis);
        (kind, Gap { from, until }, length)
    }

    #[test]
    fn a_stop_is_known_by_its_continuation() {
        use SuspensionKind::StoppedBySignal;
        let stop = found(StoppedBySignal, 200, 1_300, 1_100);
        let turns = [
            (100, 100, 0, false),
            (200, 200, 0, false),
            (1_300, 1_300, 0, true),
            (1_400, 1_400, 0, false),
        ];
        assert_eq!(watched(&turns), [stop]);
        // The handler of the signal ran on another thread, one poll later.
        let later = [
            (100, 100, 0, false),
            (200, 200, 0, false),
            (1_300, 1_300, 0, false),
            (1_310, 1_310, 0, true),
            (1_320, 1_320, 0, true),
        ];
        assert_eq!(watched(&later), [stop]);
    }

    #[test]
    fn delayed_thread_was_not_stopped() {
        let turns = [(100, 100, 0, false), (3_000, 3_000, 0, false)];
        assert_eq!(watched(&turns), []);
    }

    #[test]
    fn continuing_a_running_process_is_no_stop() {
        let turns = [
            (100, 100, 0, true),
            (200, 200, 0, true),
            (350, 350, 0, true),
        ];
        assert_eq!(watched(&turns), []);
    }

    #[test]
    fn short_stop_is_common_to_all_workers() {
        let ms = Nanos::from_millis;
        let wait = |due, woke, period| {
            Some(Wait {
                due: ms(due),
                woke: ms(woke),
                period: ms(period),
            })
        };
        let common = |waits: &[Option<Wait>]| {
            in_common(waits.iter().copied()).map(|gap| (gap.from, gap.until))
        };
        let stopped = [wait(100, 151, 1), wait(101, 150, 2)];
        assert_eq!(common(&stopped), Some((ms(101), ms(150))));
        // One of the workers continued to run, or waited at another time.
        assert_eq!(common(&[wait(100, 151, 1), wait(120, 121, 1)]), None);
        assert_eq!(common(&[wait(100, 151, 1), wait(160, 190, 1)]), None);
        assert_eq!(common(&[wait(100, 151, 1), None]), None);
        // For a worker with long periods, a wait of this length proves nothing.
        assert_eq!(common(&[wait(100, 151, 20)]), None);
        assert_eq!(common(&[]), None);
    }

    #[test]
    fn clocks_reveal_a_suspended_machine() {
        use SuspensionKind::MachineSuspended;
        let turns = [
            (100, 5_100, 0, false),
            (200, 5_200, 0, false),
            (450, 68_450, 0, false),
            (550, 68_550, 0, false),
        ];
        let suspended = found(MachineSuspended, 200, 450, 63_000);
        assert_eq!(watched(&turns), [suspended]);
    }

    #[test]
    fn clocks_read_apart_suspend_nothing() {
        // This program did not run between the two readings.
        let turns = [
            (100, 100, 0, false),
            (200, 700, 500, false),
            (800, 800, 0, false),
            (900, 2_400, 1_500, false),
            (2_500, 2_500, 0, false),
        ];
        assert_eq!(watched(&turns), []);
        // The same applies to the first poll.
        let turns = [(100, 600, 500, false), (700, 700, 0, false)];
        assert_eq!(watched(&turns), []);
    }
}
