//! What is known of the thread that was late, at a moment.

use crate::events::SYS_ENTER;
use punctual_model::{
    Delay, EventKind, KernelPriority, Nanos, Policy, Task, TaskState, TraceEvent, Window,
};

/// Why it sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// For its timer, or for whatever wakes it first.
    First,
    /// For a lock: the threads to which it lent its priority, the first of which holds
    /// the lock that it asked for, the next one the lock that this one waits for, and so
    /// on. `first`: it would be [`Why::First`] if it were none.
    Lock { chain: Vec<u32>, first: bool },
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
    /// When its last event was a page fault: that. When the fault is over no event tells.
    pub(crate) fault: Option<Nanos>,
    /// It was woken on the CPU that it waits for: that puts it into the queue at once.
    pub(crate) woken_here: bool,
    /// Who of the chain of [`Why::Lock`] gave up what it was lent.
    released: Option<u32>,
    /// Whether system calls of the thread are recorded.
    knows_calls: bool,
    /// Others of lower rank were let run before it.
    pub(crate) passed_over: bool,
    /// Whom it lent its priority, and who did not give it back: the chain of
    /// [`Why::Lock`].
    lent_to: Vec<u32>,
    /// Who held the lock that it last waited for, until it runs again.
    pub(crate) waited_for: Option<u32>,
    /// By how much its timer may be late: of the last one that it armed.
    pub(crate) slack: Option<Nanos>,
    /// The last signal that stops, and who sent it.
    pub(crate) stop_signal: Option<(u32, u32)>,
    /// The last move, from and to.
    pub(crate) moved: Option<(u32, u32)>,
}

/// A page fault that does not wait for anything takes no longer, but for a huge page.
pub(crate) const FAULT_TIME: Nanos = Nanos::from_micros(25);

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
            fault: None,
            woken_here: false,
            released: None,
            knows_calls: window.has(SYS_ENTER),
            passed_over: false,
            lent_to: Vec::new(),
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
                    self.leave(*prev_state, event.time, due);
                    self.see_other(next);
                } else if event.cpu == self.cpu {
                    self.see_other(next);
                }
            }
            EventKind::Waking { task, target_cpu } if task.pid == self.tid => {
                self.prio = Some(task.prio);
                if let State::Asleep(_) = self.state {
                    self.waited_for = self.released.take_if(|one| *one == event.pid);
                    self.woken_here = event.cpu == *target_cpu;
                }
                self.woken(*target_cpu, due);
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
                self.woken_here &= event.cpu == *dest_cpu;
                self.cpu = *dest_cpu;
                self.passed_over = false;
            }
            EventKind::PiSetprio { task, newprio } if task.pid == self.tid => {
                self.prio = Some(*newprio);
            }
            EventKind::PiSetprio { task, .. } if event.pid == self.tid => {
                if !self.lent_to.contains(&task.pid) {
                    self.lent_to.push(task.pid);
                }
            }
            // It gives up what it was lent: it releases its lock, and the next one has it.
            EventKind::PiSetprio { task, .. } if event.pid == task.pid => {
                if let Some(place) = self.lent_to.iter().position(|one| *one == task.pid) {
                    self.lent_to.truncate(place);
                }
                if let State::Asleep(Why::Lock { chain, .. }) = &self.state
                    && chain.contains(&task.pid)
                {
                    self.released = Some(task.pid);
                }
            }
            EventKind::SignalGenerate { sig, pid, .. }
                if STOP_SIGNALS.contains(sig)
                    && (*pid == self.tid || self.stop_signal.is_none()) =>
            {
                self.stop_signal = Some((*sig, event.pid));
            }
            _ => self.own_event(event),
        }
    }

    /// An event that it wrote itself, or that came on top of it.
    fn own_event(&mut self, event: &TraceEvent) {
        if event.pid != self.tid || event.pid == 0 {
            return;
        }
        // Where it was ready: the switch to it has no event.
        if matches!(self.state, State::Unknown | State::Woken | State::Queued) {
            (self.state, self.cpu) = (State::Running, event.cpu);
        }
        match event.kind {
            EventKind::PageFaultUser { .. } | EventKind::PageFaultKernel { .. } => {
                self.fault = Some(event.time);
            }
            EventKind::SysEnter { .. } | EventKind::SysExit { .. } => self.fault = None,
            _ => {}
        }
        // Whoever is at one of these waits for no lock: it has it, by now.
        let handler = TraceEvent::HARDIRQ | TraceEvent::SOFTIRQ | TraceEvent::NMI;
        if event.flags & handler == 0
            && matches!(
                event.kind,
                EventKind::SysEnter { .. }
                    | EventKind::SysExit { .. }
                    | EventKind::PageFaultUser { .. }
                    | EventKind::HrtimerStart { .. }
            )
        {
            self.lent_to.clear();
        }
        if let EventKind::HrtimerStart {
            expires_ns,
            softexpires_ns,
            ..
        } = event.kind
        {
            let slack = i128::from(expires_ns) - i128::from(softexpires_ns);
            self.slack = Some(Nanos(u64::try_from(slack).unwrap_or(0)));
        }
    }

    fn switch_in(&mut self, own: &Task, cpu: u32, due: bool) {
        self.prio = Some(own.prio);
        self.state = State::Running;
        self.cpu = cpu;
        self.passed_over = false;
        self.lent_to.clear();
        self.waited_for = None;
        self.awake_since_due |= due;
        // What it slept before it was due is over.
        self.slept &= due;
    }

    fn leave(&mut self, state: TaskState, now: Nanos, due: bool) {
        let fault = self.fault.take();
        let chain = std::mem::take(&mut self.lent_to);
        self.passed_over = false;
        (self.waited_for, self.released) = (None, None);
        self.awake_since_due |= due;
        self.state = match () {
            () if state.is_runnable() => State::Queued,
            () if state.is_exit() => State::Gone,
            () if state.is_stopped() || state.is_traced() => State::Stopped,
            () => State::Asleep(match fault {
                _ if !chain.is_empty() => Why::Lock { chain, first: !due },
                // From user space only a system call or a fault leads to a sleep.
                Some(at)
                    if state.is_uninterruptible()
                        && (self.knows_calls || now <= at + FAULT_TIME) =>
                {
                    Why::Page
                }
                _ if due => Why::Again,
                _ => Why::First,
            }),
        };
        self.slept |= matches!(self.state, State::Asleep(_));
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
    /// One that another CPU woke is in the queue once its own CPU has said so.
    fn see_other(&mut self, next: &Task) {
        let Some(prio) = self.prio else { return };
        let queued = match self.state {
            State::Queued => true,
            State::Woken => self.woken_here,
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
