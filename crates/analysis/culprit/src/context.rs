//! State of a CPU at a point in time.

use std::collections::BTreeMap;

use punctual_model::cause::Name;
use punctual_model::{
    Comm, EventKind, GapReason, KernelPriority, Nanos, Task, Text, TraceEvent, Vector,
};

/// Maximum number of nested handlers. If more seem to be nested, exit events were lost.
const DEEPEST: usize = 16;

/// Returns whether the event may belong to a switch that another event already shows: its stack, or
/// an event inside it, has the thread that left the CPU.
pub(crate) const fn is_of_switch(event: &TraceEvent) -> bool {
    matches!(event.kind, EventKind::KernelStack { .. }) || event.is_requested()
}

/// Returns whether the event shows that a switch has not ended: the reader of text traces keeps the
/// flush of the TLB inside a switch.
pub(crate) fn is_in_switch(event: &TraceEvent) -> bool {
    matches!(&event.kind, EventKind::Requested { name, .. } if &*name.0 == "tlb_flush")
}

/// One hard interrupt in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    /// Interrupt without a device, such as `local_timer`.
    Vector(Vector),
    /// Interrupt of a device.
    Irq { irq: u32, name: Text },
    /// Timer function, called in the interrupt.
    Timer { hrtimer: u64, function: u64 },
}

/// Last known activity of a thread in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// A system call.
    Syscall(i64),
    /// Work item of a workqueue, by its function.
    Work(u64),
}

/// Sender of an interrupt from another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpiSender {
    /// The sending thread; `None` if the sender was a handler that had interrupted a thread.
    pub(crate) task: Option<Task>,
    pub(crate) cpu: u32,
    pub(crate) callsite: u64,
    /// Whether the interrupt only asks the target CPU to reschedule.
    reschedules: bool,
}

impl IpiSender {
    /// If the event is the sending of such an interrupt, returns the sender and the CPUs that it
    /// interrupts.
    pub(crate) fn from_event<'a>(
        event: &'a TraceEvent,
        threads: &Threads,
    ) -> Option<(Self, &'a [u32])> {
        let EventKind::IpiSend {
            cpus,
            callsite,
            callback,
        } = &event.kind
        else {
            return None;
        };
        let in_handler = event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::SOFTIRQ);
        let sender = Self {
            task: (!in_handler).then(|| threads.task(event.pid)),
            cpu: event.cpu,
            callsite: *callsite,
            reschedules: *callback == 0,
        };
        Some((sender, cpus))
    }
}

/// A hard interrupt that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterHandler {
    /// Interrupt of the local timer.
    Timer,
    Other,
}

/// Maximum time from the end of a hard interrupt to the beginning of the softirqs that it raised.
const AFTER_HANDLER: Nanos = Nanos::from_micros(30);

/// State of one CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Current thread; `None` if unknown.
    pub(crate) current: Option<Task>,
    /// Hard interrupts, outermost first.
    pub(crate) handlers: Vec<Handler>,
    /// Sender of the current interrupt, if another CPU sent it and the sender is known.
    pub(crate) ipi_sender: Option<IpiSender>,
    /// Interrupts from other CPUs that have not begun yet.
    pending_ipis: Vec<IpiSender>,
    /// Number of nested non-maskable interrupts on top.
    pub(crate) nmi: u32,
    /// Idle state of the CPU, if it is idle.
    pub(crate) idle: Option<u32>,
    /// `Some` if the last event of the current thread outside of handlers had interrupts disabled.
    /// Contains the address that disabled them, if known.
    pub(crate) irqs_off: Option<Option<u64>>,
    /// Whether the last event of the current thread had the flag that the scheduler has decided to
    /// preempt it.
    pub(crate) need_resched: bool,
    /// Address at which preemption was disabled.
    pub(crate) preempt_off: Option<u64>,
    /// Current softirq. On PREEMPT_RT it belongs to a thread and is saved when the thread is
    /// preempted.
    pub(crate) softirq: Option<u32>,
    softirqs: BTreeMap<u32, u32>,
    /// Whether the softirq followed a hard interrupt, rather than a thread's own call.
    pub(crate) softirq_of_handler: bool,
    /// Time of the last event, if it ended a hard interrupt, or a softirq that followed one.
    after_handler: Option<(Nanos, AfterHandler)>,
    /// Softirqs that were raised but have not run yet.
    pub(crate) raised: u32,
    /// Whether any event of the CPU has been seen.
    pub(crate) seen: bool,
    /// Reason why events of the CPU may be missing at this time.
    pub(crate) gap: Option<GapReason>,
}

