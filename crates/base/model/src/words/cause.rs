//! Describes causes in words.

use std::fmt;

use super::gap::{hypotheses, risen};
use super::hold::held_by;
use crate::cause::{
    Activity, Awaited, Cause, CauseWords, Detail, Device, Leaf, Limit, LongFunction, Missing, Name,
    Rank, Source, Stay, Thief, Unknown, Wait,
};
use crate::{GapReason, KernelPriority, ShareKind, Task, Text, disk_name, softirq_name};

impl Cause {
    /// Returns the cause in words.
    pub fn words(&self) -> CauseWords {
        CauseWords {
            detail: self.detail(),
            ..self.source.words()
        }
    }

    /// Returns the name of the cause within its kind: the name of an interrupt, or the comm and pid
    /// of a thread.
    pub fn who(&self) -> String {
        self.source.who()
    }

    /// Describes how the time was spent; `None` if nothing more is known.
    pub fn detail(&self) -> Option<String> {
        let parts = self.own_detail().into_iter();
        let parts: Vec<String> = parts
            .chain(self.function.as_ref().map(LongFunction::to_string))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Describes how the time was spent, without the function that took most of it.
    pub(super) fn own_detail(&self) -> Option<String> {
        let text = detail(self.detail.as_ref()?);
        // Only the request to preempt the thread shows that its priority is lower.
        let rest = text.strip_prefix(UNRANKED);
        Some(match rest.filter(|_| self.kind() == ShareKind::Blocking) {
            Some(rest) => format!("due for preemption, priority not recorded{rest}"),
            None => text,
        })
    }

    /// Returns the cause without its duration, such as `interrupt: eth0 (24), mostly in tick`.
    pub fn label(&self) -> String {
        let name = self.source.label();
        match self.detail() {
            Some(detail) if !detail.is_empty() => format!("{name}, {detail}"),
            _ => name,
        }
    }
}

impl Source {
    /// Returns the source in words.
    pub fn words(&self) -> CauseWords {
        CauseWords {
            kind: self.kind(),
            who: self.who(),
            detail: None,
        }
    }

    /// Returns the name of the source within its kind.
    pub fn who(&self) -> String {
        match self {
            Self::TimerLate => "the timer's interrupt".to_owned(),
            Self::TimerSlack => "its own timer".to_owned(),
            Self::IdleExit(cpu) => format!("CPU {cpu}"),
            Self::IrqsOff(thread) | Self::PreemptOff(thread) | Self::Thread { thread, .. } => {
                thread.to_string()
            }
            Self::Gap => "no event".to_owned(),
            Self::Vector(vector) => vector.name().to_owned(),
            Self::Irq { irq, name } if name.0.is_empty() => format!("interrupt {irq}"),
            Self::Irq { irq, name } => format!("{name} ({irq})"),
            Self::Softirq(vec) => softirq_name(*vec),
            Self::Nmi => "non-maskable interrupt".to_owned(),
            Self::AwaitedInterrupt => "an interrupt".to_owned(),
            Self::Stopped(Some(by)) => format!("signal {} from {}", by.signal, by.sender),
            Self::Stopped(None) => "a signal or a debugger".to_owned(),
            Self::Migration { from, to: Some(to) } => format!("from CPU {from} to CPU {to}"),
            Self::Migration { from, to: None } => format!("from CPU {from}"),
            Self::Throttled(limit) => limit.to_string(),
            Self::NotRun(cpu) => format!("runnable while CPU {cpu} was idle"),
            Self::PageFault => "page faults of its own".to_owned(),
            Self::OwnWork => "the thread itself".to_owned(),
            Self::UserSpace => "user space".to_owned(),
            Self::FaultOrUserSpace => "page faults or user space".to_owned(),
            Self::SystemCall(call) => call.to_string(),
            Self::OwnSleep => "its own timer".to_owned(),
            Self::TimerSignal(signal) => format!("the timer of signal {signal}"),
            Self::Device(device) => device.to_string(),
            Self::Awaited(awaited) => awaited.to_string(),
            Self::Scheduling => "the scheduler".to_owned(),
            Self::ReturnToUser => "switch to user space".to_owned(),
            Self::Stolen => "the hypervisor".to_owned(),
            Self::Host(source) => format!("the host: {}", source.on_host()),
            Self::Undecided { source, thief } => format!("{}, or {thief}", source.what_runs()),
            Self::Unexplained(unknown) => unknown.to_string(),
            Self::Others(_) => "others".to_owned(),
        }
    }

