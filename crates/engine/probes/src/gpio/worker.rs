//! The measuring thread: waits for edges, and answers each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_model::Nanos;
use punctual_rt::{Error, GpioEdge, GpioInput, GpioOutput, Instant};

use super::parts::Parts;
use crate::monotonic::now;
use crate::{Control, Recorder, SelfCost, WorkerOutcome};

/// The lines, or a simulation of them.
pub(super) trait Port: Send + 'static {
    /// Waits for an edge. Returns `None` if a signal interrupted the wait.
    fn wait(&mut self) -> Result<Option<GpioEdge>, Error>;
    /// Waits for an edge, at most for this time. Returns whether `wait` would return at once.
    fn has_edge(&mut self, within: Duration) -> Result<bool, Error>;
    /// Changes the level of the output. Returns false if the run has no output.
    fn answer(&mut self) -> Result<bool, Error>;
}

/// The lines.
pub(super) struct Pair {
    pub(super) input: GpioInput,
    pub(super) output: Option<GpioOutput>,
    /// The level of the output.
    pub(super) level: bool,
}

impl Port for Pair {
    fn wait(&mut self) -> Result<Option<GpioEdge>, Error> {
        self.input.wait()
    }

    fn has_edge(&mut self, within: Duration) -> Result<bool, Error> {
        self.input.has_edge(within)
    }

    #[inline]
    fn answer(&mut self) -> Result<bool, Error> {
        let Some(output) = &self.output else {
            return Ok(false);
        };
        self.level = !self.level;
        output.set(self.level)?;
        Ok(true)
    }
}

/// The inputs of the thread.
pub(super) struct Worker<P> {
    pub(super) port: P,
    pub(super) recorder: Recorder,
    pub(super) duration: Option<Nanos>,
    pub(super) warm_up: Nanos,
    pub(super) cost: SelfCost,
}

/// The result of the thread, in addition to the samples.
#[derive(Debug)]
pub(super) struct EdgeResult {
    /// Edges of the run, by the kernel's numbers.
    pub(super) edges: u64,
    /// Edges of the run that the thread read.
    pub(super) received: u64,
    /// Edges of the run that the kernel dropped.
    pub(super) dropped: u64,
    /// Edges before the start of the run.
    pub(super) early: u64,
    /// Changes of the output.
    pub(super) changes: u64,
    pub(super) parts: Parts,
}

/// The end of a run without a length.
pub(super) const NEVER: u64 = u64::MAX;

impl<P: Port> Worker<P> {
    /// Measures from `start` on. Stores the end of the run in `end`. From that time on, another
    /// thread must interrupt the wait of this one until it has ended.
    pub(super) fn run(
        mut self,
        control: &Control,
        start: Instant,
        end: &AtomicU64,
    ) -> Result<(WorkerOutcome, EdgeResult), Error> {
        let start = Nanos(start.as_nanos());
        let until = (self.duration).map_or(Nanos(NEVER), |duration| start + duration);
        end.store(until.0, Ordering::Release);
        self.recorder.start(start);
        let warm_until = start + self.warm_up;
        let mut seen = EdgeResult::new();
        let mut numbers = Numbers { last: 0, at: start };
        while !control.stopping() {
            let Some(edge) = self.port.wait()? else {
                // The last edge may have arrived together with the signal.
                if now() >= until && !self.port.has_edge(Duration::ZERO)? {
                    break;
                }
                continue;
            };
            let woke = now();
            let at = Nanos(edge.at.as_nanos());
            let is_of_run = at >= start && at < until;
            let is_set = is_of_run && self.port.answer()?;
            let done = if is_set { now() } else { woke };
            let gap = numbers.pass(edge.number, at.max(start));
            if at < start {
                seen.early += 1 + gap.count;
                continue;
            }
            let dropped = gap.before(until);
            if dropped > 0 {
                self.recorder.missed(gap.first, dropped, gap.step);
                seen.dropped += dropped;
                seen.edges += dropped;
            }
            if !is_of_run {
                break;
            }
            seen.edges += gap.own;
            seen.received += 1;
            seen.changes += u64::from(is_set);
            self.recorder.sample(at, done.signed_sub(at));
            if at >= warm_until {
                seen.parts.add(at, woke, done);
            }
        }
        Ok((self.recorder.finish(seen.edges, self.cost), seen))
    }
}

/// Follows the numbers that the kernel gives to the edges.
#[derive(Debug)]
struct Numbers {
    last: u32,
    /// Time of the last edge, or the start of the run.
    at: Nanos,
}

/// The numbers between two edges, which are those of dropped edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    count: u64,
    /// The kernel does not keep the times of dropped edges. They are assumed to be at regular
    /// distances.
    first: Nanos,
    step: Nanos,
    /// 1 for the edge after the gap; 0 if its number is not a new one.
    own: u64,
}

impl Numbers {
    fn pass(&mut self, number: u32, at: Nanos) -> Gap {
        let distance = u64::from(number.wrapping_sub(self.last));
        let step = Nanos(at.saturating_sub(self.at).0 / distance.max(1));
        let first = self.at + step;
        (self.last, self.at) = (number, at);
        Gap {
            count: distance.saturating_sub(1),
            first,
            step,
            own: distance.min(1),
        }
    }
}

impl Gap {
    /// Returns the number of dropped edges before a time.
    fn before(&self, end: Nanos) -> u64 {
        if self.first >= end {
            return 0;
        }
        let number = (end - self.first).0.div_ceil(self.step.0.max(1));
        number.min(self.count)
    }
}

impl EdgeResult {
    fn new() -> Self {
        Self {
            edges: 0,
            received: 0,
            dropped: 0,
            early: 0,
            changes: 0,
            parts: Parts::new(),
        }
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn dropped_edges_are_spread_over_the_gap() {
        let mut numbers = Numbers {
            last: 0,
            at: Nanos(1_000),
        };
        let next = numbers.pass(1, Nanos(1_500));
        assert_eq!((next.count, next.own), (0, 1));
        let gap = numbers.pass(5, Nanos(1_900));
        let expected = Gap {
            count: 3,
            first: Nanos(1_600),
            step: Nanos(100),
            own: 1,
        };
        assert_eq!(gap, expected);
        for (end, before) in [
            (1_000, 0),
            (1_600, 0),
            (1_601, 1),
            (1_700, 1),
            (1_800, 2),
            (1_801, 3),
            (NEVER, 3),
        ] {
            assert_eq!(gap.before(Nanos(end)), before, "{end}");
        }
    }

    #[test]
    fn numbers_wrap_around() {
        let mut numbers = Numbers {
            last: u32::MAX - 1,
            at: Nanos(0),
        };
        let gap = numbers.pass(1, Nanos(0));
        assert_eq!((gap.count, gap.step), (2, Nanos(0)));
        assert_eq!(gap.before(Nanos(1)), 1);
        assert_eq!(gap.before(Nanos(2)), 2);
        let repeated = numbers.pass(1, Nanos(7));
        assert_eq!((repeated.count, repeated.own), (0, 0));
    }
}