impl Context {
    pub(crate) fn apply(&mut self, event: &TraceEvent, threads: &mut Threads) {
        self.seen = true;
        self.agree_on_current(event, threads);
        match &event.kind {
            EventKind::Switch { prev, next, .. } => self.switch(prev, next),
            EventKind::IrqEntry { irq, name } => self.push(Handler::Irq {
                irq: *irq,
                name: name.clone(),
            }),
            EventKind::IrqExit { irq, .. } => {
                self.pop(|handler| matches!(handler, Handler::Irq { irq: of, .. } if of == irq));
            }
            EventKind::VectorEntry { vector } => {
                self.ipi_sender = self.take_ipi(vector);
                self.push(Handler::Vector(vector.clone()));
            }
            EventKind::VectorExit { vector } => {
                self.ipi_sender = None;
                self.pop(|handler| matches!(handler, Handler::Vector(of) if of == vector));
            }
            // A timer function also runs in softirq context (soft timers). Only the handler stack
            // distinguishes the two cases.
            EventKind::HrtimerExpireEntry {
                hrtimer, function, ..
            } if !self.handlers.is_empty() || event.has(TraceEvent::HARDIRQ) => {
                self.push(Handler::Timer {
                    hrtimer: *hrtimer,
                    function: *function,
                });
            }
            EventKind::HrtimerExpireExit { hrtimer } => {
                self.pop(
                    |handler| matches!(handler, Handler::Timer { hrtimer: of, .. } if of == hrtimer),
                );
            }
            EventKind::SoftirqRaise { vec } => self.raised |= bit(*vec),
            EventKind::SoftirqEntry { vec } => {
                self.softirq = Some(*vec);
                self.softirq_of_handler = self.follows_handler(*vec, event.time);
                self.raised &= !bit(*vec);
            }
            EventKind::SoftirqExit { .. } => self.softirq = None,
            EventKind::IdleEntry { state, cpu_id } if *cpu_id == event.cpu => {
                self.idle = Some(*state);
            }
            EventKind::IdleExit { cpu_id } if *cpu_id == event.cpu => self.idle = None,
            EventKind::IrqDisable { caller, .. } => self.irqs_off = Some(Some(*caller)),
            EventKind::IrqEnable { .. } => self.irqs_off = None,
            EventKind::PreemptDisable { caller, .. } => self.preempt_off = Some(*caller),
            EventKind::PreemptEnable { .. } => self.preempt_off = None,
            _ => {}
        }
        let ended = match &event.kind {
            EventKind::VectorExit {
                vector: Vector::LocalTimer,
            } => Some(AfterHandler::Timer),
            EventKind::IrqExit { .. } | EventKind::VectorExit { .. } => Some(AfterHandler::Other),
            EventKind::SoftirqExit { .. } if self.softirq_of_handler => Some(AfterHandler::Other),
            _ => None,
        };
        self.after_handler = ended.map(|handler| (event.time, handler));
        self.note_flags(event);
    }

    /// Records that another CPU interrupts this one. A CPU does not send a second interrupt of the
    /// same kind before the first one has begun. So if an earlier one is still pending, the event
    /// of its beginning was lost.
    pub(crate) fn interrupted_by(&mut self, sender: IpiSender) {
        self.pending_ipis
            .retain(|earlier| earlier.reschedules != sender.reschedules);
        self.pending_ipis.push(sender);
    }

    /// Returns the sender of the interrupt that is beginning.
    fn take_ipi(&mut self, vector: &Vector) -> Option<IpiSender> {
        let fits = |ipi: &IpiSender| match vector {
            Vector::Reschedule => ipi.reschedules,
            Vector::CallFunction | Vector::CallFunctionSingle => !ipi.reschedules,
            // On Arm, there is one event for all kinds of interrupts between CPUs.
            Vector::Other(name) => &*name.0 == "ipi",
            _ => false,
        };
        let at = self.pending_ipis.iter().rposition(fits)?;
        Some(self.pending_ipis.remove(at))
    }

    /// Returns whether a softirq that is beginning now was started at the end of a hard interrupt.
    /// A timer interrupt does not start network softirqs. If one follows a timer interrupt, a
    /// thread's own call started it.
    fn follows_handler(&self, vec: u32, now: Nanos) -> bool {
        let in_time = |at: Nanos| now.saturating_sub(at) <= AFTER_HANDLER;
        match self.after_handler {
            Some((at, AfterHandler::Timer)) => in_time(at) && !SOFTIRQS_OF_NETWORK.contains(&vec),
            Some((at, AfterHandler::Other)) => in_time(at),
            None => false,
        }
    }