    /// Returns the kind and the name: `interrupt: eth0 (24)`.
    pub fn label(&self) -> String {
        let who = self.who();
        if who.is_empty() {
            self.kind().name().to_owned()
        } else {
            format!("{}: {who}", self.kind().name())
        }
    }

    /// Returns what a host does instead of running a virtual CPU. `self` describes the host's
    /// thread that is this virtual CPU.
    fn on_host(&self) -> String {
        let who = self.who();
        match self {
            Self::OwnWork | Self::UserSpace | Self::FaultOrUserSpace | Self::ReturnToUser => {
                "the vCPU's thread outside guest mode".to_owned()
            }
            Self::SystemCall(call) => format!("the vCPU's thread outside guest mode, in {call}"),
            Self::PageFault => "page faults of the vCPU's thread".to_owned(),
            Self::OwnSleep | Self::AwaitedInterrupt => {
                "the vCPU's thread asleep until a timer expired".to_owned()
            }
            Self::Device(_) | Self::Awaited(_) | Self::TimerSignal(_) => {
                format!("the vCPU's thread waiting for {who}")
            }
            Self::Stopped(_) => format!("the vCPU's thread stopped by {who}"),
            Self::Throttled(_) => format!("the vCPU's thread throttled, {who}"),
            Self::NotRun(_) => format!("the vCPU's thread {who}"),
            Self::Migration { .. } => format!("the vCPU's thread moved {who}"),
            Self::Unexplained(_) | Self::Gap => format!("unknown, {who}"),
            Self::Scheduling => who,
            _ => self.what_runs(),
        }
    }

