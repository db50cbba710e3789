//! State of a thread between events, and the steps that events cause.

use punctual_model::{Comm, EventKind, KernelPriority, Nanos, TraceEvent};

use super::pi_locks::FUTEX_OPERATION;
use super::release::{Call, Releases};

/// Numbers of some system calls on the recorded machine. On 32-bit architectures, some calls have
/// two numbers.
#[derive(Clone, Debug, Default)]
pub struct CallNumbers {
    /// Numbers of restart_syscall(2).
    pub restart: Vec<i64>,
    /// Numbers of futex(2).
    pub futex: Vec<i64>,
    /// Numbers of sched_yield(2), which ends a job of SCHED_DEADLINE.
    pub sched_yield: Vec<i64>,
}

/// A call of futex(2), by its operation.
pub(super) enum FutexCall {
    Waits(Call),
    /// Waits for a lock with priority inheritance.
    LocksPi(Call),
    /// Wakes other threads.
    Wakes(Call),
}

impl CallNumbers {
    /// Returns `None` if this is another system call.
    pub(super) fn futex_call(&self, id: i64, [address, operation]: [u64; 2]) -> Option<FutexCall> {
        let call = Call {
            id,
            argument: address & !7,
        };
        self.futex
            .contains(&id)
            .then_some(match operation & FUTEX_OPERATION {
                // FUTEX_LOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_LOCK_PI2.
                6 | 8 | 13 => FutexCall::LocksPi(call),
                // FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI.
                0 | 9 | 11 => FutexCall::Waits(call),
                _ => FutexCall::Wakes(call),
            })
    }
}

/// The stage of the recorder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stages {
    /// Whether only sleeps, switches and wake-ups are recorded, but no system calls.
    pub(super) light: bool,
    /// Whether there has been a light stage.
    pub(super) both: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) comm: Comm,
    pub(super) prio: KernelPriority,
    /// The current system call, and its entry time.
    pub(super) call: Option<(Call, Nanos)>,
    pub(super) last_call: Option<Call>,
    pub(super) running: Option<Nanos>,
    pub(super) ran: Nanos,
    pub(super) asleep: Option<Nanos>,
    /// Time at which the thread gave up the rest of its SCHED_DEADLINE runtime, until the next
    /// period.
    pub(super) yielded: Option<Nanos>,
    /// Whether the thread has slept in the current call without an event that shows its wake-up.
    pub(super) wakeup_missing: bool,
    /// Whether the thread may be in a system call whose entry was not recorded, because the full
    /// stage began meanwhile.
    pub(super) entry_missing: bool,
    pub(super) open: Option<Open>,
    /// Time until which the thread wants to sleep in the current call, if known.
    pub(super) until: Option<Nanos>,
    /// Last wake-up of the thread.
    pub(super) woken: Option<Nanos>,
    /// Whether a signal or a debugger has interrupted the release wait, which will continue.
    pub(super) interrupted: bool,
    /// The stop in the release wait.
    pub(super) stop: Option<Stop>,
}

/// A stop by a signal or a debugger. Until then, the thread was in its release wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    from: Nanos,
    ran_before: Nanos,
    /// Time of the wake-up for the stop.
    events_from: Nanos,
}

/// A job in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) release: Nanos,
    pub(super) ran_before: Nanos,
    pub(super) events_from: Nanos,
    /// Whether the thread has not left its release wait yet.
    pub(super) fresh: bool,
    /// Whether the job was released without a wait.
    pub(super) at_once: bool,
    /// Whether a part of it was in the light stage. The thread may have left its release wait
    /// several times without a sleep, so this may be several jobs.
    pub(super) light: bool,
    /// Time at which the thread entered its release wait, and how long it had run until then. It is
    /// not known yet whether the thread sleeps.
    pub(super) ending: Option<(Nanos, Nanos)>,
}

/// Result of an event for a thread.
pub(super) enum Step {
    Waited(Option<Call>, Nanos, Nanos),
    Completed(Open),
    AtOnce,
    /// The job was released at an unknown time during a stop of this length.
    InStop(Nanos),
    /// The open job was several jobs, the last of which has ended now.
    Several,
    /// The release wait has ended, but no event shows when.
    ReleaseUnknown,
}

