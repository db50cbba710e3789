//! Splits a job into segments, each with its cause.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::cause::{
    Cause, Detail, Leaf, Missing, Name, Rank, Role, Signal, Source, Unknown, Wait,
};
use punctual_model::{Comm, KernelPriority, Nanos, Task, Text, Window, stack_of};

use super::chain;
use super::go_stops;
use super::jvm;
use super::pi_locks::FUTEX_OPERATION;
use super::tracks::{InCall, Phase, Span, Tracks};
use super::waker::{By, Timer};
use crate::cause_span::CauseSpan;
use crate::events::{FAULT, IRQ, SOFTIRQ, SWITCH, SYS_ENTER, VECTORS};
use crate::held::not_run;

/// Maximum duration of an idle exit. If an idle CPU takes longer to run a waiting thread, there is
/// another cause.
const IDLE_EXIT: Nanos = Nanos::from_millis(1);

/// FUTEX_WAIT, which glibc uses for mutexes but not for condition variables; FUTEX_LOCK_PI and
/// FUTEX_LOCK_PI2.
const LOCKS: [u64; 3] = [0, 6, 13];

/// A job and its segments.
pub(crate) struct Split<'a> {
    window: &'a Window,
    tracks: &'a Tracks,
    pub(crate) spans: Vec<CauseSpan>,
    /// Threads that were involved in the job.
    pub(crate) threads: BTreeSet<u32>,
}

impl<'a> Split<'a> {
    pub(crate) fn new(window: &'a Window, tracks: &'a Tracks) -> Self {
        let tid = window.victim.tid;
        let mut split = Self {
            window,
            tracks,
            spans: Vec::new(),
            threads: BTreeSet::from([tid]),
        };
        for span in tracks.spans(tid, window.expected, window.actual) {
            match span.phase {
                Phase::Runs(cpu) => split.runs(span, cpu),
                Phase::Ready => split.ready(span),
                Phase::Asleep(wake) => split.asleep(span, wake),
                Phase::Stopped => split.stopped(span),
                Phase::Ended => split.push(span, Cause::unexplained(Unknown::ThreadEnded)),
                Phase::Unknown => split.unknown(span),
            }
        }
        unify_preempters(&mut split.spans);
        split
    }

    fn push(&mut self, span: Span, cause: Cause) {
        let cpu = self
            .spans
            .last()
            .map_or(self.window.victim.cpu, |last| last.cpu);
        self.push_span((span.from, span.to), span.cpu().unwrap_or(cpu), cause, None);
    }

    /// `rival`: the thread that is running on the CPU while the victim is runnable.
    pub(super) fn push_span(
        &mut self,
        (from, to): (Nanos, Nanos),
        cpu: u32,
        cause: Cause,
        rival: Option<u32>,
    ) {
        if to > from {
            self.spans.push(CauseSpan {
                from,
                to,
                cpu,
                cause,
                rival,
            });
        }
    }

    fn unknown(&mut self, span: Span) {
        let what = match () {
            () if !self.window.has(SWITCH) => {
                return self.push(span, Cause::not_recorded(Missing::WhatRan, &[SWITCH]));
            }
            () if self.window.lost > 0 => Unknown::EventsLost,
            () => Unknown::NoEventOfThread,
        };
        self.push(span, Cause::unexplained(what));
    }

    /// The thread is running, in user space or in a system call, unless a handler runs on top of
    /// it.
    fn runs(&mut self, span: Span, cpu: u32) {
        let tid = self.window.victim.tid;
        // Time of the fault before a sleep for its page.
        let fault = self.tracks.fault_before_sleep(tid, span.to);
        for part in self.tracks.on(cpu, span.from, span.to) {
            if let Some(cause) = part.on_top {
                self.push_span((part.from, part.to), cpu, cause, None);
                continue;
            }
            let mut at = part.from;
            let mut cuts = self.tracks.calls_between(tid, part.from, part.to);
            cuts.extend(fault.filter(|at| *at > part.from && *at < part.to));
            cuts.extend(self.tracks.faults.edges(tid, part.from, part.to));
            cuts.push(part.to);
            cuts.sort_unstable();
            for cut in cuts {
                let in_fault = self.tracks.in_fault(tid, at);
                if fault.is_some_and(|fault| at >= fault) {
                    self.push_span((at, cut), cpu, Cause::new(Source::PageFault), None);
                } else if let Some(fault) = in_fault {
                    let source = match fault.end {
                        Some(_) => Source::PageFault,
                        None => Source::FaultOrUserSpace,
                    };
                    self.push_span((at, cut), cpu, Cause::new(source), None);
                } else {
                    self.works((at, cut), cpu);
                }
                at = cut;
            }
        }
    }