    /// Returns the thread, handler or other user of the CPU as the subject of a sentence.
    fn what_runs(&self) -> String {
        let who = self.who();
        match self {
            Self::IdleExit(_) => format!("{who} waking from idle"),
            Self::IrqsOff(_) => format!("{who} with interrupts disabled"),
            Self::PreemptOff(_) => format!("{who} with preemption disabled"),
            Self::Vector(_) | Self::Irq { .. } => format!("interrupt {who}"),
            Self::Softirq(_) => format!("softirq {who}"),
            Self::Nmi => format!("a {who}"),
            Self::SystemCall(_) => format!("system call {who}"),
            Self::ReturnToUser => "the return to user space".to_owned(),
            Self::Thread { .. } | Self::Awaited(_) => format!("{who} running"),
            _ => who,
        }
    }
}

/// Formats as `make-4711`, `make` for all threads of that name, or `thread 4711` if the name is
/// unknown.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, self.comm.is_empty()) {
            (Some(pid), true) => write!(f, "thread {pid}"),
            (Some(pid), false) => write!(f, "{}-{pid}", self.comm),
            (None, true) => f.write_str("a thread"),
            (None, false) => write!(f, "{}", self.comm),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeadlineBudget => f.write_str("the budget of SCHED_DEADLINE was used up"),
            Self::RealTime => f.write_str("real-time throttling"),
            Self::FairServer => f.write_str("the deadline server let ordinary threads run"),
            Self::Quota(None) => f.write_str("CPU quota of a control group"),
            Self::Quota(Some(group)) => write!(f, "CPU quota of {group}"),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThreadEnded => f.write_str("the thread has ended"),
            Self::NotRecorded { what, events } => {
                write!(f, "{what} ({} not recorded)", listed(events))
            }
            Self::NothingBefore => f.write_str("no event of the thread was recorded before it ran"),
            Self::NoEventOfThread => f.write_str("no event of the thread"),
            Self::NoEventOfCpu(cpu) => write!(f, "no event of CPU {cpu}"),
            Self::NoWaker => f.write_str("its wake-up was not recorded"),
            Self::NoSwitchIn(cpu) => {
                write!(f, "the switch from idle on CPU {cpu} was not recorded")
            }
            Self::WakeupPending => {
                f.write_str("the wake-up from another CPU had not reached this CPU")
            }
            Self::IdleInstead(cpu) => write!(
                f,
                "CPU {cpu} was idle while the thread was runnable; possible: a pending wake-up, \
                 throttling, hypervisor, SMI"
            ),
            Self::PassedOver => f.write_str(
                "the scheduler ran other threads first; possible: real-time throttling, the \
                 deadline server for ordinary threads",
            ),
            Self::OwnPriority => f.write_str("the thread's own priority"),
            Self::PriorityOf(thread) => write!(f, "{thread} ran with unknown priority"),
            Self::EventsLost => f.write_str("no event was recorded, and some events were lost"),
            Self::Gap { reason, cpu } => match reason {
                GapReason::BeforeTrace => f.write_str("the trace begins later"),
                GapReason::Lost => write!(f, "events of CPU {cpu} were lost"),
                GapReason::Contradiction => {
                    write!(f, "a switch on CPU {cpu} was not recorded")
                }
                GapReason::NotHeld => {
                    f.write_str("the wait is longer than the time that the events in memory cover")
                }
                GapReason::ClocksDiffer => {
                    f.write_str("clocks of different CPUs cannot be compared")
                }
            },
            Self::QuotaOrEqual(Some(group)) => write!(
                f,
                "throttled by the CPU quota of {group}, or delayed by threads of equal rank"
            ),
            Self::QuotaOrEqual(None) => {
                f.write_str("throttled by a CPU quota, or delayed by threads of equal rank")
            }
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WhatRan => f.write_str("what ran"),
            Self::AfterInterrupt => {
                f.write_str("what ran from the timer's interrupt to the thread")
            }
            Self::WakeUp => f.write_str("the wake-up"),
            Self::Own => f.write_str("the thread itself, a page fault or an untraced gap"),
            Self::InterruptOrGap => f.write_str("an interrupt, or an untraced gap"),
            Self::WokenBy => f.write_str("a timer, a device or a peer on this machine"),
            Self::OnCpu => f.write_str(
                "the thread on its CPU: its own code, system calls, page faults or interrupts",
            ),
            Self::RanInstead => f.write_str("waiting for its CPU, unknown why"),
            Self::BeforeWakeUp => f.write_str("before its wake-up, unknown why"),
            Self::AroundWakeUp => f.write_str("before or after its wake-up, unknown which"),
            Self::HandlerOn(thread) => write!(f, "{thread}, or a handler that interrupted it"),
            Self::QuotaOrEqual => f.write_str("threads of equal rank, or a CPU quota"),
        }
    }
}

