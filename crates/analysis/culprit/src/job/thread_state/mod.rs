//! State of a thread between events.
//!
//! An event changes the system call of the thread and its sleep. Both together decide what the event
//! means for the thread's job. Each of the three is a table of states of its own.

mod calls;
mod job_state;
mod sleep;

use punctual_model::ThreadState as Doing;
use punctual_model::{Comm, EventKind, KernelPriority, Nanos, Task, TaskState, TraceEvent};

pub use calls::CallNumbers;
pub(super) use calls::FutexCall;
use calls::{Calls, CurrentCall};
use job_state::{JobEvent, JobState, Return, Stop};
pub(super) use job_state::{OpenJob, Outcome, Point};
use sleep::Sleep;

use super::release::{Call, Releases};

/// The stage of the recorder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stages {
    /// Whether only sleeps, switches and wake-ups are recorded, but no system calls.
    pub(super) light: bool,
    /// Whether there has been a light stage.
    pub(super) both: bool,
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndedWait {
    /// The system call in which the thread waited, if known.
    pub(super) call: Option<Call>,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    /// CPU time of the thread until the wait.
    pub(super) ran: Nanos,
}

/// What an event shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Waited(EndedWait),
    Job(Outcome),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadState {
    pub(super) comm: Comm,
    pub(super) prio: KernelPriority,
    calls: Calls,
    /// Time until which the thread wants to sleep in the current call, if known.
    until: Option<Nanos>,
    sleep: Sleep,
    /// When the timer was due that is about to wake the thread.
    due: Option<Nanos>,
    /// Last wake-up of the thread.
    woken: Option<Nanos>,
    running: Option<Nanos>,
    /// State of the thread after its last event.
    doing: Option<Doing>,
    ran: Nanos,
    job: JobState,
}