/// Return values of an interrupted system call that continues later: ERESTARTSYS to
/// ERESTART_RESTARTBLOCK (`include/linux/errno.h`).
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl State {
    pub(super) fn ran_until(&self, now: Nanos) -> Nanos {
        let open = self
            .running
            .map_or(Nanos::ZERO, |since| now.saturating_sub(since));
        self.ran + open
    }

    pub(super) fn is_in(&self, release: Releases) -> bool {
        release.has(self.call.map(|(call, _)| call))
    }

    /// Begins a job that was released without a wait at `since`. If the thread was stopped in its
    /// release wait until then, the job may have been due during the stop.
    fn begins_at_once(&mut self, since: Nanos, stop: Option<Stop>) -> Option<Step> {
        let due = stop.zip(self.until);
        let due = due.filter(|(stop, due)| (stop.events_from..=since).contains(due));
        let open = Open {
            release: since,
            ran_before: self.ran_until(since),
            events_from: since,
            fresh: false,
            at_once: true,
            light: false,
            ending: None,
        };
        if let Some((stop, due)) = due {
            self.open = Some(Open {
                release: due,
                ran_before: stop.ran_before,
                events_from: stop.events_from,
                ..open
            });
            return None;
        }
        self.open = Some(open);
        Some(stop.map_or(Step::AtOnce, |stop| {
            Step::InStop(since.saturating_sub(stop.from))
        }))
    }

    /// Handles the entry of a system call. Returns whether it is another call, and not the
    /// continuation of one that a signal interrupted; `None` if that one is unknown.
    fn enters(
        &mut self,
        id: i64,
        args: [u64; 2],
        now: Nanos,
        numbers: &CallNumbers,
    ) -> Option<bool> {
        let again = numbers.restart.contains(&id);
        let call = match numbers.futex_call(id, args) {
            _ if again => self.last_call?,
            Some(FutexCall::Wakes(_)) => {
                self.call = None;
                (self.wakeup_missing, self.entry_missing) = (false, false);
                return Some(true);
            }
            Some(FutexCall::Waits(call) | FutexCall::LocksPi(call)) => call,
            None => Call {
                id,
                argument: args[0],
            },
        };
        self.call = Some((call, now));
        self.last_call = Some(call);
        (self.wakeup_missing, self.entry_missing) = (false, false);
        Some(!again)
    }

    /// Handles the end of a wait. If it was the release wait, a job begins.
    fn wakes(&mut self, since: Nanos, now: Nanos, release: Releases) -> Step {
        if self.is_in(release) {
            self.open = Some(Open {
                release: now,
                ran_before: self.ran,
                events_from: now,
                fresh: true,
                at_once: false,
                light: false,
                ending: None,
            });
        }
        Step::Waited(self.call.map(|(call, _)| call), since, now)
    }

    pub(super) fn step(
        &mut self,
        tid: u32,
        event: &TraceEvent,
        release: Releases,
        (numbers, stages): (&CallNumbers, Stages),
    ) -> Option<Step> {
        let now = event.time;
        match &event.kind {
            EventKind::SysEnter { id, args } => {
                let entered = self.enters(*id, *args, now, numbers)?;
                if entered {
                    self.until = None;
                }
                if !self.is_in(release) {
                    (self.interrupted, self.stop) = (false, None);
                }
                if !entered || !self.is_in(release) {
                    return None;
                }
                // If the thread does not sleep now, it may have returned without a sleep before. A
                // thread of a pool only looks for more work then.
                let is_pool = release.are_two();
                let ran = self.ran_until(now);
                if let Some(open) = self.open.as_mut().filter(|open| open.light || is_pool) {
                    open.ending = Some((now, ran));
                    return None;
                }
                self.open.take().map(Step::Completed)
            }
            EventKind::SleepsIn { id, args } => {
                if !stages.light && !self.entry_missing {
                    let ends = self.open.take_if(|open| open.ending.is_some());
                    return ends.map(Step::Completed);
                }
                if *id < 0 {
                    (self.call, self.entry_missing) = (None, false);
                    return None;
                }
                let entered = self.enters(*id, *args, now, numbers)?;
                (entered && self.is_in(release)).then(|| self.open.take().map(Step::Completed))?
            }
            EventKind::SysExit { ret, .. } => {
                let here = self.is_in(release);
                let entered = self.call.take();
                self.entry_missing = false;
                if RESTARTS.contains(ret) {
                    // A signal is not a release.
                    self.open.take_if(|open| here && open.fresh);
                    self.interrupted = here && self.open.is_none();
                    return None;
                }
                self.interrupted = false;
                let stop = self.stop.take().filter(|_| here);
                // The switch back to the thread may be missing as well.
                let wakeup_missing = std::mem::take(&mut self.wakeup_missing)
                    | self.asleep.take().is_some()
                    | self.yielded.take().is_some();
                let is_pool = release.are_two();
                let goes_on =
                    |open: &&mut Open| open.ending.is_none() || (is_pool && !wakeup_missing);
                if let Some(open) = self.open.as_mut().filter(goes_on) {
                    (open.fresh, open.ending) = (false, None);
                } else if here && wakeup_missing {
                    return Some(Step::ReleaseUnknown);
                } else if is_pool {
                    return None;
                } else if let Some((_, since)) = entered.filter(|_| here) {
                    let several = self.open.is_some();
                    let step = self.begins_at_once(since, stop);
                    return if several { Some(Step::Several) } else { step };
                }
                None
            }
            EventKind::SleepUntil { until } => {
                if self.call.is_some() {
                    self.until = Some(*until);
                }
                None
            }
            EventKind::Switch {
                prev, prev_state, ..
            } if prev.pid == tid => {
                (self.comm, self.prio) = (prev.comm, prev.prio);
                self.ran = self.ran_until(now);
                self.running = None;
                let yields = self
                    .call
                    .is_some_and(|(call, _)| numbers.sched_yield.contains(&call.id));
                if yields && prev_state.is_runnable() && prev.prio.0 < 0 {
                    self.yielded = Some(now);
                }
                if prev_state.is_stopped() || prev_state.is_traced() {
                    if self.interrupted && self.stop.is_none() {
                        self.stop = Some(Stop {
                            from: now,
                            ran_before: self.ran,
                            events_from: self.woken.unwrap_or(now),
                        });
                    }
                } else if !prev_state.is_runnable() {
                    self.asleep = Some(now);
                    // The job was not due at the end of the stop.
                    self.stop = None;
                    // The thread checked its condition and continued to wait.
                    let here = self.is_in(release);
                    self.open.take_if(|open| here && open.fresh);
                    let ends = self.open.take_if(|open| here && open.ending.is_some());
                    return ends.map(Step::Completed);
                }
                None
            }
            EventKind::Switch { next, .. } => {
                (self.comm, self.prio) = (next.comm, next.prio);
                self.running = Some(now);
                self.wakeup_missing |= self.asleep.take().is_some();
                // No event shows when the next period began, so the job begins here.
                let since = self.yielded.take()?;
                Some(self.wakes(since, now, release))
            }
            EventKind::Waking { .. } => {
                let since = self.asleep.take()?;
                self.woken = Some(now);
                Some(self.wakes(since, now, release))
            }
            _ => None,
        }
    }
}