/// Formats as `a, b`.
fn listed(items: &[impl fmt::Display]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

fn detail(detail: &Detail) -> String {
    match detail {
        Detail::Function(name) | Detail::Nested(name) => name.to_string(),
        Detail::SentBy {
            sender,
            cpu,
            function,
        } => {
            let sender = (sender.as_ref()).map_or("an interrupt".to_owned(), ToString::to_string);
            format!("sent by {sender} on CPU {cpu} in {function}")
        }
        Detail::On(Some(task)) if task.is_idle() => "on the idle CPU".to_owned(),
        Detail::On(Some(task)) => format!("in {}", rank(task)),
        Detail::On(None) => "in an unknown thread".to_owned(),
        Detail::Rank(rank) => of_rank(rank),
        Detail::Doing(what) => activity(what),
        Detail::MovedBy(thread) => format!("by {thread}"),
        Detail::Meanwhile(None) => "the CPU was idle meanwhile".to_owned(),
        Detail::Meanwhile(Some(rival)) => {
            let task = &rival.task;
            let mut inside = Vec::new();
            inside.extend((task.prio != KernelPriority::UNKNOWN).then(|| task.prio.to_string()));
            inside.extend(rival.activity.as_ref().map(activity));
            if inside.is_empty() {
                format!("{} ran meanwhile", Name::from(task))
            } else {
                format!("{} ({}) ran meanwhile", Name::from(task), inside.join(", "))
            }
        }
        Detail::HeldBy {
            possible,
            decided_by,
            sched_ext,
        } => {
            let text = held_by(possible, decided_by.as_ref());
            let loaded = |name| format!("{text}; sched_ext scheduler: {name}");
            sched_ext.as_ref().map_or(text.clone(), loaded)
        }
        Detail::Ran(task) => format!("{} ran", rank(task)),
        Detail::Together => "idle exit, switch and return to user space together".to_owned(),
        Detail::WaitingForPage => "waiting for a page".to_owned(),
        Detail::Slack {
            slack_ns,
            known: true,
        } => format!("of {slack_ns}"),
        Detail::Slack { slack_ns, .. } => {
            format!("of {slack_ns} (the default for ordinary threads)")
        }
        Detail::IdleState(state) => format!("state {state}"),
        Detail::At(name) => format!("at {name}"),
        Detail::Stays(stays) => listed(stays),
        Detail::InSwitch { from, until } => {
            format!("inside the switch from {from}, until {until}")
        }
        Detail::AfterWakeup(functions) => format!("after a wake-up in {functions}"),
        Detail::While(ran) => ran.to_string(),
        Detail::UserOrKernel => "user space or kernel: system calls are not recorded".to_owned(),
        Detail::Faults => "with page faults".to_owned(),
        Detail::WaitsIn { call, argument, at } => {
            let call = waits_in(call.as_ref(), *argument);
            at.as_ref()
                .map_or(call.clone(), |at| format!("{call}, at {at}"))
        }
        Detail::PageFrom(device) => format!("waiting for a page from {device}"),
        Detail::Through(chain) => format!("through {}", listed(chain)),
        Detail::PossiblyWaitsFor { thread, cpu } => {
            format!("possibly waits for {thread}, preempted on CPU {cpu}")
        }
        Detail::Hypotheses {
            ran,
            disabled,
            ended_in,
            nmi_recorded,
            counted,
        } => hypotheses(ran, (*disabled, ended_in.as_ref()), *nmi_recorded, counted),
        Detail::Instead(source) => format!("instead of {}", source.what_runs()),
        Detail::Counted {
            counted,
            detail: inner,
        } => {
            let mut parts: Vec<String> = risen(counted).collect();
            if parts.is_empty() && counted.steal.is_some() {
                parts.push("steal time did not rise".to_owned());
            }
            parts.extend(inner.as_deref().map(self::detail));
            parts.join("; ")
        }
    }
}

/// Formats as `function mmc_hw_reset took 412 µs of it`.
impl fmt::Display for LongFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} took {} of it", self.function, self.ns)
    }
}

/// Formats as `169 µs in mmc_hw_reset < process_one_work until _raw_spin_unlock`.
impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ns) = self.ns {
            write!(f, "{ns} ")?;
        }
        write!(f, "in {}", self.at)?;
        match &self.until {
            Some(until) => write!(f, " until {until}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Thief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hypervisor => "the hypervisor",
            Self::Smi => "an SMI",
            Self::Either => "the hypervisor, or an SMI",
        })
    }
}

/// System calls whose first argument is a file descriptor.
const OF_DESCRIPTORS: &str = "read write readv writev pread64 pwrite64 recvfrom recvmsg sendto \
    sendmsg accept accept4 connect fsync fdatasync fcntl flock ioctl epoll_wait epoll_pwait \
    epoll_pwait2 sendfile io_uring_enter";

/// Formats as `in read, descriptor 5` or `futex 0x7ffe10`.
fn waits_in(call: Option<&Text>, first: u64) -> String {
    match call.map(|call| &*call.0) {
        None => "in an unknown system call".to_owned(),
        Some("futex" | "futex_wait") => format!("futex {first:#x}"),
        Some(call) if OF_DESCRIPTORS.split(' ').any(|one| one == call) => {
            format!("in {call}, descriptor {first}")
        }
        Some(call) => format!("in {call}"),
    }
}

