//! The three threads of one CPU.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_model::{Nanos, SignedNanos};
use punctual_rt::{
    Clock, Error, Instant, Mutex, Nanosleep, PeriodicWait, Semaphore, Waited, Wake, spin_for,
    spin_until,
};

use crate::run::end_of;
use crate::thread_group::Member;
use crate::{Control, ProbeError, Recorder, SelfCost, WorkerOutcome};

/// The clock used for the sleeps and for all time stamps.
pub(super) const CLOCK: Clock = Clock::Monotonic;

/// The times that the threads of all CPUs share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) hold: Nanos,
    pub(super) spin: Nanos,
    pub(super) interval: Nanos,
    pub(super) duration: Option<Nanos>,
}

impl Times {
    /// Returns the cycles, once they begin; `None` if the run is cancelled.
    fn begin(&self, member: &Member) -> Option<Cycles> {
        let start = Nanos(member.begin()?.as_nanos());
        Some(Cycles {
            start,
            interval: self.interval,
            end: end_of(start, self.duration),
        })
    }
}

/// The times of the cycles.
#[derive(Clone, Copy, Debug)]
struct Cycles {
    start: Nanos,
    end: Nanos,
    interval: Nanos,
}

impl Cycles {
    fn at(&self, cycle: u64) -> Nanos {
        self.start + Nanos(self.interval.0.saturating_mul(cycle))
    }

    /// Returns the last cycle that is due by `now`. `cycle` must already be due.
    fn latest(&self, cycle: u64, now: Nanos) -> u64 {
        let until = now.min(self.end - Nanos(1));
        cycle.max((until - self.start).0 / self.interval.0)
    }
}

/// The state that the three threads of one CPU share. If there are several locks, they are used in
/// turn, one per cycle.
#[derive(Debug)]
pub(super) struct Shared {
    locks: Vec<Mutex<()>>,
    /// Wakes the high thread when the low thread holds the lock.
    held: Semaphore,
    /// Wakes the middle thread.
    go: Semaphore,
    /// Number of cycles begun, including the current one.
    cycles: AtomicU64,
    /// Number of cycles that the high thread has finished.
    finished: AtomicU64,
    /// Number of cycles in which the middle thread started to spin.
    spun: AtomicU64,
    /// Number of cycles that came due, once known.
    due: AtomicU64,
    ended: AtomicBool,
}

impl Shared {
    pub(super) fn new(locks: Vec<Mutex<()>>) -> Result<Self, Error> {
        Ok(Self {
            locks,
            held: Semaphore::new(0)?,
            go: Semaphore::new(0)?,
            cycles: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            spun: AtomicU64::new(0),
            due: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        })
    }

    fn lock_of(&self, cycle: u64) -> usize {
        (cycle % self.locks.len() as u64) as usize
    }

    /// Waits for a post. Returns false at the end of the run.
    #[inline]
    fn wait(&self, semaphore: &Semaphore) -> Result<bool, Error> {
        while semaphore.wait()? == Waited::Interrupted {}
        Ok(!self.ended.load(Ordering::Acquire))
    }
}

/// Releases the other two threads, no matter how the low thread ends.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        // These calls fail only at 2^31 posts.
        let _ = self.0.held.post();
        let _ = self.0.go.post();
    }
}

/// Runs the low thread, which takes the lock, wakes the high thread, and works.
pub(super) fn low(shared: &Shared, times: &Times, member: &Member) -> Result<(), ProbeError> {
    let _ending = Ending(shared);
    if let Some(cycles) = times.begin(member) {
        hold(shared, times, &cycles, member.control())?;
    }
    Ok(())
}

fn hold(shared: &Shared, times: &Times, cycles: &Cycles, control: &Control) -> Result<(), Error> {
    let mut sleep = Nanosleep::new(CLOCK)?;
    let mut cycle = 0;
    while !control.stopping() && cycles.at(cycle) < cycles.end {
        let due = Instant::from_nanos(cycles.at(cycle).0);
        if sleep.wait_until(due)? == Wake::Interrupted || control.stopping() {
            continue;
        }
        cycle = cycles.latest(cycle, Nanos(CLOCK.now().as_nanos()));
        let begun = shared.cycles.load(Ordering::Relaxed);
        // The other threads have higher priority, so when this thread runs, they have finished,
        // unless the kernel is throttling them.
        if begun == 0 || shared.finished.load(Ordering::Acquire) == begun {
            shared.cycles.store(cycle + 1, Ordering::Release);
            let guard = shared.locks[shared.lock_of(cycle)].lock()?;
            // From here on, the high thread runs until it has to wait for the lock.
            shared.held.post()?;
            spin_for(times.hold.into());
            drop(guard);
        }
        cycle += 1;
        shared.due.store(cycle, Ordering::Release);
    }
    Ok(())
}