    /// The thread is running in user space or in a system call. In a call, it may spin for a lock
    /// of another thread.
    fn works(&mut self, (from, to): (Nanos, Nanos), cpu: u32) {
        let tid = self.window.victim.tid;
        let call = self.tracks.call_at(tid, from).flatten();
        let spin = self.tracks.spin(tid, from);
        let spin = spin.filter(|_| is_futex(call.map(|(id, _)| self.name_of(id)).as_ref()));
        let Some(spin) = spin.filter(|spin| spin.from < to && spin.to > from) else {
            return self.push_span((from, to), cpu, self.own(from), None);
        };
        let (begins, ends) = (spin.from.max(from), spin.to.min(to));
        self.push_span((from, begins), cpu, self.own(from), None);
        let span = Span {
            from: begins,
            to: ends,
            phase: Phase::Runs(cpu),
        };
        let object = self.object(from, call, false);
        self.follow(spin.owner, span, Wait::Lock, object.as_ref());
        self.push_span((ends, to), cpu, self.own(from), None);
    }

    fn own(&self, at: Nanos) -> Cause {
        let tid = self.window.victim.tid;
        if self.tracks.is_light() {
            return Cause::not_recorded(Missing::OnCpu, &[SYS_ENTER, FAULT, IRQ]);
        }
        match self.tracks.call_at(tid, at) {
            Some(Some((id, _))) => Cause::new(Source::SystemCall(self.name_of(id))),
            _ if !self.window.has(SYS_ENTER) => {
                Cause::new(Source::OwnWork).with(Detail::UserOrKernel)
            }
            _ => Cause::new(Source::UserSpace),
        }
    }

    /// Returns the object that the thread waits for at a given time, in `call` or in a page fault.
    fn object(&self, at: Nanos, call: Option<InCall>, in_fault: bool) -> Option<Detail> {
        let stack = self.tracks.stack(self.window.victim.tid, at);
        let at = stack.and_then(|stack| self.blocked_at(stack));
        if in_fault && call.is_none() {
            return at.map(Detail::At);
        }
        Some(Detail::WaitsIn {
            call: call.map(|(id, _)| self.name_of(id)),
            argument: call.map_or(0, |(_, [first, _])| first),
            at,
        })
    }

    /// Splits a wait by the activity of the thread that the victim waits for.
    fn follow(&mut self, waker: u32, span: Span, wait: Wait, object: Option<&Detail>) {
        let tid = self.window.victim.tid;
        let followed = chain::follow(self.tracks, (tid, waker), span, wait);
        let for_jvm = jvm::wait(&self.window.evidence.jvm, (tid, waker), &followed);
        let cpu = self
            .spans
            .last()
            .map_or(self.window.victim.cpu, |last| last.cpu);
        for part in followed {
            self.threads.extend(part.threads);
            let mut cause = match (&part.cause.detail, object) {
                (None, Some(object)) => part.cause.with(object.clone()),
                _ => part.cause,
            };
            if let (Some(kind), Source::Awaited(awaited)) = (for_jvm, &mut cause.source) {
                awaited.wait = kind;
            }
            self.push_span((part.from, part.to), part.cpu.unwrap_or(cpu), cause, None);
        }
    }

    fn name_of(&self, id: i64) -> Text {
        use punctual_model::EventNames as _;
        self.window.call(id).as_str().into()
    }

    /// Handles a time in which the thread is runnable: determines what ran on the CPU instead.
    fn ready(&mut self, span: Span) {
        let tid = self.window.victim.tid;
        for (from, to, cpu) in self.tracks.waited_on(tid, span.from, span.to) {
            let Some(cpu) = cpu else {
                let nothing = Unknown::NoEventOfCpu(self.window.victim.cpu);
                self.push(Span { from, to, ..span }, Cause::unexplained(nothing));
                continue;
            };
            for part in self.tracks.on(cpu, from, to) {
                let (time, length) = ((part.from, part.to), part.to - part.from);
                if let Some(cause) = part.on_top {
                    self.push_span(time, cpu, cause, None);
                    continue;
                }
                let own = self.tracks.priority(tid, part.from);
                let (cause, rival) = match part.current {
                    None => (Cause::unexplained(Unknown::NoEventOfCpu(cpu)), None),
                    Some(task) if task.pid == tid => (Cause::new(Source::Scheduling), None),
                    Some(task) if task.is_idle() => self.idle(cpu, (part.from, length), own),
                    Some(task) => {
                        self.threads.insert(task.pid);
                        let prio = self.tracks.priority(task.pid, part.from);
                        (rival_of(&Task { prio, ..task }, own), Some(task.pid))
                    }
                };
                self.push_span(time, cpu, cause, rival);
            }
        }
    }

