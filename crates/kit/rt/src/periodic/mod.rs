//! A periodic loop that accounts for every period.

use std::time::Duration;

use crate::clock::nanos;
use crate::{Clock, Error, Instant, Nanosleep, PeriodicWait, Wake};

/// How to handle releases that passed while the previous job was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrunPolicy {
    /// They are missed, and the next job runs at the next release. Each job begins at a release,
    /// and the phase never changes.
    Skip,
    /// The jobs of up to this many of the latest passed releases run immediately one after another,
    /// oldest first. Older releases are missed. The phase never changes. Use this for work that
    /// must be done once per period, such as sampling a buffered input.
    CatchUp(u32),
    /// One job runs immediately, and the next periods are counted from that moment; other passed
    /// releases are missed. Use this for work that needs a minimum interval between jobs, not a
    /// fixed phase.
    Rephase,
}

/// Accounting of a [`Periodic`]: `due = run + missed` after each wait.
///
/// `due` is computed from the release times, and the other two are counted one by one, so this
/// equation is a real check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodicAccount {
    /// Periods that came due.
    pub due: u64,
    /// Periods whose job ran.
    pub run: u64,
    /// Periods without a job.
    pub missed: u64,
    /// Number of jobs that ran late: their release had already passed when the wait began, or they
    /// began after the next release was due.
    pub late: u64,
}

impl PeriodicAccount {
    /// Returns whether `due = run + missed`.
    pub fn balances(&self) -> bool {
        self.due == self.run.saturating_add(self.missed)
    }
}

/// A job to run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Release time of the job.
    pub release: Instant,
    /// Time when the thread was awake, read from the clock after the wait.
    pub start: Instant,
    /// Periods missed between the previous job and this one.
    pub missed: u64,
}

impl Job {
    /// Returns the latency: `start - release` in nanoseconds, never negative.
    #[inline]
    pub fn latency_ns(&self) -> u64 {
        (self.start.as_nanos()).saturating_sub(self.release.as_nanos())
    }
}

/// A loop with a period: absolute release times, an [`OverrunPolicy`], complete accounting, and a
/// phase that can follow an external clock.
///
/// ```
/// use std::time::Duration;
/// use punctual_rt::{OverrunPolicy, Periodic};
///
/// let mut periodic = Periodic::new(Duration::from_millis(1), OverrunPolicy::Skip)?;
/// let mut jobs = 0;
/// while jobs < 5 {
///     // None: a signal handler ran; check a stop flag here.
///     let Some(job) = periodic.wait()? else { continue };
///     // ... the work, done before job.release + 1 ms ...
///     jobs += 1;
///     assert!(job.start >= job.release);
/// }
/// assert!(periodic.account().balances());
/// # Ok::<(), punctual_rt::Error>(())
/// ```
///
/// An iteration costs two clock reads and the system call of the wait. It does not allocate, lock,
/// or use floating point.
#[derive(Debug)]
pub struct Periodic<W = Nanosleep> {
    wait: W,
    clock: Clock,
    period: u64,
    policy: OverrunPolicy,
    /// The release of the next job.
    next: u64,
    /// Releases are at `base + n * period`; `before` releases were due before `base`.
    base: u64,
    before: u64,
    run: u64,
    missed: u64,
    late: u64,
    /// Releases missed since the last job, and whether the release had passed when the wait began.
    skipped: u64,
    overran: bool,
}

impl Periodic {
    /// Creates a loop on CLOCK_MONOTONIC that waits with `clock_nanosleep(2)`. The first release is
    /// one period from now.
    ///
    /// # Errors
    /// Returns [`Error::IntervalZero`] for an empty period.
    pub fn new(period: Duration, policy: OverrunPolicy) -> Result<Self, Error> {
        let first = Clock::Monotonic.now() + period;
        Self::starting_at(Clock::Monotonic, first, period, policy)
    }

    /// Creates a loop whose first release is at `first` on `clock`. Loops with the same start and
    /// multiples of one period stay in phase.
    ///
    /// # Errors
    /// Returns [`Error::IntervalZero`] for an empty period, and [`Error::ClockUnsupported`] for
    /// [`Clock::MonotonicRaw`].
    pub fn starting_at(
        clock: Clock,
        first: Instant,
        period: Duration,
        policy: OverrunPolicy,
    ) -> Result<Self, Error> {
        Self::with_wait(Nanosleep::new(clock)?, clock, first, period, policy)
    }
}