/// Return values of an interrupted system call that continues later: ERESTARTSYS to
/// ERESTART_RESTARTBLOCK (`include/linux/errno.h`).
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl ThreadState {
    /// Forgets everything that the lost events may have changed. Returns whether a job was in
    /// progress.
    pub(super) fn interrupt(&mut self) -> bool {
        let had_job = self.job.job().is_some();
        *self = Self {
            comm: self.comm,
            prio: self.prio,
            ran: self.ran,
            ..Self::default()
        };
        had_job
    }

    /// Continues after the kernel has counted the jobs of the thread, which runs now. `open`: release
    /// of the job in progress, and the CPU time since then.
    pub(super) fn continues(&mut self, at: Nanos, open: Option<(Nanos, Nanos)>, light: bool) {
        self.interrupt();
        self.ran += open.map_or(Nanos::ZERO, |(_, ran)| ran);
        (self.running, self.doing) = (Some(at), Some(Doing::Running));
        if !light {
            self.calls.current = CurrentCall::Unknown;
        }
        self.job = open.map_or(JobState::Idle, |(release, ran)| {
            JobState::Running(OpenJob {
                light: true,
                ..OpenJob::new(Point {
                    at: release,
                    ran: self.ran.saturating_sub(ran),
                })
            })
        });
    }

    /// Returns the release time of the job in progress.
    pub(super) fn open_since(&self) -> Option<Nanos> {
        self.job.job().map(|open| open.release.at)
    }

    /// Forgets the job in progress. Returns whether there was one.
    pub(super) fn abandon(&mut self) -> bool {
        self.job.abandon()
    }

    /// Returns what the thread does after the last event, and its system call with the beginning, as
    /// far as events show it.
    pub(super) fn at_end(&self) -> (Doing, Option<(Call, Nanos)>) {
        let call = match self.calls.current {
            CurrentCall::In(call, since) => Some((call, since)),
            CurrentCall::Outside | CurrentCall::Unknown => None,
        };
        (self.doing.unwrap_or(Doing::Unknown), call)
    }

    pub(super) fn is_in(&self, release: Releases) -> bool {
        release.has(self.calls.current.call())
    }

    /// Changes the stage. Returns a job whose end cannot be seen from now on.
    pub(super) fn change_stage(&mut self, light: bool) -> Option<OpenJob> {
        let is_asleep = matches!(self.sleep, Sleep::Asleep(_));
        if !light && !is_asleep {
            self.calls.current = CurrentCall::Unknown;
        }
        self.sleep.forget_unseen();
        self.job.change_stage(light, is_asleep)
    }

    /// Handles an event.
    pub(super) fn step(
        &mut self,
        tid: u32,
        event: &TraceEvent,
        release: Releases,
        (numbers, stages): (&CallNumbers, Stages),
    ) -> Option<Step> {
        let now = event.time;
        match &event.kind {
            EventKind::SysEnter { id, args } => self.enters((*id, *args), now, release, numbers),
            EventKind::SleepsIn { id, args } => {
                let call = (*id, *args);
                let is_recorded = !stages.light && self.calls.current != CurrentCall::Unknown;
                if is_recorded {
                    self.sleeps(release)
                } else {
                    self.sleeps_unentered(call, now, release, numbers)
                }
            }
            EventKind::SysExit { ret, .. } => self.returns(*ret, release),
            EventKind::SleepUntil { until } => {
                if self.calls.current.call().is_some() {
                    self.until = Some(*until);
                }
                None
            }
            EventKind::Switch {
                prev, prev_state, ..
            } if prev.pid == tid => self.switches_out(prev, *prev_state, now, release, numbers),
            EventKind::Switch { next, .. } => {
                (self.comm, self.prio) = (next.comm, next.prio);
                (self.running, self.doing) = (Some(now), Some(Doing::Running));
                let since = self.sleep.runs()?;
                Some(self.wakes((since, now), now, release))
            }
            EventKind::TimerDue { due, .. } => {
                self.due = Some(*due);
                None
            }
            EventKind::Waking { .. } => {
                let due = self.due.take().unwrap_or(now);
                if self.running.is_none() {
                    self.doing = Some(Doing::Ready);
                }
                let since = self.sleep.is_woken()?;
                self.woken = Some(now);
                // The time that a timer was due may have passed before the thread slept.
                Some(self.wakes((since, now), due.clamp(since, now), release))
            }
            _ => None,
        }
    }

    fn enters(
        &mut self,
        call: (i64, [u64; 2]),
        now: Nanos,
        release: Releases,
        numbers: &CallNumbers,
    ) -> Option<Step> {
        let is_new = self.calls.enter(call, now, numbers)?;
        self.sleep.forget_unseen();
        if is_new {
            self.until = None;
        }
        if !self.is_in(release) {
            return self.job(JobEvent::EntersOther);
        }
        if !is_new {
            return None;
        }
        self.job(JobEvent::EntersWait {
            at: self.point(now),
            is_pool: release.are_several(),
        })
    }

    /// Handles a sleep in a call whose entry was not recorded.
    fn sleeps_unentered(
        &mut self,
        call: (i64, [u64; 2]),
        now: Nanos,
        release: Releases,
        numbers: &CallNumbers,
    ) -> Option<Step> {
        let is_in_call = call.0 >= 0;
        if !is_in_call {
            self.calls.current = CurrentCall::Outside;
            return None;
        }
        let is_new = self.calls.enter(call, now, numbers)?;
        self.sleep.forget_unseen();
        if !is_new || !self.is_in(release) {
            return None;
        }
        self.job(JobEvent::SleepsUnentered(self.point(now)))
    }

    fn sleeps(&mut self, release: Releases) -> Option<Step> {
        let in_wait = self.is_in(release);
        self.job(JobEvent::Sleeps { in_wait })
    }

    fn returns(&mut self, value: i64, release: Releases) -> Option<Step> {
        let in_wait = self.is_in(release);
        let call = std::mem::take(&mut self.calls.current);
        if RESTARTS.contains(&value) {
            return self.job(JobEvent::IsInterrupted { in_wait });
        }
        let wait = match call {
            CurrentCall::In(_, entered) if in_wait => Some(self.point(entered)),
            _ => None,
        };
        let returned = Return {
            wait,
            due: self.until,
            is_unseen: self.sleep.returns(),
            is_pool: release.are_several(),
        };
        self.job(JobEvent::Returns(returned))
    }

    fn switches_out(
        &mut self,
        task: &Task,
        state: TaskState,
        now: Nanos,
        release: Releases,
        numbers: &CallNumbers,
    ) -> Option<Step> {
        (self.comm, self.prio) = (task.comm, task.prio);
        self.ran = self.point(now).ran;
        self.running = None;
        if state.is_stopped() || state.is_traced() {
            self.doing = Some(Doing::Stopped);
            return self.job(JobEvent::Stops(Stop {
                from: self.point(now),
                events_from: self.woken.unwrap_or(now),
            }));
        }
        if !state.is_runnable() {
            self.doing = Some(Doing::Asleep);
            self.sleep = Sleep::Asleep(now);
            return self.sleeps(release);
        }
        self.doing = Some(Doing::Ready);
        let call = self.calls.current.call();
        let yields = call.is_some_and(|call| numbers.sched_yield.contains(&call.id));
        if yields && task.prio.0 < 0 {
            self.sleep = Sleep::Yielded(now);
        }
        None
    }

    /// Handles the end of a wait, which was due at a time. If it was the release wait, a job begins then.
    fn wakes(&mut self, (from, to): (Nanos, Nanos), due: Nanos, release: Releases) -> Step {
        if self.is_in(release) {
            self.job.take(JobEvent::Wakes(Point {
                at: due,
                ran: self.ran,
            }));
        }
        let call = self.calls.current.call();
        Step::Waited(EndedWait {
            call,
            from,
            to,
            ran: self.ran,
        })
    }

    fn job(&mut self, event: JobEvent) -> Option<Step> {
        self.job.take(event).map(Step::Job)
    }

    fn point(&self, at: Nanos) -> Point {
        let open = self.running.map(|since| at.saturating_sub(since));
        Point {
            at,
            ran: self.ran + open.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