    /// Determines why a CPU is idle while a runnable thread is waiting for it. Up to a limit, the
    /// time counts as idle exit. If it is longer, the thread was held back; this is certain if the
    /// CPU went idle while the thread was in its run queue.
    fn idle(
        &self,
        cpu: u32,
        (from, length): (Nanos, Nanos),
        own: KernelPriority,
    ) -> (Cause, Option<u32>) {
        // An interrupt may have used the CPU.
        if self.tracks.is_light() {
            let idle = Name {
                pid: None,
                comm: Comm::new(b"idle CPU"),
            };
            return (
                Cause::not_recorded(Missing::HandlerOn(idle), &[IRQ, VECTORS, SOFTIRQ]),
                None,
            );
        }
        if length <= IDLE_EXIT {
            return (Cause::new(Source::IdleExit(cpu)), None);
        }
        let queued = self.tracks.was_queued(self.window.victim.tid, from);
        let own = Some(own).filter(|own| *own != KernelPriority::UNKNOWN);
        (not_run(self.window, cpu, own, queued), Some(0))
    }

    /// Returns the system call that put the thread to sleep, and whether it was in a page fault.
    fn call_of(&self, at: Nanos) -> (Option<InCall>, bool) {
        let tid = self.window.victim.tid;
        let shown = self.tracks.call_of_sleep(tid, at);
        let traced = self.tracks.call_at(tid, at).flatten();
        // The kernel runs the filters of seccomp before it traces the system call.
        let call = match shown {
            Some(call) if self.tracks.is_light() || traced.is_none() => call,
            _ => traced,
        };
        let is_outside = shown.is_some_and(|call| call.is_none()) && call.is_none();
        (call, is_outside || self.tracks.slept_in_fault(tid, at))
    }

    /// Returns the wake-up that ends a wait. A signal only interrupts a wait for a futex that the
    /// thread then waits for again.
    fn last_wake(&self, from: Nanos, mut wake: usize, call: Option<InCall>) -> usize {
        let tid = self.window.victim.tid;
        if call.is_none() || !is_futex(call.map(|(id, _)| self.name_of(id)).as_ref()) {
            return wake;
        }
        for later in self.tracks.spans(tid, from, self.window.actual) {
            if self.tracks.wakes[wake].signal.is_none() {
                break;
            }
            let Phase::Asleep(Some(next)) = later.phase else {
                continue;
            };
            if self.call_of(later.from).0 != call {
                break;
            }
            wake = next;
        }
        wake
    }

    fn asleep(&mut self, span: Span, wake: Option<usize>) {
        let tid = self.window.victim.tid;
        let (call, in_fault) = self.call_of(span.from);
        let wake = wake.map(|wake| self.last_wake(span.to, wake, call));
        let name = call.map(|(id, _)| self.name_of(id));
        let from = span.from;
        let mut span = span;
        if let Some((stop, wait)) = go_stops::of_wait(self.window, (span.from, span.to))
            && is_futex(name.as_ref())
        {
            let stopped = Span {
                to: stop.to,
                ..span
            };
            let object = self.object(from, call, false);
            self.follow(stop.by, stopped, wait, object.as_ref());
            // Later, the runtime lets other goroutines run, and this thread waits for its turn.
            span.from = stop.to;
            if span.from == span.to {
                return;
            }
        }
        let of = |cause: Cause| match self.object(from, call, in_fault) {
            Some(object) => cause.with(object),
            None => cause,
        };
        let Some(number) = wake else {
            return self.push(span, of(Cause::unexplained(Unknown::NoWaker)));
        };
        let wake = self.tracks.wakes[number].clone();
        let cause = match self.tracks.woken_by(tid, from, number) {
            By::Timer => {
                let timer = wake.signal.map_or(Source::OwnSleep, Source::TimerSignal);
                let cause = of(Cause::new(timer));
                return self.slept_until(span, cause, wake.timer);
            }
            By::Unrecorded => {
                let events = [IRQ, VECTORS, SOFTIRQ];
                of(Cause::not_recorded(Missing::WokenBy, &events))
            }
            By::Device(device) if in_fault => {
                Cause::new(Source::PageFault).with(Detail::PageFrom(device))
            }
            By::Device(device) => of(Cause::new(Source::Device(device))),
            By::Thread(waker) if waker == tid => of(Cause::unexplained(Unknown::NoWaker)),
            By::Thread(waker) => {
                let wait = match wake.signal {
                    Some(signal) => Wait::Signal(signal),
                    None if in_fault => Wait::Page,
                    None if is_lock(name.as_ref(), call) => Wait::Lock,
                    None => Wait::Thread,
                };
                let object = self.object(from, call, in_fault);
                self.follow(waker, span, wait, object.as_ref());
                return;
            }
        };
        self.push(span, cause);
    }

