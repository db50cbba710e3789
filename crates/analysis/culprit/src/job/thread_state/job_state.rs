//! The job of a thread, as a table of states.

use punctual_model::Nanos;

/// A time, and the CPU time of the thread until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) struct Point {
    pub(in crate::job) at: Nanos,
    pub(in crate::job) ran: Nanos,
}

/// A job in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) struct OpenJob {
    pub(in crate::job) release: Point,
    /// Time of the first event that explains the job.
    pub(in crate::job) events_from: Nanos,
    /// Whether the job was released without a wait.
    pub(in crate::job) at_once: bool,
    /// Whether a part of it was in the light stage. The thread may have left its release wait
    /// several times without a sleep, so this may be several jobs.
    pub(in crate::job) light: bool,
}

impl OpenJob {
    pub(super) const fn new(release: Point) -> Self {
        Self {
            release,
            events_from: release.at,
            at_once: false,
            light: false,
        }
    }
}

/// A stop by a signal or a debugger. Until then, the thread was in its release wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) struct Stop {
    pub(in crate::job) from: Point,
    /// Time of the wake-up for the stop.
    pub(in crate::job) events_from: Nanos,
}

/// What a thread does with regard to its jobs.
///
/// A row of the table is an event, and a column is the state before it. The cell is the state after
/// it, and the [`Outcome`] if there is one. An empty cell leaves the state as it is. A test compares
/// the table with the code.
///
/// A job ends when the thread enters its release wait. *Doubtful* means that this may be wrong: a
/// job that was partly in the light stage may be several jobs, and a thread of a pool may only look
/// for more work. In these cases, only a sleep shows that the job has ended.
///
/// | the thread | Idle | Interrupted | Stopped | Released | Running | Ending |
/// |---|---|---|---|---|---|---|
/// | enters its release wait | | | | Idle: Completed | Idle: Completed | Idle: Completed |
/// | the same, doubtful | | | | Ending | Ending | |
/// | enters another call | | Idle | Idle | | | |
/// | sleeps in its release wait | | | Interrupted | Idle | | Idle: Completed |
/// | sleeps elsewhere | | | Interrupted | | | |
/// | sleeps in its release wait, whose entry is not recorded | | | | Idle: Completed | Idle: Completed | Idle: Completed |
/// | is stopped | | Stopped | | | | |
/// | is woken in its release wait | Released | Released | Released | | Released | Released |
/// | is interrupted in its release wait | Interrupted | | | Interrupted | | |
/// | is interrupted elsewhere | | Idle | Idle | | | |
/// | returns from its release wait | Running: AtOnce | Running: AtOnce | Running: InStop | Running | | Running: Several |
/// | the same, of a pool | | Idle | Idle | Running | | Running |
/// | the same, after an unseen wake-up | Idle: ReleaseUnknown | Idle: ReleaseUnknown | Idle: ReleaseUnknown | Running | | Idle: ReleaseUnknown |
/// | returns from another call | | Idle | Idle | Running | | |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::job) enum JobState {
    /// There is no job. The thread waits for its next release, or its release is unknown.
    #[default]
    Idle,
    /// A signal or a debugger has interrupted the release wait, which will continue.
    Interrupted,
    /// The signal or the debugger has stopped the thread, or had stopped it until now.
    Stopped(Stop),
    /// The release wait has ended, but the thread has not left the system call yet. It may check
    /// its condition and continue to wait.
    Released(OpenJob),
    /// The thread has left its release wait.
    Running(OpenJob),
    /// The thread has entered its release wait at this point, but the end of the job is doubtful.
    Ending(OpenJob, Point),
}

/// An event for the job of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) enum JobEvent {
    /// The thread enters its release wait. It does not continue an interrupted one.
    EntersWait { at: Point, is_pool: bool },
    /// The thread enters another system call.
    EntersOther,
    /// The thread goes to sleep.
    Sleeps { in_wait: bool },
    /// The thread sleeps in its release wait, which it entered before. Only the sleep is recorded.
    SleepsUnentered(Point),
    /// A signal or a debugger stops the thread.
    Stops(Stop),
    /// A sleep in the release wait ends.
    Wakes(Point),
    /// A signal interrupts a system call, which will continue.
    IsInterrupted { in_wait: bool },
    /// The thread returns from a system call.
    Returns(Return),
}

/// A return from a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) struct Return {
    /// The entry of the call, if it is the release wait.
    pub(in crate::job) wait: Option<Point>,
    /// Time until which the thread wanted to sleep in the call, if known.
    pub(in crate::job) due: Option<Nanos>,
    /// Whether the thread has slept, but no event shows when the sleep ended.
    pub(in crate::job) is_unseen: bool,
    /// Whether the thread belongs to a pool.
    pub(in crate::job) is_pool: bool,
}

/// What an event shows about the jobs of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) enum Outcome {
    /// A job has ended at this point.
    Completed(OpenJob, Point),
    /// A job was released without a wait.
    AtOnce,
    /// A job was released at an unknown time during a stop of this length.
    InStop(Nanos),
    /// The open job, with this release, was several jobs, and another job has begun.
    Several(Nanos),
    /// The release wait has ended, but no event shows when.
    ReleaseUnknown,
}

