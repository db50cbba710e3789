//! Follows chains from an interrupt or a thread to a thread, through the threads that wake each other.
//!
//! A chain begins in the handler of an interrupt, or when a thread is woken from an interruptible
//! sleep. A thread that a part of
//! the chain wakes continues it, until that thread sleeps. It also continues after a sleep that is no
//! wait for input: an uninterruptible one, or one in a call such as clock_nanosleep. The chain
//! ends when a thread of the wanted name sleeps; the first such thread counts.
//!
//! A wake-up by an interrupt that belongs to no chain, and data that reaches a thread that is already
//! awake, end a chain: no event shows what they belong to.

mod context;
mod found;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_model::{
    ChainPart, ChainSpan, Comm, EventKind, Nanos, Task, TaskState, TraceChains, TraceEvent, counted,
};

use context::{Carried, Cpu, Waker};
use found::Found;

/// Maximum number of threads that continue a chain at the same time.
const HOLDERS: usize = 1 << 16;

/// Maximum number of parts of a chain.
const SPANS: usize = 4_096;

/// The beginning of chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainStart {
    /// In the handler of this interrupt, by name or number. The name of a device also matches its
    /// queues, such as `eth0-TxRx-0`.
    Interrupt(String),
    /// When a thread of this name is woken.
    Thread(Comm),
}

