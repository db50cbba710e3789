//! The measuring thread, which measures the clocks one after another, round after round.

use std::hint::black_box;
use std::sync::Arc;

use punctual_model::{Delay, Histogram, Nanos, SignedNanos};
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait};

use super::reader::{Reader, Ruler, Steps};
use crate::monotonic::now;
use crate::{Control, Recorder, SelfCost, WorkerOutcome};

/// Number of consecutive reads that are timed together.
pub(super) const ROW: usize = 32;

/// Longest time without a sleep. The thread then sleeps for as long as it has spun, even in the
/// middle of a round.
const LONGEST_SPIN: Nanos = Nanos::from_millis(2);

/// The measurement of one clock, which has a turn in each round.
#[derive(Debug)]
pub(super) struct ClockWorker {
    pub(super) reader: Reader,
    pub(super) recorder: Recorder,
    /// Number of reads started.
    attempted: u64,
    /// The total time of [`ROW`] consecutive reads.
    row: Histogram,
    /// The time of a read by system call.
    direct: Histogram,
    steps: Steps,
}

/// The results of one clock.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) reader: Reader,
    pub(super) outcome: WorkerOutcome,
    pub(super) row: Histogram,
    pub(super) direct: Histogram,
    pub(super) steps: Steps,
}

/// The parameters of the rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) ruler: Ruler,
    /// Time from the start of one round to the start of the next.
    pub(super) interval: Nanos,
    /// Number of samples of each clock in a round.
    pub(super) samples: u64,
    /// Number of reads per sample.
    pub(super) batch: u64,
    /// The start of the run, when its first clock source is used.
    pub(super) begun: Nanos,
    /// No turn begins at or after this time.
    pub(super) end: Nanos,
}

impl ClockWorker {
    pub(super) fn new(reader: Reader, recorder: Recorder) -> Self {
        Self {
            reader,
            recorder,
            attempted: 0,
            row: Histogram::preallocated(),
            direct: Histogram::preallocated(),
            steps: Steps::default(),
        }
    }

    pub(super) fn finish(self, cost: SelfCost) -> Found {
        Found {
            reader: self.reader,
            outcome: self.recorder.finish(self.attempted, cost),
            row: self.row,
            direct: self.direct,
            steps: self.steps,
        }
    }

    /// Measures one turn: some samples, one row of consecutive reads, and one read by system call.
    /// The clock is selected before the measuring loops, not between two readings of the reference
    /// clock.
    fn turn(&mut self, rounds: &Rounds, own_cost: u64) {
        match self.reader {
            Reader::Posix(clock) => {
                self.samples(rounds, own_cost, || clock.read());
                self.row(rounds.ruler, own_cost, || clock.read());
                let start = rounds.ruler.now();
                black_box(clock.read_by_system_call());
                let spent = rounds.ruler.nanos(start, rounds.ruler.now());
                self.direct.record(signed(spent.saturating_sub(own_cost)));
            }
            Reader::Tsc(tsc, _) => {
                self.samples(rounds, own_cost, || tsc.read());
                self.row(rounds.ruler, own_cost, || tsc.read());
            }
        }
    }

    #[inline(always)]
    fn samples(&mut self, rounds: &Rounds, own_cost: u64, read: impl Fn() -> u64) {
        let Rounds { ruler, batch, .. } = *rounds;
        // The time of a sample is computed from the reference clock, because reading
        // CLOCK_MONOTONIC is a system call with some clock sources.
        let began = Clock::Monotonic.now().as_nanos();
        let zero = ruler.now();
        for _ in 0..rounds.samples {
            self.attempted += 1;
            let start = ruler.now();
            let mut reading = read();
            for _ in 1..batch {
                black_box(reading);
                reading = read();
            }
            let end = ruler.now();
            self.steps.see(reading);
            let spent = ruler.nanos(start, end);
            let at = Nanos(began + ruler.nanos(zero, start));
            self.recorder
                .sample(at, signed(per_read(spent, own_cost, batch)));
        }
    }

