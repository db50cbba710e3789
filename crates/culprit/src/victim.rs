//! What is known of the thread that was late, at a moment.

use punctual_model::{
    Delay, EventKind, KernelPriority, Nanos, Policy, Task, TaskState, TraceEvent, Window,
};

/// Why it sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// For its timer, or for whatever wakes it first.
    First,
    /// For a lock of this thread.
    Lock(u32),
    /// For a page.
    Page,
    /// Again, for another reason.
    Again,
}

/// What the victim does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not known.
    Unknown,
    /// Asleep.
    Asleep(Why),
    /// Stopped by a signal.
    Stopped,
    /// Being woken; not on a run queue yet.
    Woken,
    /// On the run queue of its CPU.
    Queued,
    /// On its CPU.
    Running,
    /// It ended.
    Gone,
}

/// What is known of the victim.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) state: State,
    /// Where it runs or waits; where it is woken, as far as it is known.
    pub(crate) cpu: u32,
    pub(crate) prio: Option<KernelPriority>,
    /// It has been woken or was running since it was due.
    pub(crate) awake_since_due: bool,
    /// It has slept since it was due, or was asleep then.
    pub(crate) slept: bool,
    /// Its last event was a page fault.
    pub(crate) in_fault: bool,
    /// Whether the window is a step of its own ([`Delay::Step`]).
    steps: bool,
    /// When it was last woken.
    woken_at: Option<Nanos>,
    /// Others of lower rank were let run before it.
    pub(crate) passed_over: bool,
    /// Who holds the lock that it asked for.
    lock_holder: Option<u32>,
    /// Who held the lock that it last waited for, until it runs again.
    pub(crate) waited_for: Option<u32>,
    /// By how much its timer may be late: of the last one that it armed.
    pub(crate) slack: Option<Nanos>,
    /// The last signal that stops, and who sent it.
    pub(crate) stop_signal: Option<(u32, u32)>,
    /// The last move, from and to.
    pub(crate) moved: Option<(u32, u32)>,
}

/// So long after it was woken a thread is in the queue of its CPU, also where
/// another CPU had to be asked to put it there.
const QUEUED: Nanos = Nanos::from_micros(200);

/// Signals that stop a thread: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU (signal(7); the
/// same on all architectures but MIPS, Alpha and SPARC).
pub(crate) const STOP_SIGNALS: [u32; 4] = [19, 20, 21, 22];

impl Thread {
    pub(crate) fn of(window: &Window, events: &[TraceEvent]) -> Self {
        let tid = window.victim.tid;
        let (state, cpu) = match window.delay {
            Delay::Timer | Delay::Call | Delay::Step | Delay::Job => {
                at_first(tid, events).unwrap_or((State::Unknown, window.victim.cpu))
            }
            // The window begins with its `sched_waking`.
            Delay::Wakeup => (State::Asleep(Why::First), window.victim.cpu),
            // ... or with the switch away from it.
            Delay::Taken => (State::Running, window.victim.cpu),
        };
        Self {
            tid,
            slept: matches!(state, State::Asleep(_)),
            state,
            cpu,
            prio: window.victim.scheduling.map(|scheduling| {
                match (scheduling.policy, scheduling.priority) {
                    (Policy::Deadline, _) => KernelPriority(-1),
                    (policy, priority) if policy.is_real_time() => {
                        KernelPriority::real_time(priority.clamp(1, 99))
                    }
                    _ => KernelPriority(120),
                }
            }),
            awake_since_due: false,
            in_fault: false,
            steps: window.delay == Delay::Step,
            woken_at: None,
            passed_over: false,
            lock_holder: None,
            waited_for: None,
            slack: None,
            stop_signal: None,
            moved: None,
        }
    }