/// Formats as `low-12, which waited for mid-13, preempted by hog-14`, `signal 10 of low-12`, or
/// `a garbage collection of VM Thread-7, which waited for GC Thread#0-8`.
impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait {
            Wait::Signal(signal) => write!(f, "signal {signal} of ")?,
            Wait::VmOperation => f.write_str("a JVM operation of ")?,
            Wait::Collection => f.write_str("a garbage collection of ")?,
            Wait::GoroutineStop => f.write_str("a stop of all goroutines by ")?,
            Wait::Lock | Wait::Thread | Wait::Page => {}
        }
        for (place, name) in self.chain.iter().enumerate() {
            let before = if place > 0 { ", which waited for " } else { "" };
            write!(f, "{before}{name}")?;
        }
        match &self.leaf {
            Leaf::Ran => Ok(()),
            Leaf::Preempted { by, prio } if *prio == KernelPriority::UNKNOWN => {
                write!(f, ", preempted by {by}")
            }
            Leaf::Preempted { by, prio } => write!(f, ", preempted by {by} ({prio})"),
            Leaf::NotScheduled => f.write_str(", runnable on an idle CPU"),
            Leaf::Slept => f.write_str(", which slept until its own timer expired"),
            Leaf::Asleep => f.write_str(", which slept"),
            Leaf::Device(device) => write!(f, ", which waited for {device}"),
            Leaf::Stopped => f.write_str(", which was stopped"),
            Leaf::Unknown => f.write_str(", whose activity is unknown"),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(dev) => write!(f, "disk {}", disk_name(*dev)),
            Self::Irq { irq, name } if name.0.is_empty() => write!(f, "interrupt {irq}"),
            Self::Irq { irq, name } => write!(f, "interrupt {name} ({irq})"),
            Self::Vector(name) => write!(f, "{name}"),
            Self::Softirq(vec) => write!(f, "softirq {}", softirq_name(*vec)),
            Self::Interrupt => f.write_str("an interrupt"),
        }
    }
}

/// Formats as `make-4711, nice 0`.
fn rank(task: &Task) -> String {
    match task.prio {
        KernelPriority::UNKNOWN => Name::from(task).to_string(),
        _ => format!("{}, {}", Name::from(task), task.prio),
    }
}

/// Describes a thread whose priority is unknown.
const UNRANKED: &str = "of unknown priority";

/// Formats as `nice 0, in write; below io-7, nice -5, which it waited for`.
fn of_rank(own: &Rank) -> String {
    let mut text = match own.prio {
        KernelPriority::UNKNOWN => UNRANKED.to_owned(),
        _ => own.prio.to_string(),
    };
    if let Some(what) = &own.activity {
        text.push_str(&format!(", {}", activity(what)));
    }
    if let Some(before) = &own.before {
        let beside = match () {
            () if own.prio.is_above(before.prio) => "above",
            () if own.prio == before.prio || !before.prio.is_real_time() => "as",
            () => "below",
        };
        text.push_str(&format!("; {beside} {}, which it waited for", rank(before)));
    }
    text
}

fn activity(activity: &Activity) -> String {
    match activity {
        Activity::Syscall(call) => format!("in {call}"),
        Activity::PageFault { user: true } => "in a page fault".to_owned(),
        Activity::PageFault { user: false } => "in a kernel page fault".to_owned(),
        Activity::Work(function) => format!("in work {function}"),
        Activity::PreemptionOff(place) => format!("preemption disabled at {place}"),
        Activity::SpinsFor(lock) => format!("spinning for the kernel lock {lock}"),
        Activity::Asleep => "which slept itself".to_owned(),
        Activity::Faulted => "its last event was a page fault".to_owned(),
        Activity::AwaitsLockOf(holder) => format!("which waited for a lock held by {holder}"),
        Activity::DelaysSoftirq => "the timer's softirq waits".to_owned(),
        Activity::UserSpace => "in user space, without any event".to_owned(),
    }
}