    /// Splits a sleep that a timer ended into three parts: the sleep until the timer was due, the timer
    /// slack, and the delay of the timer's interrupt. Handlers of other interrupts on its CPU explain a
    /// part of that delay.
    fn slept_until(&mut self, span: Span, cause: Cause, timer: Option<Timer>) {
        let Some(timer) = timer else {
            return self.push(span, cause);
        };
        let Span { from, to, .. } = span;
        let due = timer.due.clamp(from, to);
        let latest = timer.latest.clamp(due, to);
        self.push(Span { to: due, ..span }, cause);
        let slack = Detail::Slack {
            slack_ns: timer.latest.saturating_sub(timer.due),
            known: true,
        };
        let slack = Cause::new(Source::TimerSlack).with(slack);
        self.push_span((due, latest), timer.cpu, slack, None);
        for part in self.tracks.on(timer.cpu, latest, to) {
            let delays = |cause: &Cause| {
                matches!(
                    cause.source,
                    Source::Irq { .. } | Source::Vector(_) | Source::Nmi
                )
            };
            let late = || Cause::new(Source::TimerLate);
            let cause = part.on_top.filter(delays).unwrap_or_else(late);
            self.push_span((part.from, part.to), timer.cpu, cause, None);
        }
    }

    /// Returns the function that blocked the thread; `None` if its name is unknown.
    fn blocked_at(&self, stack: &[u64]) -> Option<Text> {
        let stack = stack_of(stack, self.window);
        let first = stack.split(" < ").next().unwrap_or_default();
        (!first.is_empty() && !first.starts_with("0x")).then(|| first.into())
    }

    fn stopped(&mut self, span: Span) {
        let tid = self.window.victim.tid;
        let by = self.tracks.stop_signal(tid, span.from);
        let by = by.map(|(signal, sender)| {
            let sender = self.tracks.names.task(sender);
            Signal {
                signal,
                sender: Name::from(&sender),
            }
        });
        self.push(span, Cause::new(Source::Stopped(by)));
    }
}

/// Gives each thread that preempted an awaited thread a single priority, the highest that it had.
/// Its priority changes if it inherits another one, and it would otherwise have several shares.
fn unify_preempters(spans: &mut [CauseSpan]) {
    let mut highest: BTreeMap<Option<u32>, KernelPriority> = BTreeMap::new();
    for turn in 0..2 {
        for span in spans.iter_mut() {
            let Source::Awaited(awaited) = &mut span.cause.source else {
                continue;
            };
            let Leaf::Preempted { by, prio } = &mut awaited.leaf else {
                continue;
            };
            let known = highest.entry(by.pid).or_insert(*prio);
            match turn {
                0 if *known == KernelPriority::UNKNOWN || prio.is_above(*known) => *known = *prio,
                0 => {}
                _ => *prio = *known,
            }
        }
    }
}

/// Returns whether a wait in a system call is for a lock.
fn is_lock(name: Option<&Text>, call: Option<InCall>) -> bool {
    is_futex(name)
        && call.is_some_and(|(_, [_, operation])| LOCKS.contains(&(operation & FUTEX_OPERATION)))
}

/// Returns whether a system call is futex(2), whose second argument is an operation. Newer calls
/// such as futex_wait(2) have other arguments.
fn is_futex(name: Option<&Text>) -> bool {
    name.is_some_and(|name| &*name.0 == "futex")
}

/// Returns the cause for the time in which another thread is running on the CPU.
fn rival_of(task: &Task, own: KernelPriority) -> Cause {
    if task.prio == KernelPriority::UNKNOWN || own == KernelPriority::UNKNOWN {
        return Cause::thread(Role::Unranked, task).with(Detail::Rank(Rank::from(task)));
    }
    let role = match () {
        () if task.prio.is_above(own) => Role::HigherPriority,
        () if own.is_above(task.prio) => Role::Blocking,
        () => Role::Competing,
    };
    Cause::thread(role, task).with(Detail::Rank(Rank::from(task)))
}