/// The middle thread, which needs no lock and keeps the CPU busy.
pub(super) fn middle(shared: &Shared, times: &Times, member: &Member) -> Result<(), ProbeError> {
    if times.begin(member).is_none() {
        return Ok(());
    }
    while shared.wait(&shared.go)? {
        shared
            .spun
            .store(shared.cycles.load(Ordering::Acquire), Ordering::Release);
        // Spins until a time on the clock, so that the spin always ends.
        spin_until(CLOCK.now() + times.spin.into());
    }
    Ok(())
}

/// The results of the high thread for one lock.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) worker: WorkerOutcome,
    /// Number of cycles in which the middle thread ran before the high thread got the lock.
    pub(super) overtaken: u64,
    /// Number of cycles in which the middle thread did not run.
    pub(super) undisturbed: u64,
}

/// The sample accounting of one lock.
struct Account {
    recorder: Recorder,
    /// Number of cycles of this lock that are already accounted for.
    turns: u64,
    overtaken: u64,
    undisturbed: u64,
}

/// The high thread, which takes the lock and records how long it waits. Returns `None` if the run
/// was cancelled before it began.
pub(super) fn high(
    shared: &Shared,
    recorders: Vec<Recorder>,
    times: &Times,
    member: &Member,
) -> Result<Option<Vec<Waits>>, ProbeError> {
    let cost = SelfCost::measure(CLOCK);
    let Some(cycles) = times.begin(member) else {
        return Ok(None);
    };
    let mut accounts: Vec<Account> = recorders
        .into_iter()
        .map(|mut recorder| {
            recorder.start(cycles.start);
            Account {
                recorder,
                turns: 0,
                overtaken: 0,
                undisturbed: 0,
            }
        })
        .collect();
    ask(shared, &mut accounts, &cycles)?;
    Ok(Some(finish(shared, accounts, &cycles, cost)))
}

/// The measuring loop.
fn ask(shared: &Shared, accounts: &mut [Account], cycles: &Cycles) -> Result<(), Error> {
    while shared.wait(&shared.held)? {
        let begun = shared.cycles.load(Ordering::Acquire);
        let cycle = begun - 1;
        let place = shared.lock_of(cycle);
        // From here on, the middle thread is ready, but it runs only once this thread is waiting.
        shared.go.post()?;
        let asked = Nanos(CLOCK.now().as_nanos());
        let guard = shared.locks[place].lock()?;
        let now = Nanos(CLOCK.now().as_nanos());
        drop(guard);
        let account = &mut accounts[place];
        let locks = shared.locks.len() as u64;
        account.missed(cycle / locks, place as u64, locks, cycles);
        account.turns += 1;
        let before = account.recorder.recorded();
        account.recorder.sample(asked, waited(asked, now));
        if account.recorder.recorded() > before {
            let overtaken = shared.spun.load(Ordering::Acquire) == begun;
            account.overtaken += u64::from(overtaken);
            account.undisturbed += u64::from(!overtaken);
        }
        shared.finished.store(begun, Ordering::Release);
    }
    Ok(())
}

#[inline]
fn waited(asked: Nanos, now: Nanos) -> SignedNanos {
    now.signed_sub(asked)
}

impl Account {
    /// Counts the cycles of this lock before `until` as missed.
    fn missed(&mut self, until: u64, place: u64, locks: u64, cycles: &Cycles) {
        while self.turns < until {
            let due = cycles.at(self.turns * locks + place);
            self.recorder.missed(due, 1, cycles.interval);
            self.turns += 1;
        }
    }
}

/// Returns how many of the first `due` cycles belong to the lock at `place`.
fn turns_of(due: u64, place: u64, locks: u64) -> u64 {
    (due + locks - 1 - place) / locks
}

fn finish(shared: &Shared, accounts: Vec<Account>, cycles: &Cycles, cost: SelfCost) -> Vec<Waits> {
    let (due, locks) = (
        shared.due.load(Ordering::Acquire),
        shared.locks.len() as u64,
    );
    accounts
        .into_iter()
        .zip(0..)
        .map(|(mut account, place)| {
            let expected = turns_of(due, place, locks);
            account.missed(expected, place, locks, cycles);
            Waits {
                worker: account.recorder.finish(expected, cost),
                overtaken: account.overtaken,
                undisturbed: account.undisturbed,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_add_up_to_the_cycles() {
        assert_eq!([turns_of(5, 0, 2), turns_of(5, 1, 2)], [3, 2]);
        for locks in 1..4 {
            for due in 0..20 {
                let sum: u64 = (0..locks).map(|place| turns_of(due, place, locks)).sum();
                assert_eq!(sum, due);
            }
        }
    }

    #[test]
    fn passed_cycles_are_found_until_end() {
        let cycles = Cycles {
            start: Nanos(100),
            end: Nanos(200),
            interval: Nanos(20),
        };
        assert_eq!(cycles.latest(1, Nanos(139)), 1);
        assert_eq!(cycles.latest(1, Nanos(140)), 2);
        assert_eq!(cycles.latest(1, Nanos(900)), 4);
    }
}