    /// Takes over what an event says of it. `due`: the event is not from before
    /// the time at which the thread was due.
    pub(crate) fn apply(&mut self, event: &TraceEvent, due: bool) {
        match &event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                if next.pid == self.tid {
                    self.switch_in(next, event.cpu, due);
                } else if prev.pid == self.tid {
                    self.prio = Some(prev.prio);
                    self.cpu = event.cpu;
                    self.leave(*prev_state, due);
                    self.see_other(next, event.time);
                } else if event.cpu == self.cpu {
                    self.see_other(next, event.time);
                }
            }
            EventKind::Waking { task, target_cpu } if task.pid == self.tid => {
                self.prio = Some(task.prio);
                self.woken(*target_cpu, due);
                self.woken_at = Some(event.time);
            }
            EventKind::Wakeup {
                task, target_cpu, ..
            } if task.pid == self.tid => {
                self.woken(*target_cpu, due);
                if self.state == State::Woken {
                    self.state = State::Queued;
                }
                self.cpu = *target_cpu;
            }
            EventKind::Migrate {
                task,
                orig_cpu,
                dest_cpu,
            } if task.pid == self.tid => {
                self.moved = Some((*orig_cpu, *dest_cpu));
                self.cpu = *dest_cpu;
                self.passed_over = false;
            }
            EventKind::PiSetprio { task, newprio } if task.pid == self.tid => {
                self.prio = Some(*newprio);
            }
            EventKind::PiSetprio { task, .. } if event.pid == self.tid => {
                self.lock_holder = Some(task.pid);
            }
            EventKind::SignalGenerate { sig, pid, .. }
                if STOP_SIGNALS.contains(sig)
                    && (*pid == self.tid || self.stop_signal.is_none()) =>
            {
                self.stop_signal = Some((*sig, event.pid));
            }
            _ => self.own_event(event, due),
        }
    }

    /// An event that it wrote itself, or that came on top of it.
    fn own_event(&mut self, event: &TraceEvent, due: bool) {
        if event.pid != self.tid || event.pid == 0 {
            return;
        }
        // Where it was ready: the switch to it has no event.
        if matches!(self.state, State::Unknown | State::Woken | State::Queued) {
            (self.state, self.cpu) = (State::Running, event.cpu);
        }
        match event.kind {
            EventKind::PageFaultUser { .. } | EventKind::PageFaultKernel { .. } => {
                // A step begins in user space: what came before it is over.
                self.in_fault = due || !self.steps;
            }
            EventKind::SysEnter { .. } | EventKind::SysExit { .. } => self.in_fault = false,
            EventKind::HrtimerStart {
                expires_ns,
                softexpires_ns,
                ..
            } => {
                let slack = i128::from(expires_ns) - i128::from(softexpires_ns);
                self.slack = Some(Nanos(u64::try_from(slack).unwrap_or(0)));
            }
            _ => {}
        }
    }

    fn switch_in(&mut self, own: &Task, cpu: u32, due: bool) {
        self.prio = Some(own.prio);
        self.state = State::Running;
        self.cpu = cpu;
        self.passed_over = false;
        self.lock_holder = None;
        self.waited_for = None;
        self.awake_since_due |= due;
        // What it slept before it was due is over.
        self.slept &= due;
    }

    fn leave(&mut self, state: TaskState, due: bool) {
        let fault = std::mem::take(&mut self.in_fault);
        self.passed_over = false;
        self.awake_since_due |= due;
        self.state = match () {
            () if state.is_runnable() => State::Queued,
            () if state.is_exit() => State::Gone,
            () if state.is_stopped() || state.is_traced() => State::Stopped,
            () => State::Asleep(match self.lock_holder.take() {
                Some(holder) => Why::Lock(holder),
                None if fault => Why::Page,
                None if due => Why::Again,
                None => Why::First,
            }),
        };
        self.slept |= matches!(self.state, State::Asleep(_));
        self.waited_for = match self.state {
            State::Asleep(Why::Lock(holder)) => Some(holder),
            _ => None,
        };
    }

    fn woken(&mut self, target: u32, due: bool) {
        if !matches!(self.state, State::Running | State::Queued | State::Woken) {
            self.state = State::Woken;
            self.cpu = target;
            self.slept = true;
            self.passed_over = false;
        }
        self.awake_since_due |= due;
    }

    /// Its CPU turns to another thread while it waits there: one of lower rank
    /// is only chosen where the scheduler does not see the victim. Among ordinary
    /// threads each has its turn, whatever its nice value: then only idling shows it.
    fn see_other(&mut self, next: &Task, time: Nanos) {
        let Some(prio) = self.prio else { return };
        let queued = match self.state {
            State::Queued => true,
            // No event shows when it was put into the queue: it has been.
            State::Woken => self.woken_at.is_some_and(|at| time - at > QUEUED),
            _ => false,
        };
        let lower = prio.is_real_time() && prio.is_above(next.prio);
        if queued && (next.is_idle() || lower) {
            self.passed_over = true;
        }
    }
}

/// What it must have been doing before its first event.
fn at_first(tid: u32, events: &[TraceEvent]) -> Option<(State, u32)> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::Switch { prev, .. } if prev.pid == tid => Some((State::Running, event.cpu)),
        // It could run, since when is not known.
        EventKind::Switch { next, .. } if next.pid == tid => Some((State::Unknown, event.cpu)),
        EventKind::Waking { task, target_cpu }
        | EventKind::Wakeup {
            task, target_cpu, ..
        } if task.pid == tid => Some((State::Asleep(Why::First), *target_cpu)),
        _ if event.pid == tid => Some((State::Running, event.cpu)),
        _ => None,
    })
}
