//! What a CPU executes: a thread, or interrupts and softirqs on top of it.

use std::collections::VecDeque;

use punctual_model::{Nanos, Task, TraceEvent};

/// Maximum time from the end of an interrupt handler to the softirqs that it raised.
const SOFTIRQ_AFTER: Nanos = Nanos::from_micros(20);

/// Number of turns of threads that are kept, to tell what ran while a thread waited.
const TURNS: usize = 1_024;

/// The owner of a softirq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SoftirqOf {
    /// The chain of an interrupt.
    Chain,
    /// Another interrupt, or it is unknown.
    Interrupt,
    /// A call of the thread, such as a write to a socket on the loopback device.
    Thread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// A handler that begins a chain.
    Chain,
    Interrupt,
    Softirq(SoftirqOf),
}

/// The code that wakes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waker {
    /// The interrupt that began the chain of this CPU.
    Chain,
    /// The current thread.
    Thread,
    /// Something that belongs to no chain.
    Other,
}

/// The chain of an interrupt on this CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) id: u64,
    pub(super) begin: Nanos,
    pub(super) who: String,
    /// End of the handler, or of the last softirq after it.
    until: Option<Nanos>,
}

impl Carried {
    pub(super) const fn new(id: u64, begin: Nanos, who: String) -> Self {
        Self {
            id,
            begin,
            who,
            until: None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub(super) current: Option<Task>,
    since: Nanos,
    turns: VecDeque<(Task, Nanos, Nanos)>,
    levels: Vec<Level>,
    last_exit: Option<Nanos>,
    pub(super) carried: Option<Carried>,
}

impl Cpu {
    /// The handler of a device or vector begins. `own`: a chain begins in it.
    pub(super) fn enter_interrupt(&mut self, own: bool) {
        self.levels
            .push(if own { Level::Chain } else { Level::Interrupt });
    }

    /// A handler or softirq ends.
    pub(super) fn exit(&mut self, time: Nanos) {
        let level = self.levels.pop();
        let of_chain = matches!(level, Some(Level::Chain | Level::Softirq(SoftirqOf::Chain)));
        if let Some(carried) = self.carried.as_mut().filter(|_| of_chain) {
            carried.until = Some(time);
        }
        let of_thread = level == Some(Level::Softirq(SoftirqOf::Thread));
        self.last_exit = (!of_thread).then_some(time);
    }

    /// A softirq begins. `interrupts_are_seen`: whether every interrupt has events.
    pub(super) fn enter_softirq(&mut self, time: Nanos, interrupts_are_seen: bool) {
        let is_soon = |exit: Option<Nanos>| exit.is_some_and(|exit| time <= exit + SOFTIRQ_AFTER);
        let carried = self.carried.as_ref().and_then(|carried| carried.until);
        let of = match () {
            () if is_soon(carried) => SoftirqOf::Chain,
            () if is_soon(self.last_exit) || !interrupts_are_seen || !self.levels.is_empty() => {
                SoftirqOf::Interrupt
            }
            () => SoftirqOf::Thread,
        };
        self.levels.push(Level::Softirq(of));
    }

    /// Returns who wakes a thread in this event.
    pub(super) fn waker(&self, event: &TraceEvent) -> Waker {
        let on_top = TraceEvent::HARDIRQ | TraceEvent::SOFTIRQ;
        match self.levels.last() {
            Some(Level::Chain | Level::Softirq(SoftirqOf::Chain)) => Waker::Chain,
            Some(Level::Softirq(SoftirqOf::Thread)) => Waker::Thread,
            Some(Level::Interrupt | Level::Softirq(SoftirqOf::Interrupt)) => Waker::Other,
            None if event.flags & on_top != 0 => Waker::Other,
            None => Waker::Thread,
        }
    }

    /// Returns whether the idle thread runs, as far as is known.
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_some_and(|task| task.is_idle())
    }

    /// A thread begins to run. Returns `false` if a switch before this one is missing.
    pub(super) fn switch(&mut self, prev: &Task, next: Task, time: Nanos) -> bool {
        let before = self.current.replace(next);
        if let Some(task) = before {
            self.turns.push_back((task, self.since, time));
            if self.turns.len() > TURNS {
                self.turns.pop_front();
            }
        }
        self.since = time;
        self.levels.clear();
        self.last_exit = None;
        before.is_none_or(|before| before.pid == prev.pid)
    }

    /// Returns the thread that ran for the longest time between two moments, and how long.
    pub(super) fn longest(&self, from: Nanos, to: Nanos) -> Option<(Task, Nanos)> {
        let mut found: Vec<(Task, Nanos)> = Vec::new();
        let turns = self.turns.iter().rev();
        for (task, begin, end) in turns.take_while(|(_, _, end)| *end > from) {
            let time = (*end).min(to).saturating_sub((*begin).max(from));
            match found.iter_mut().find(|(one, _)| one.pid == task.pid) {
                _ if task.is_idle() => {}
                Some((_, sum)) => *sum += time,
                None => found.push((*task, time)),
            }
        }
        found.into_iter().max_by_key(|(_, time)| *time)
    }
}