    #[inline(always)]
    fn row(&mut self, ruler: Ruler, own_cost: u64, read: impl Fn() -> u64) {
        let mut readings = [0; ROW];
        let start = ruler.now();
        for reading in &mut readings {
            *reading = read();
        }
        let spent = ruler.nanos(start, ruler.now());
        self.row.record(signed(spent.saturating_sub(own_cost)));
        for reading in black_box(readings) {
            self.steps.see(reading);
        }
    }
}

/// Returns the mean cost of one of `batch` reads, in whole nanoseconds, after subtracting the cost
/// of the reference clock once. The result is never negative, even though a read can take less than
/// the median cost of the reference clock.
fn per_read(spent: u64, own_cost: u64, batch: u64) -> u64 {
    let all = spent.saturating_sub(own_cost);
    (all + batch / 2) / batch.max(1)
}

fn signed(nanos: u64) -> SignedNanos {
    Nanos(nanos).signed_sub(Nanos::ZERO)
}

/// Gives each clock its turn, in a loop, until the end. Runs on the measuring thread.
pub(super) fn rounds(
    mut workers: Vec<ClockWorker>,
    rounds: Rounds,
    control: &Arc<Control>,
) -> Result<Vec<Found>, punctual_rt::Error> {
    let _entered = control.enter();
    let cost = SelfCost::measure(Clock::Monotonic);
    let mut wait = Nanosleep::new(Clock::Monotonic)?;
    let own_cost = rounds.ruler.own_cost();
    let mut awake = now();
    for worker in &mut workers {
        worker.recorder.start_late(rounds.begun, awake);
        if rounds.batch > 1 {
            // The mean of several reads is not a time span of the thread.
            worker.recorder.late_is(None, Delay::Step);
        }
    }
    let mut due = awake;
    'run: loop {
        for worker in &mut workers {
            let begins = now();
            if begins >= rounds.end || control.stopping() {
                break 'run;
            }
            if begins.saturating_sub(awake) > LONGEST_SPIN {
                sleep(&mut wait, rest(awake, begins), control)?;
                awake = now();
            }
            worker.turn(&rounds, own_cost);
        }
        due = (due + rounds.interval).max(rest(awake, now()));
        sleep(&mut wait, due.min(rounds.end), control)?;
        awake = now();
    }
    Ok(workers
        .into_iter()
        .map(|worker| worker.finish(cost))
        .collect())
}

/// Returns the end of the next sleep. It is chosen so that the thread spins at most half of the
/// time.
pub(super) fn rest(awake: Nanos, now: Nanos) -> Nanos {
    now + now.saturating_sub(awake)
}

/// Sleeps until `due`, or until the run is stopped.
pub(super) fn sleep(
    wait: &mut Nanosleep,
    due: Nanos,
    control: &Control,
) -> Result<(), punctual_rt::Error> {
    use punctual_rt::Wake;
    while !control.stopping() {
        if wait.wait_until(Instant::from_nanos(due.0))? == Wake::Due {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ruler_cost_is_subtracted_once_per_batch() {
        assert_eq!(per_read(35, 10, 1), 25);
        assert_eq!(per_read(1_610, 10, 64), 25);
        assert_eq!(per_read(8, 10, 1), 0);
        // Rounded to the nearest.
        assert_eq!(per_read(13, 10, 2), 2);
        assert_eq!(per_read(10 + 64 * 25 + 31, 10, 64), 25);
        assert_eq!(per_read(10 + 64 * 25 + 32, 10, 64), 26);
    }

    #[test]
    fn half_of_the_time_is_slept_through() {
        assert_eq!(rest(Nanos(1_000), Nanos(1_400)), Nanos(1_800));
        assert_eq!(rest(Nanos(1_400), Nanos(1_000)), Nanos(1_000));
    }
}