impl ChainStart {
    fn is_interrupt(&self, irq: Option<u32>, name: &str) -> bool {
        let Self::Interrupt(wanted) = self else {
            return false;
        };
        let rest = name.strip_prefix(wanted.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            || irq.is_some_and(|irq| irq.to_string() == *wanted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was woken, and is not in a run queue yet.
    Woken,
    Waits,
    Runs,
    Sleeps,
}

/// A thread that continues a chain.
#[derive(Clone, Debug)]
struct Holder {
    id: u64,
    begin: Nanos,
    spans: Vec<ChainSpan>,
    state: State,
    /// Begin of this state.
    since: Nanos,
    /// Its current system call, if known.
    call: Option<i64>,
    /// Whether it has woken another thread of the chain.
    handed_on: bool,
}

/// Finds the chains of a trace.
#[derive(Debug)]
pub struct ChainFinder {
    from: ChainStart,
    to: Comm,
    /// System calls that are no wait for input.
    no_input: BTreeSet<i64>,
    cpus: BTreeMap<u32, Cpu>,
    holders: HashMap<u32, Holder>,
    found: Found,
    /// Whether every interrupt has events: also that of the timer.
    interrupts_are_seen: bool,
    /// Number of missing switches from the idle thread, by CPU.
    idle_missing: BTreeMap<u32, u64>,
}

impl ChainFinder {
    /// `no_input`: numbers of system calls that are no wait for input.
    pub fn new(from: ChainStart, to: Comm, no_input: BTreeSet<i64>) -> Self {
        Self {
            from,
            to,
            no_input,
            cpus: BTreeMap::new(),
            holders: HashMap::new(),
            found: Found::default(),
            interrupts_are_seen: false,
            idle_missing: BTreeMap::new(),
        }
    }

    /// Processes an event. The events must be in ascending order of time.
    pub fn event(&mut self, event: &TraceEvent) {
        self.found.note(event);
        match &event.kind {
            EventKind::IrqEntry { irq, name } => self.interrupt(event, Some(*irq), &name.0),
            EventKind::VectorEntry { vector } => self.interrupt(event, None, vector.name()),
            EventKind::SoftirqEntry { .. } => {
                let seen = self.interrupts_are_seen;
                self.cpu(event).enter_softirq(event.time, seen);
            }
            EventKind::IrqExit { .. }
            | EventKind::VectorExit { .. }
            | EventKind::SoftirqExit { .. } => self.cpu(event).exit(event.time),
            EventKind::Waking { task, .. } => self.wakes(event, task),
            EventKind::Wakeup { task, .. } => self.queued(event, task),
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => self.switch(event, prev, *prev_state, next),
            EventKind::SysEnter { id, .. } => self.calls(event.pid, Some(*id)),
            EventKind::SysExit { .. } => self.calls(event.pid, None),
            EventKind::ProcessExit { task } => {
                self.advance(event, task, ChainPart::Runs, State::Sleeps);
                self.leave(task, event.time);
            }
            _ => {}
        }
    }

    /// Forgets all chains, because events are missing.
    pub fn lost(&mut self) {
        self.holders.clear();
        self.cpus.clear();
        self.found.forget();
    }

    /// Returns the chains.
    pub fn finish(mut self) -> TraceChains {
        self.found.forget();
        let missing = self.idle_missing.iter().map(|(cpu, count)| {
            format!(
                "CPU {cpu}: {} missing, so chains at these times are unknown. \
                 Some kernels do not write these switches until the next boot",
                counted(
                    *count,
                    "switch from its idle thread is",
                    "switches from its idle thread are"
                )
            )
        });
        self.found.chains.warnings.extend(missing);
        self.found.chains
    }

    fn cpu(&mut self, event: &TraceEvent) -> &mut Cpu {
        self.cpus.entry(event.cpu).or_default()
    }

    fn calls(&mut self, pid: u32, call: Option<i64>) {
        if let Some(holder) = self.holders.get_mut(&pid) {
            holder.call = call;
        }
    }

    fn interrupt(&mut self, event: &TraceEvent, irq: Option<u32>, name: &str) {
        self.interrupts_are_seen |= name.contains("timer");
        let own = self.from.is_interrupt(irq, name);
        self.found.interrupt(name, own);
        self.cpu(event).enter_interrupt(own);
        if own {
            self.end_carried(event.cpu);
            let id = self.found.begin();
            let carried = Carried::new(id, event.time, format!("interrupt {name}"));
            self.cpu(event).carried = Some(carried);
        }
    }

    /// The chain in an interrupt of this CPU ends there, unless it woke a thread.
    fn end_carried(&mut self, cpu: u32) {
        let cpu = self.cpus.entry(cpu).or_default();
        if let Some(carried) = cpu.carried.take() {
            self.found.release(carried.id, &carried.who);
        }
    }

    /// Returns the chain of the waker in this event, up to now.
    fn of_waker(&mut self, event: &TraceEvent) -> Option<Holder> {
        let cpu = self.cpus.entry(event.cpu).or_default();
        let (id, begin, mut spans, span) = match cpu.waker(event) {
            Waker::Other => return None,
            Waker::Chain => {
                let Carried { id, begin, who, .. } = cpu.carried.clone()?;
                let span = (who, None, ChainPart::Interrupt, begin);
                (id, begin, Vec::new(), span)
            }
            Waker::Thread => {
                let task = cpu.current.filter(|task| task.pid == event.pid)?;
                let holder = self.holders.get(&task.pid)?;
                if holder.state != State::Runs {
                    return None;
                }
                let who = task.comm.to_string();
                let span = (who, Some(task.pid), ChainPart::Runs, holder.since);
                (holder.id, holder.begin, holder.spans.clone(), span)
            }
        };
        let (who, tid, part, from) = span;
        spans.push(ChainSpan {
            who,
            tid,
            part,
            cpu: event.cpu,
            from,
            to: event.time,
            behind: None,
        });
        Some(Holder {
            id,
            begin,
            spans,
            state: State::Woken,
            since: event.time,
            call: None,
            handed_on: false,
        })
    }

    fn wakes(&mut self, event: &TraceEvent, task: &Task) {
        let is_start = self.from == ChainStart::Thread(task.comm);
        self.found.thread(is_start, task.comm == self.to);
        let of_waker = self.of_waker(event);
        match self.holders.get(&task.pid).map(|holder| holder.state) {
            Some(State::Sleeps) if self.is_next(task, of_waker.as_ref()) => {
                self.advance(event, task, ChainPart::Sleeps, State::Sleeps);
                self.leave(task, event.time);
            }
            Some(State::Sleeps) => {
                return self.advance(event, task, ChainPart::Sleeps, State::Woken);
            }
            Some(State::Runs) => return self.wakes_running(event, task, of_waker),
            // It is not asleep.
            Some(_) => return,
            None => {}
        }
        if self.holders.len() >= HOLDERS {
            return;
        }
        let holder = match of_waker {
            Some(holder) => {
                self.hand_on(event, holder.id);
                holder
            }
            None if is_start => Holder {
                id: self.found.begin(),
                begin: event.time,
                spans: Vec::new(),
                state: State::Woken,
                since: event.time,
                call: None,
                handed_on: false,
            },
            None => return,
        };
        self.holders.insert(task.pid, holder);
    }

    /// Returns whether a sleeping thread has done its part in its chain, and another one begins.
    fn is_next(&self, task: &Task, of_waker: Option<&Holder>) -> bool {
        let own = self.holders.get(&task.pid).filter(|own| own.handed_on);
        own.zip(of_waker)
            .is_some_and(|(own, other)| own.id != other.id)
    }

    /// The waker in this event hands a chain on to another thread.
    fn hand_on(&mut self, event: &TraceEvent, id: u64) {
        self.found.hold(id);
        let waker = self.holders.get_mut(&event.pid);
        if let Some(waker) = waker.filter(|waker| waker.id == id) {
            waker.handed_on = true;
        }
    }

    /// A thread is woken before it has left its CPU. If the waker belongs to another chain, the thread
    /// has finished its part in the previous one.
    fn wakes_running(&mut self, event: &TraceEvent, task: &Task, of_waker: Option<Holder>) {
        let Some(holder) = of_waker else {
            return;
        };
        if self
            .holders
            .get(&task.pid)
            .is_some_and(|own| own.id == holder.id)
        {
            return;
        }
        self.advance(event, task, ChainPart::Runs, State::Runs);
        self.leave(task, event.time);
        self.hand_on(event, holder.id);
        let state = State::Runs;
        self.holders.insert(task.pid, Holder { state, ..holder });
    }

    fn queued(&mut self, event: &TraceEvent, task: &Task) {
        let holder = self.holders.get(&task.pid);
        if holder.is_some_and(|holder| holder.state == State::Woken) {
            self.advance(event, task, ChainPart::WakeUp, State::Waits);
        }
    }

    /// A state of a thread ends, as this part of its chain.
    fn advance(&mut self, event: &TraceEvent, task: &Task, part: ChainPart, next: State) {
        let Some(holder) = self.holders.get_mut(&task.pid) else {
            return;
        };
        let waited = part == ChainPart::Waits;
        let cpu = self.cpus.get(&event.cpu).filter(|_| waited);
        let behind = cpu.and_then(|cpu| cpu.longest(holder.since, event.time));
        if holder.since < event.time {
            holder.spans.push(ChainSpan {
                who: task.comm.to_string(),
                tid: Some(task.pid),
                part,
                cpu: event.cpu,
                from: holder.since,
                to: event.time,
                behind,
            });
        }
        (holder.state, holder.since) = (next, event.time);
        if holder.spans.len() > SPANS {
            let holder = self.holders.remove(&task.pid);
            self.found.forget_one(holder.map(|holder| holder.id));
        }
    }

    fn switch(&mut self, event: &TraceEvent, prev: &Task, state: TaskState, next: &Task) {
        self.end_carried(event.cpu);
        let was_idle = self.cpu(event).is_idle();
        if !self.cpu(event).switch(prev, *next, event.time) {
            if was_idle {
                *self.idle_missing.entry(event.cpu).or_default() += 1;
            }
            // The thread that ran in between is unknown.
            self.lost();
            self.cpu(event).switch(prev, *next, event.time);
            return;
        }
        self.found.thread(
            self.from == ChainStart::Thread(next.comm),
            next.comm == self.to,
        );
        let left = self.holders.get(&prev.pid);
        if let Some(holder) = left.filter(|holder| holder.state == State::Runs) {
            // A chain ends with the sleep of its last thread, and the next wake-up of its first thread
            // begins another one.
            let is_end = self.from == ChainStart::Thread(prev.comm) || prev.comm == self.to;
            let call = holder.call.filter(|_| !is_end);
            let sleeps = call.is_some_and(|call| self.no_input.contains(&call));
            let next = match () {
                () if state.is_runnable() => Some(State::Waits),
                () if !state.is_exit() && (state.is_uninterruptible() || sleeps) => {
                    Some(State::Sleeps)
                }
                () => None,
            };
            self.advance(event, prev, ChainPart::Runs, next.unwrap_or(State::Sleeps));
            if next.is_none() {
                self.leave(prev, event.time);
            }
        }
        let taken = self.holders.get(&next.pid).map(|holder| holder.state);
        if let Some(State::Woken | State::Waits) = taken {
            self.advance(event, next, ChainPart::Waits, State::Runs);
        }
    }

    /// A thread no longer continues its chain.
    fn leave(&mut self, task: &Task, time: Nanos) {
        let Some(holder) = self.holders.remove(&task.pid) else {
            return;
        };
        if task.comm == self.to {
            self.found
                .reached(holder.id, holder.spans, holder.begin, time);
        }
        self.found.release(holder.id, &task.comm.to_string());
    }
}
