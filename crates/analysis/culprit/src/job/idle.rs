//! Threads that are idle in several waits, such as the service threads of a Java virtual machine and
//! the monitor of Go's scheduler. A thread that does almost nothing between its sleeps has no job from
//! one of its idle waits to the next one.

use punctual_model::Nanos;

use super::call::Call;

/// Maximum number of idle waits of a thread, besides its release wait.
pub(super) const FURTHER: usize = 3;

/// Longest run time between two sleeps that is still a tiny burst.
const TINY: Nanos = Nanos::from_millis(1);

/// Minimum number of tiny bursts for each longer one.
const PER_LONG_BURST: u64 = 10;

/// Minimum ratio of the time asleep to the time on the CPU.
const ASLEEP_PER_RUN: u64 = 20;

/// Minimum number of times that new work or a timeout ended the waits at a place.
const ENDS: u64 = 3;

/// Minimum ratio of the lengths of two waits. A much shorter wait is a part of a job.
const SHORT: u64 = 8;

/// Minimum length of the sleeps of a thread that sleeps again and again at one place.
const LOOPED: Nanos = Nanos::from_millis(1);

/// Cause of the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// An interrupt. For a futex or a sleep, this is a timeout.
    Timeout,
    /// A thread that was released during the wait. It cannot have held a lock since the wait began.
    Passed,
    /// A thread that this thread woke in the same job, or that such a thread woke: an answer.
    Answered,
    /// A thread that was busy since before the wait. `is_peer`: whether it also waits at this place,
    /// as threads that share a lock do.
    Held { is_peer: bool },
}

/// Numbers of the ends of the waits at a place. Ends by threads that are not watched are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    timeouts: u64,
    passed: u64,
    answered: u64,
    held: u64,
    held_by_peers: u64,
}

impl Ends {
    pub(super) const fn add(&mut self, end: End) {
        match end {
            End::Timeout => self.timeouts += 1,
            End::Passed => self.passed += 1,
            End::Answered => self.answered += 1,
            End::Held { is_peer: false } => self.held += 1,
            End::Held { is_peer: true } => self.held_by_peers += 1,
        }
    }

    /// Returns whether the waits are for a lock: most of them were ended by threads that also wait
    /// here, and that were not released in between.
    pub(super) const fn are_of_lock(&self) -> bool {
        let others = self.timeouts + self.passed + self.answered + self.held;
        self.held_by_peers >= ENDS && self.held_by_peers > others
    }

    /// Returns whether three quarters of the ends are timeouts or new work, and half of the waits
    /// have a known end.
    const fn are_idle(&self, waits: u64) -> bool {
        let idle = self.timeouts + self.passed;
        let busy = self.answered + self.held + self.held_by_peers;
        idle >= ENDS && idle >= 3 * busy && 2 * (idle + busy) >= waits
    }

    /// Returns whether all known ends are timeouts or new work, but too few to be sure. The place is
    /// judged some waits after the last of them.
    pub(super) const fn may_be_idle(&self) -> bool {
        let idle = self.timeouts + self.passed;
        let busy = self.answered + self.held + self.held_by_peers;
        busy == 0 && idle > 0 && idle <= ENDS
    }

    const fn are_new_work(&self) -> bool {
        self.passed > self.timeouts
    }
}

/// The run times between the sleeps of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bursts {
    count: u64,
    long: u64,
    run: Nanos,
    asleep: Nanos,
}

impl Bursts {
    /// Adds the time on the CPU between two sleeps, and the length of the second sleep.
    pub(super) fn add(&mut self, run: Nanos, asleep: Nanos) {
        self.count += 1;
        self.long += u64::from(run > TINY);
        self.run += run;
        self.asleep += asleep;
    }

    pub(super) fn are_tiny(&self) -> bool {
        self.long.saturating_mul(PER_LONG_BURST) <= self.count
            && self.run.0.saturating_mul(ASLEEP_PER_RUN) <= self.asleep.0
    }
}

/// The waits at a place where a thread may be idle: in a futex that is not a lock, or until a time.
/// A wait for a descriptor may be for the answer of a peer, which no event shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) call: Call,
    pub(super) count: u64,
    /// Median length of a wait.
    pub(super) length: Nanos,
    pub(super) period: Option<Nanos>,
    pub(super) ends: Ends,
    /// Number of waits after which the next wait was at the same place.
    pub(super) repeated: u64,
}

impl Place {
    /// Returns whether the thread usually waits here again and again.
    const fn is_loop(&self) -> bool {
        2 * self.repeated >= self.count
    }

    /// Returns whether the thread is idle here too, if it is idle at `first`.
    fn is_idle_besides(&self, first: &Self) -> bool {
        // The period of a thread that other threads release is that of their work.
        let period = first.period.filter(|_| !first.ends.are_new_work());
        let is_long = match period {
            // A wait within the job of a periodic thread is shorter than its period.
            Some(period) => self.length >= period,
            // A thread that sleeps once in a job for a time of its choice is not idle.
            None if self.ends.are_new_work() => self.length.0 >= first.length.0 / SHORT,
            // Its own timers release the thread from both waits, or it sleeps here again and again.
            None if self.is_loop() || !first.ends.are_new_work() => {
                self.length >= LOOPED || self.length.0 >= first.length.0 / SHORT
            }
            None => first.is_loop() && self.length >= first.length,
        };
        self.ends.are_idle(self.count) && is_long
    }
}

/// Returns the idle waits other than `first`. There are none if the thread does more than tiny bursts
/// of work, or if there would be more than four idle waits in total. Those in `known` stay idle waits,
/// so that the choice does not alternate.
pub(super) fn further(
    (first, known): (Call, &[Call]),
    places: &[Place],
    bursts: &Bursts,
) -> Vec<Call> {
    let Some(first) = places.iter().find(|place| place.call == first) else {
        return Vec::new();
    };
    if !bursts.are_tiny() {
        return Vec::new();
    }
    let others = places.iter().filter(|place| place.call != first.call);
    let idle = others.filter(|place| known.contains(&place.call) || place.is_idle_besides(first));
    let idle: Vec<Call> = idle.map(|place| place.call).collect();
    if idle.len() > FURTHER {
        return Vec::new();
    }
    idle
}