impl<W: PeriodicWait> Periodic<W> {
    /// Creates a loop that uses another kind of wait, created with `clock`. A
    /// [`TimerFd`](crate::TimerFd) or [`SignalTimer`](crate::SignalTimer) only supports the
    /// releases `first + n * period`: do not change the phase or use [`OverrunPolicy::Rephase`]
    /// with them.
    ///
    /// # Errors
    /// Returns [`Error::IntervalZero`] for an empty period.
    pub fn with_wait(
        wait: W,
        clock: Clock,
        first: Instant,
        period: Duration,
        policy: OverrunPolicy,
    ) -> Result<Self, Error> {
        if period.is_zero() {
            return Err(Error::IntervalZero);
        }
        Ok(Self {
            wait,
            clock,
            period: nanos(period),
            policy,
            next: first.as_nanos(),
            base: first.as_nanos(),
            before: 0,
            run: 0,
            missed: 0,
            late: 0,
            skipped: 0,
            overran: false,
        })
    }

    /// Waits for the next job. Returns `None` if a signal handler ran first; call it again to
    /// continue.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn wait(&mut self) -> Result<Option<Job>, Error> {
        let now = self.clock.now().as_nanos();
        if now >= self.next {
            self.overrun(now);
        }
        // A passed release ends the wait at once (clock_nanosleep(2)). Wait anyway, because a loop
        // that never sleeps would not notice a signal.
        let release = Instant::from_nanos(self.next);
        if self.wait.wait_until(release)? == Wake::Interrupted {
            return Ok(None);
        }
        let start = self.clock.now();
        let late = start.as_nanos().saturating_sub(self.next) >= self.period;
        self.late += u64::from(late || self.overran);
        self.overran = false;
        self.run += 1;
        self.next = self.next.saturating_add(self.period);
        let missed = std::mem::take(&mut self.skipped);
        Ok(Some(Job {
            release,
            start,
            missed,
        }))
    }

    /// Handles passed releases. After an interrupted wait, another call continues where this one
    /// stopped.
    #[cold]
    fn overrun(&mut self, now: u64) {
        // The release at `next` has passed as well, hence + 1.
        let passed = (now - self.next) / self.period + 1;
        let missed = match self.policy {
            OverrunPolicy::Skip => passed,
            OverrunPolicy::CatchUp(most) => passed.saturating_sub(most.into()),
            OverrunPolicy::Rephase => passed - 1,
        };
        self.missed += missed;
        self.skipped += missed;
        self.next = self.next.saturating_add(missed.saturating_mul(self.period));
        self.overran = missed < passed;
        if self.policy == OverrunPolicy::Rephase {
            self.set_next(now);
        }
    }

    /// Moves the next release and all later ones.
    fn set_next(&mut self, next: u64) {
        self.before = self.due();
        self.base = next;
        self.next = next;
    }

    /// Returns the number of due periods, computed from the release times.
    fn due(&self) -> u64 {
        self.before + (self.next - self.base) / self.period
    }

    /// Returns the accounting so far.
    #[inline]
    pub fn account(&self) -> PeriodicAccount {
        PeriodicAccount {
            due: self.due(),
            run: self.run,
            missed: self.missed,
            late: self.late,
        }
    }

    /// Returns the release of the next wait.
    pub fn next_release(&self) -> Instant {
        Instant::from_nanos(self.next)
    }

    /// Returns the period.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Moves the next release and all later ones by `ns` nanoseconds; a positive value moves them
    /// later. This does not make any period due or missed.
    pub fn shift_phase(&mut self, ns: i64) {
        self.set_next(self.next.saturating_add_signed(ns));
    }

    /// Follows an external phase, with an edge at `edge` as reported by a fieldbus or a PTP
    /// hardware clock. Moves the releases towards the phase `edge + offset + n * period` by at most
    /// `step`. Returns the error in nanoseconds; it is negative if the releases are ahead of that
    /// phase.
    ///
    /// If called once per period, this recovers the external clock without jumps: a step of 1 us
    /// per 1 ms follows drifts of up to 1000 ppm.
    pub fn follow(&mut self, edge: Instant, offset: Duration, step: Duration) -> i64 {
        let wanted = edge.as_nanos().saturating_add(nanos(offset)) % self.period;
        let ahead = (self.next % self.period + self.period - wanted) % self.period;
        // Map to half a period on each side.
        let ahead = if ahead > self.period / 2 {
            -((self.period - ahead) as i64)
        } else {
            ahead as i64
        };
        let most = i64::try_from(nanos(step)).unwrap_or(i64::MAX);
        self.shift_phase((-ahead).clamp(-most, most));
        -ahead
    }
}

#[cfg(test)]
mod tests;