    /// Compares the current thread with the one that an event names. If they differ, a switch event
    /// was lost.
    fn agree_on_current(&mut self, event: &TraceEvent, threads: &Threads) {
        if is_of_switch(event) && self.current.is_some() {
            return;
        }
        let prev = match &event.kind {
            EventKind::Switch { prev, .. } => Some(*prev),
            _ => None,
        };
        let known = self.current.is_some_and(|task| task.pid == event.pid);
        if !known || prev.is_some() {
            let found = prev.filter(|prev| prev.pid == event.pid);
            self.current = Some(found.unwrap_or_else(|| threads.task(event.pid)));
        }
    }

    fn switch(&mut self, prev: &Task, next: &Task) {
        match self.softirq.take() {
            Some(vec) => self.softirqs.insert(prev.pid, vec),
            None => self.softirqs.remove(&prev.pid),
        };
        self.softirq = self.softirqs.remove(&next.pid);
        self.current = Some(*next);
        // The scheduler cannot be called from an interrupt. So the exit events of all handlers that
        // are still on the stack were lost.
        self.handlers.clear();
        self.nmi = 0;
        self.irqs_off = None;
        self.preempt_off = None;
        self.need_resched = false;
        if !next.is_idle() {
            self.idle = None;
        }
    }

    /// Outside of handlers, the flag shows whether the thread has interrupts disabled. It is always
    /// set in a switch event.
    fn note_flags(&mut self, event: &TraceEvent) {
        let own = matches!(
            event.kind,
            EventKind::Switch { .. }
                | EventKind::IrqDisable { .. }
                | EventKind::IrqEnable { .. }
                | EventKind::VectorEntry { .. }
                | EventKind::VectorExit { .. }
        );
        let switch = matches!(event.kind, EventKind::Switch { .. });
        self.need_resched |= !switch && event.has(TraceEvent::NEED_RESCHED);
        let handler = TraceEvent::HARDIRQ | TraceEvent::NMI;
        if own || event.flags & handler != 0 || !self.handlers.is_empty() {
            return;
        }
        if event.has(TraceEvent::IRQS_OFF) {
            self.irqs_off = self.irqs_off.or(Some(None))
        } else {
            self.irqs_off = None
        }
    }

    fn push(&mut self, handler: Handler) {
        if self.handlers.len() < DEEPEST {
            self.handlers.push(handler);
        }
    }

    /// Ends the innermost matching handler and the handlers on top of it.
    fn pop(&mut self, fits: impl Fn(&Handler) -> bool) {
        if let Some(at) = self.handlers.iter().rposition(fits) {
            self.handlers.truncate(at);
        }
    }

    /// Returns whether a softirq that runs timers was raised.
    pub(crate) fn timer_softirq_raised(&self) -> bool {
        self.raised & (bit(SOFTIRQ_TIMER) | bit(SOFTIRQ_HRTIMER)) != 0
    }
}

pub(crate) const SOFTIRQ_TIMER: u32 = 1;
pub(crate) const SOFTIRQ_HRTIMER: u32 = 8;
/// NET_TX and NET_RX.
pub(crate) const SOFTIRQS_OF_NETWORK: [u32; 2] = [2, 3];

fn bit(vec: u32) -> u32 {
    1u32.checked_shl(vec).unwrap_or(0)
}

/// The flag of `contention_begin` for a lock whose waiters spin (`include/trace/events/lock.h`).
const SPINS: u32 = 1;

/// Names of the threads in the window, and their activity in the kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    tasks: BTreeMap<u32, Task>,
    doing: BTreeMap<u32, Doing>,
    /// The kernel locks that threads spin for.
    spins: BTreeMap<u32, u64>,
    /// Time of each thread's last page fault, and whether it came from user space. No event shows
    /// when a fault ends.
    faults: BTreeMap<u32, (Nanos, bool)>,
    /// Whether system call entries are recorded. If so, a thread without a known call is in no
    /// system call.
    syscalls: bool,
    in_user: BTreeMap<u32, bool>,
    /// Whether each thread was last seen running or being woken, rather than asleep.
    awake: BTreeMap<u32, bool>,
}

impl Threads {
    /// Collects the names from all events, including later ones, because names are assumed not to
    /// change.
    pub(crate) fn from_events(events: &[TraceEvent]) -> Self {
        let mut threads = Self::default();
        for event in events {
            for task in event.kind.tasks().into_iter().flatten() {
                threads.tasks.entry(task.pid).or_insert(*task);
            }
            // Calls without the kernel's numbers are only those that the trace was recorded for.
            threads.syscalls |= matches!(
                event.kind,
                EventKind::SysEnter { id: 0.., .. } | EventKind::SysExit { id: 0.., .. }
            );
        }
        threads
    }

