//! A periodic loop whose account balances.

use std::time::Duration;

use crate::clock::nanos;
use crate::{Clock, Error, Instant, Nanosleep, PeriodicWait, Wake};

/// What becomes of releases that passed while the job before them ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrunPolicy {
    /// They are missed; the next job is run at the next release. Each job begins at a
    /// release, and the phase never changes.
    Skip,
    /// Up to so many are run at once, one after the other, the oldest first; older ones
    /// are missed. The phase never changes. For work that has to be done once for each
    /// period, such as a sample of an input that is buffered.
    CatchUp(u32),
    /// One job is run at once, and periods count from that moment on; releases between
    /// are missed. For work that needs a distance in time, not a phase.
    Rephase,
}

/// The account of a [`Periodic`]: `due = run + missed` after each wait.
///
/// `due` follows from the releases' times, the others are counted one by one, so that
/// the balance is a check and not a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodicAccount {
    /// Periods that came due.
    pub due: u64,
    /// Periods whose job was run.
    pub run: u64,
    /// Periods without a job.
    pub missed: u64,
    /// Of those run: jobs that began when their release had passed already as the wait
    /// began, or when the next one was due.
    pub late: u64,
}

impl PeriodicAccount {
    /// Whether `due = run + missed`.
    pub fn balances(&self) -> bool {
        self.due == self.run.saturating_add(self.missed)
    }
}

/// One job that is to be run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it was due.
    pub release: Instant,
    /// When the thread was awake for it: read from the clock after the wait.
    pub start: Instant,
    /// Periods missed between the job before and this one.
    pub missed: u64,
}

impl Job {
    /// How late it started: `start - release` in nanoseconds, never negative.
    #[inline]
    pub fn latency_ns(&self) -> u64 {
        (self.start.as_nanos()).saturating_sub(self.release.as_nanos())
    }
}

/// A loop with a period: absolute times, an [`OverrunPolicy`], an account that
/// balances, and a phase that an external clock can steer.
///
/// ```
/// use std::time::Duration;
/// use punctual_rt::{OverrunPolicy, Periodic};
///
/// let mut periodic = Periodic::new(Duration::from_millis(1), OverrunPolicy::Skip)?;
/// let mut jobs = 0;
/// while jobs < 5 {
///     // None: a signal handler ran; the place to look at a stop flag.
///     let Some(job) = periodic.wait()? else { continue };
///     // ... the work, done before job.release + 1 ms ...
///     jobs += 1;
///     assert!(job.start >= job.release);
/// }
/// assert!(periodic.account().balances());
/// # Ok::<(), punctual_rt::Error>(())
/// ```
///
/// A turn costs two readings of the clock and the wait's system call. It makes no
/// allocation, takes no lock and uses no floating point.
#[derive(Debug)]
pub struct Periodic<W = Nanosleep> {
    wait: W,
    clock: Clock,
    period: u64,
    policy: OverrunPolicy,
    /// The release that has not been handed out yet.
    next: u64,
    /// Releases are at `base + n * period`, and `before` were due ahead of `base`.
    base: u64,
    before: u64,
    run: u64,
    missed: u64,
    late: u64,
    /// Missed since the last job; the release of the wait had passed when it began.
    skipped: u64,
    overran: bool,
}

impl Periodic {
    /// A loop on CLOCK_MONOTONIC that waits by `clock_nanosleep(2)`, and whose first
    /// release is one period from now.
    ///
    /// # Errors
    /// [`Error::IntervalZero`].
    pub fn new(period: Duration, policy: OverrunPolicy) -> Result<Self, Error> {
        let first = Clock::Monotonic.now() + period;
        Self::starting_at(Clock::Monotonic, first, period, policy)
    }

    /// A loop whose first release is at `first` on `clock`: loops that are given the
    /// same start and multiples of one period stay in phase.
    ///
    /// # Errors
    /// [`Error::IntervalZero`]; [`Error::ClockUnsupported`] for
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
    /// A loop that waits in another way, on the `clock` that the wait was made with. A
    /// [`TimerFd`](crate::TimerFd) or [`SignalTimer`](crate::SignalTimer) knows the
    /// releases `first + n * period` only: the phase must then not be changed, nor the
    /// policy be [`OverrunPolicy::Rephase`].
    ///
    /// # Errors
    /// [`Error::IntervalZero`].
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

    /// Waits for the next job. `None`: a signal handler ran first; waiting again goes
    /// on.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn wait(&mut self) -> Result<Option<Job>, Error> {
        let now = self.clock.now().as_nanos();
        if now >= self.next {
            self.overrun(now);
        }
        // A release that has passed ends the wait at once (clock_nanosleep(2)), but a
        // loop that never sleeps would not see a signal: so it waits in any case.
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

    /// Releases have passed: what becomes of them. Called again after an interrupted
    /// wait, it goes on where it was.
    #[cold]
    fn overrun(&mut self, now: u64) {
        // With the one at `next`.
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

    /// Periods that came due, by the releases' times.
    fn due(&self) -> u64 {
        self.before + (self.next - self.base) / self.period
    }

    /// What became of the periods so far.
    #[inline]
    pub fn account(&self) -> PeriodicAccount {
        PeriodicAccount {
            due: self.due(),
            run: self.run,
            missed: self.missed,
            late: self.late,
        }
    }

    /// The release that the next wait is for.
    pub fn next_release(&self) -> Instant {
        Instant::from_nanos(self.next)
    }

    /// The period.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Moves the next release and all later ones by so many nanoseconds: later where
    /// positive. No period is due or missed by it.
    pub fn shift_phase(&mut self, ns: i64) {
        self.set_next(self.next.saturating_add_signed(ns));
    }

    /// Follows an external phase: an edge of it was at `edge`, as a fieldbus or a PTP
    /// hardware clock says. The releases are moved towards the phase `edge + offset +
    /// n * period`, by at most `step` at a time. Returns the error that was seen, in
    /// nanoseconds: negative where the releases are ahead of that phase.
    ///
    /// Called once for each period it is a clock recovery without jumps: with a step of
    /// 1 us in 1 ms, drifts of up to 1000 ppm are followed.
    pub fn follow(&mut self, edge: Instant, offset: Duration, step: Duration) -> i64 {
        let wanted = edge.as_nanos().saturating_add(nanos(offset)) % self.period;
        let ahead = (self.next % self.period + self.period - wanted) % self.period;
        // Into the half period on each side.
        let ahead = match ahead > self.period / 2 {
            true => -((self.period - ahead) as i64),
            false => ahead as i64,
        };
        let most = i64::try_from(nanos(step)).unwrap_or(i64::MAX);
        self.shift_phase((-ahead).clamp(-most, most));
        -ahead
    }
}

#[cfg(test)]
mod tests;
