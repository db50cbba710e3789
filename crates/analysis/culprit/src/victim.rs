//! State of the late thread at a point in time.

use crate::events::{MIGRATE, SYS_ENTER, WAKEUP};
use punctual_model::{
    Delay, EventKind, KernelPriority, Nanos, Policy, Task, TaskState, TraceEvent, Window,
};

/// Reason why the victim is asleep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The victim is waiting for its timer, or for another wake-up.
    First,
    /// The victim is waiting for a lock. `chain`: the threads that inherited its priority. The
    /// first holds the requested lock, the next holds the lock that the first is waiting for, and
    /// so on. `first`: whether the reason would be [`Why::First`] without the lock.
    Lock { chain: Vec<u32>, first: bool },
    /// The victim is waiting for a page.
    Page,
    /// The victim has gone to sleep again, for another reason.
    Again,
}

/// Scheduling state of the victim.
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
    /// The thread has ended.
    Gone,
}

/// State of the victim.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) state: State,
    /// CPU on which the victim is running or waiting. While it is being woken: its target CPU, if
    /// known.
    pub(crate) cpu: u32,
    pub(crate) prio: Option<KernelPriority>,
    /// Whether it has been woken or has run since it was due.
    pub(crate) awake_since_due: bool,
    /// Whether it has slept since it was due, or was asleep at that time.
    pub(crate) slept: bool,
    /// Time of the page fault, if that was its last event. No event shows when a fault ends.
    pub(crate) fault: Option<Nanos>,
    /// Whether it was woken on its target CPU and so was put into the run queue immediately.
    pub(crate) woken_here: bool,
    /// Thread in the chain of [`Why::Lock`] that gave up its inherited priority.
    released: Option<u32>,
    /// Whether system calls of the thread are recorded.
    knows_calls: bool,
    /// Whether no switch and no migration of a thread is missing, but its `sched_wakeup` is. Then a
    /// CPU that switches twice after the wake-up has seen the victim.
    queued_unseen: bool,
    /// Number of switches of its CPU since another CPU woke it.
    switches: u32,
    /// Whether threads of lower rank, or none, ran even though the victim was in the run queue.
    pub(crate) passed_over: bool,
    /// Threads that inherited its priority and have not given it up: the chain of [`Why::Lock`].
    lent_to: Vec<u32>,
    /// Holder of the lock that the victim last waited for; reset when the victim runs again.
    pub(crate) waited_for: Option<u32>,
    /// Slack of the timer that it last armed.
    pub(crate) slack: Option<Nanos>,
    /// Last stop signal, and its sender.
    pub(crate) stop_signal: Option<(u32, u32)>,
    /// Last migration: the old and the new CPU.
    pub(crate) moved: Option<(u32, u32)>,
}

/// A page fault that does not wait for I/O takes at most this long, except for a huge page.
pub(crate) const FAULT_TIME: Nanos = Nanos::from_micros(25);

/// Signals that stop a thread: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU (signal(7)). The numbers are the
/// same on all architectures except MIPS, Alpha and SPARC.
pub(crate) const STOP_SIGNALS: [u32; 4] = [19, 20, 21, 22];

impl Thread {
    pub(crate) fn from_events(window: &Window, events: &[TraceEvent]) -> Self {
        let tid = window.victim.tid;
        let (state, cpu) = match window.delay {
            Delay::Timer
            | Delay::Call
            | Delay::Step
            | Delay::Job
            | Delay::Work
            | Delay::Section => {
                at_first(tid, events).unwrap_or((State::Unknown, window.victim.cpu))
            }
            // The window begins with the victim's `sched_waking` event.
            Delay::Wakeup => (State::Asleep(Why::First), window.victim.cpu),
            // The window begins with the switch away from the victim.
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
            queued_unseen: !window.has(WAKEUP) && window.has(MIGRATE),
            switches: 0,
            passed_over: false,
            lent_to: Vec::new(),
            waited_for: None,
            slack: None,
            stop_signal: None,
            moved: None,
        }
    }

    /// Applies an event. `due`: the event is not older than the thread's due time.
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
                self.switches = 0;
            }
            EventKind::PiSetprio { task, newprio } if task.pid == self.tid => {
                self.prio = Some(*newprio);
            }
            EventKind::PiSetprio { task, .. } if event.pid == self.tid => {
                if !self.lent_to.contains(&task.pid) {
                    self.lent_to.push(task.pid);
                }
            }
            // The holder gives up its inherited priority because it releases the lock to the next
            // waiter.
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

    /// Handles an event that occurred while the victim was the current thread of the CPU.
    fn own_event(&mut self, event: &TraceEvent) {
        let is_stack = matches!(event.kind, EventKind::KernelStack { .. });
        if event.pid != self.tid || event.pid == 0 || is_stack {
            return;
        }
        // The victim is running, but the switch to it was not recorded.
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
        // A thread that emits one of these events is running, so it is not waiting for a lock.
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
        // A sleep that ended before the due time is ignored.
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
                // A thread in user space can go to sleep only through a system call or a fault.
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
            self.switches = 0;
        }
        self.awake_since_due |= due;
    }

    /// Handles a switch of the CPU to another thread while the victim is waiting there. A thread of
    /// lower rank is chosen only if the scheduler does not see the victim. Ordinary threads share
    /// the CPU regardless of nice values, so if the victim is one of them, only an idle CPU shows
    /// this. If another CPU woke the victim, the victim is in the queue as soon as its own CPU
    /// emits `sched_wakeup`.
    fn see_other(&mut self, next: &Task) {
        let Some(prio) = self.prio else { return };
        let queued = match self.state {
            State::Queued => true,
            State::Woken => self.woken_here || (self.queued_unseen && self.switches > 0),
            _ => false,
        };
        self.switches += 1;
        let lower = prio.is_real_time() && prio.is_above(next.prio);
        if queued && (next.is_idle() || lower) {
            self.passed_over = true;
        }
    }
}

/// Derives the state of the thread before its first event.
fn at_first(tid: u32, events: &[TraceEvent]) -> Option<(State, u32)> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::Switch { prev, .. } if prev.pid == tid => Some((State::Running, event.cpu)),
        // The victim was runnable, but it is unknown since when.
        EventKind::Switch { next, .. } if next.pid == tid => Some((State::Unknown, event.cpu)),
        EventKind::Waking { task, target_cpu }
        | EventKind::Wakeup {
            task, target_cpu, ..
        } if task.pid == tid => Some((State::Asleep(Why::First), *target_cpu)),
        _ if event.pid == tid => Some((State::Running, event.cpu)),
        _ => None,
    })
}

#[cfg(test)]
#[path = "victim_tests.rs"]
mod tests;