impl JobState {
    /// Handles an event.
    pub(in crate::job) fn take(&mut self, event: JobEvent) -> Option<Outcome> {
        let (next, outcome) = self.after(event);
        *self = next;
        outcome
    }

    fn after(self, event: JobEvent) -> (Self, Option<Outcome>) {
        use JobEvent::*;
        let completed = |job, at| (Self::Idle, Some(Outcome::Completed(job, at)));
        match (self, event) {
            (
                Self::Released(job) | Self::Running(job) | Self::Ending(job, _),
                EntersWait { at, is_pool },
            ) if is_pool || job.light => (Self::Ending(job, at), None),
            (
                Self::Released(job) | Self::Running(job),
                EntersWait { at, .. } | SleepsUnentered(at),
            ) => completed(job, at),
            (
                Self::Ending(job, at),
                EntersWait { .. } | SleepsUnentered(_) | Sleeps { in_wait: true },
            ) => completed(job, at),
            // The thread checked its condition and continued to wait.
            (Self::Released(_), Sleeps { in_wait: true }) => (Self::Idle, None),
            // The job was not due at the end of the stop.
            (Self::Stopped(_), Sleeps { .. }) => (Self::Interrupted, None),
            (Self::Interrupted | Self::Stopped(_), EntersOther) => (Self::Idle, None),
            (Self::Interrupted, Stops(stop)) => (Self::Stopped(stop), None),
            (_, Wakes(at)) => (Self::Released(OpenJob::new(at)), None),
            // A signal is not a release.
            (Self::Idle | Self::Released(_), IsInterrupted { in_wait: true }) => {
                (Self::Interrupted, None)
            }
            (Self::Interrupted | Self::Stopped(_), IsInterrupted { in_wait: false }) => {
                (Self::Idle, None)
            }
            (_, Returns(returned)) => self.after_return(returned),
            _ => (self, None),
        }
    }

    fn after_return(self, returned: Return) -> (Self, Option<Outcome>) {
        let Return {
            wait,
            is_unseen,
            is_pool,
            ..
        } = returned;
        let stop = match self {
            Self::Released(job) | Self::Running(job) => return (Self::Running(job), None),
            Self::Ending(job, _) if is_pool && !is_unseen => return (Self::Running(job), None),
            Self::Ending(..) if wait.is_none() => return (self, None),
            Self::Stopped(stop) => Some(stop),
            Self::Idle | Self::Interrupted | Self::Ending(..) => None,
        };
        match (self, wait) {
            (_, None) => (Self::Idle, None),
            (_, Some(_)) if is_unseen => (Self::Idle, Some(Outcome::ReleaseUnknown)),
            (_, Some(_)) if is_pool => (Self::Idle, None),
            (Self::Ending(several, _), Some(entered)) => (
                Self::Running(released_at_once(entered)),
                Some(Outcome::Several(several.release.at)),
            ),
            (_, Some(entered)) => begins_at_once(entered, stop, returned.due),
        }
    }

    /// Returns the job in progress.
    pub(in crate::job) const fn job(&self) -> Option<&OpenJob> {
        match self {
            Self::Released(job) | Self::Running(job) | Self::Ending(job, _) => Some(job),
            Self::Idle | Self::Interrupted | Self::Stopped(_) => None,
        }
    }

    /// Forgets the job in progress. Returns whether there was one.
    pub(in crate::job) fn abandon(&mut self) -> bool {
        let is_open = self.job().is_some();
        if is_open {
            *self = Self::Idle;
        }
        is_open
    }

    /// Handles a change of the stage of the recorder. From now on, the job in progress may be several
    /// jobs. Returns a job whose end the light stage cannot show, because the thread does not wait
    /// for its jobs.
    pub(in crate::job) fn change_stage(&mut self, light: bool, is_asleep: bool) -> Option<OpenJob> {
        let mut open = *self.job()?;
        if light && open.at_once {
            *self = Self::Idle;
            return Some(open);
        }
        open.light = true;
        *self = match *self {
            Self::Ending(_, at) => Self::Ending(open, at),
            Self::Released(_) if light || is_asleep => Self::Released(open),
            // The return from the release wait was not recorded.
            _ => Self::Running(open),
        };
        None
    }
}

const fn released_at_once(release: Point) -> OpenJob {
    OpenJob {
        at_once: true,
        ..OpenJob::new(release)
    }
}

/// Begins a job that was released without a wait when the thread entered the release wait. If the
/// thread was stopped in its release wait until then, the job may have been due during the stop.
fn begins_at_once(
    entered: Point,
    stop: Option<Stop>,
    due: Option<Nanos>,
) -> (JobState, Option<Outcome>) {
    let open = released_at_once(entered);
    let Some(stop) = stop else {
        return (JobState::Running(open), Some(Outcome::AtOnce));
    };
    match due.filter(|due| (stop.events_from..=entered.at).contains(due)) {
        Some(due) => {
            let release = Point {
                at: due,
                ran: stop.from.ran,
            };
            let open = OpenJob {
                release,
                events_from: stop.events_from,
                ..open
            };
            (JobState::Running(open), None)
        }
        None => {
            let length = entered.at.saturating_sub(stop.from.at);
            (JobState::Running(open), Some(Outcome::InStop(length)))
        }
    }
}