    /// Adds names of threads that no event shows.
    pub(crate) fn add(&mut self, names: &[Name]) {
        for Name { pid, comm } in names {
            if let Some(pid) = *pid {
                self.tasks.entry(pid).or_insert(Task {
                    pid,
                    comm: *comm,
                    prio: KernelPriority::UNKNOWN,
                });
            }
        }
    }

    pub(crate) fn task(&self, pid: u32) -> Task {
        self.tasks.get(&pid).copied().unwrap_or(Task {
            pid,
            comm: Comm::default(),
            prio: KernelPriority::UNKNOWN,
        })
    }

    /// Tracks the activity of threads.
    pub(crate) fn apply(&mut self, event: &TraceEvent) {
        let doing = match &event.kind {
            EventKind::SysEnter { id, .. } => Doing::Syscall(*id),
            EventKind::PageFaultUser { .. } | EventKind::PageFaultKernel { .. } => {
                let user = matches!(event.kind, EventKind::PageFaultUser { .. });
                self.faults.insert(event.pid, (event.time, user));
                self.in_user.insert(event.pid, false);
                return;
            }
            EventKind::WorkqueueStart { function, .. } => Doing::Work(*function),
            EventKind::ContentionBegin { lock_addr, flags } => {
                if flags & SPINS != 0 {
                    self.spins.insert(event.pid, *lock_addr);
                }
                return;
            }
            EventKind::ContentionEnd { .. } => {
                self.spins.remove(&event.pid);
                return;
            }
            EventKind::SysExit { .. } => {
                self.doing.remove(&event.pid);
                self.faults.remove(&event.pid);
                self.in_user.insert(event.pid, true);
                return;
            }
            EventKind::WorkqueueEnd { .. } => {
                self.doing.remove(&event.pid);
                return;
            }
            EventKind::PiSetprio { task, newprio } => {
                self.tasks.insert(
                    task.pid,
                    Task {
                        prio: *newprio,
                        ..*task
                    },
                );
                return;
            }
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                self.tasks.insert(prev.pid, *prev);
                self.tasks.insert(next.pid, *next);
                self.awake.insert(prev.pid, prev_state.is_runnable());
                self.awake.insert(next.pid, true);
                return;
            }
            EventKind::Waking { task, .. } | EventKind::Wakeup { task, .. } => {
                self.awake.insert(task.pid, true);
                return;
            }
            _ => return,
        };
        self.in_user.insert(event.pid, false);
        self.faults.remove(&event.pid);
        self.doing.insert(event.pid, doing);
    }

    /// If the last event of a thread was a page fault, returns its time and whether it came from
    /// user space.
    pub(crate) fn fault(&self, pid: u32) -> Option<(Nanos, bool)> {
        self.faults.get(&pid).copied()
    }

    /// Returns the kernel lock that the thread spins for.
    pub(crate) fn spins_for(&self, pid: u32) -> Option<u64> {
        self.spins.get(&pid).copied()
    }

    pub(crate) fn doing(&self, pid: u32) -> Option<Doing> {
        self.doing.get(&pid).copied()
    }

    /// Returns whether the thread is known to be asleep.
    pub(crate) fn is_asleep(&self, pid: u32) -> bool {
        self.awake.get(&pid) == Some(&false)
    }

    /// Returns whether the thread is known to be running in user space, where interrupts cannot be
    /// disabled.
    pub(crate) fn is_in_user(&self, pid: u32) -> bool {
        self.syscalls && self.in_user.get(&pid).copied().unwrap_or(false)
    }
}

impl Context {
    /// Derives the state of the CPU before its first event.
    pub(crate) fn before(event: &TraceEvent, threads: &Threads) -> Self {
        let mut context = Self {
            seen: true,
            current: Some(threads.task(event.pid)),
            ..Self::default()
        };
        match &event.kind {
            EventKind::VectorExit { vector } => {
                context.handlers.push(Handler::Vector(vector.clone()));
            }
            EventKind::IrqExit { irq, .. } => context.handlers.push(Handler::Irq {
                irq: *irq,
                name: "".into(),
            }),
            EventKind::SoftirqExit { vec } => context.softirq = Some(*vec),
            EventKind::IdleExit { cpu_id } if *cpu_id == event.cpu => context.idle = Some(0),
            EventKind::Switch { prev, .. } => context.current = Some(*prev),
            _ => {}
        }
        context
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
