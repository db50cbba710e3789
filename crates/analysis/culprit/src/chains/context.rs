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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{idle, task, us};

    /// A CPU on which these threads ran, each until this time in µs. The first one ran since 0.
    fn cpu(turns: &[(Task, u64)]) -> Cpu {
        let mut cpu = Cpu::default();
        let mut before = idle();
        cpu.switch(&before, turns[0].0, us(0));
        before = turns[0].0;
        for (place, (_, until)) in turns.iter().enumerate() {
            let next = turns.get(place + 1).map_or(idle(), |(task, _)| *task);
            cpu.switch(&before, next, us(*until));
            before = next;
        }
        cpu
    }

    #[test]
    fn thread_that_ran_longest_in_a_time_is_named() {
        let (a, b) = (task("a", 7, 120), task("b", 8, 120));
        let found = cpu(&[(a, 100), (b, 250), (a, 300), (idle(), 900)]);
        let longest = |from, to| {
            let found = found.longest(us(from), us(to));
            found.map(|(task, time)| (task.pid, time.0 / 1_000))
        };
        assert_eq!(longest(50, 300), Some((8, 150)));
        assert_eq!(longest(0, 190), Some((7, 100)));
        assert_eq!(longest(240, 900), Some((7, 50)));
        // The idle thread is none.
        assert_eq!(longest(300, 900), None);
        assert_eq!(cpu(&[(a, 100)]).longest(us(100), us(200)), None);
    }

    #[test]
    fn turns_of_a_thread_add_up() {
        let (a, b) = (task("a", 7, 120), task("b", 8, 120));
        let found = cpu(&[(a, 60), (b, 160), (a, 220)]);
        let longest = found
            .longest(us(0), us(220))
            .map(|(task, time)| (task.pid, time));
        assert_eq!(longest, Some((7, us(120))));
    }

    #[test]
    fn missing_switch_is_noticed() {
        let (a, b) = (task("a", 7, 120), task("b", 8, 120));
        let mut cpu = Cpu::default();
        assert!(cpu.switch(&b, a, us(1)));
        assert!(cpu.switch(&a, b, us(2)));
        assert!(!cpu.switch(&a, idle(), us(3)));
        assert!(cpu.is_idle());
        assert!(cpu.switch(&idle(), b, us(4)) && !cpu.is_idle());
    }

    #[test]
    fn softirq_soon_after_a_handler_belongs_to_it() {
        let flags = |flags: u8| {
            let event = crate::testing::waking(0, 7, task("x", 9, 120));
            crate::testing::flagged(flags, event)
        };
        // An interrupt ends at 10 µs, and a softirq begins at this time.
        let waker = |own: bool, at: u64, seen: bool| {
            let mut cpu = Cpu::default();
            cpu.enter_interrupt(own);
            cpu.carried = own.then(|| Carried::new(1, us(5), "irq".to_owned()));
            cpu.exit(us(10));
            cpu.enter_softirq(us(at), seen);
            cpu.waker(&flags(0))
        };
        assert_eq!(
            (waker(true, 30, true), waker(true, 31, true)),
            (Waker::Chain, Waker::Thread)
        );
        assert_eq!(
            (waker(false, 30, true), waker(false, 31, true)),
            (Waker::Other, Waker::Thread)
        );
        // If not every interrupt has events, it may belong to another one.
        assert_eq!(
            (waker(true, 31, false), waker(false, 31, false)),
            (Waker::Other, Waker::Other)
        );
        let top = |cpu: &Cpu, set: u8| cpu.waker(&flags(set));
        let mut cpu = Cpu::default();
        assert_eq!(top(&cpu, 0), Waker::Thread);
        for on_top in [TraceEvent::HARDIRQ, TraceEvent::SOFTIRQ] {
            assert_eq!(top(&cpu, on_top), Waker::Other);
        }
        cpu.enter_interrupt(true);
        assert_eq!(top(&cpu, TraceEvent::HARDIRQ), Waker::Chain);
        cpu.enter_interrupt(false);
        assert_eq!(top(&cpu, TraceEvent::HARDIRQ), Waker::Other);
        // A softirq inside an interrupt does not belong to a call of the thread.
        cpu.enter_softirq(us(900), true);
        assert_eq!(top(&cpu, 0), Waker::Other);
        cpu.switch(&idle(), task("x", 9, 120), us(950));
        assert_eq!(top(&cpu, 0), Waker::Thread);
    }

    /// A softirq of a call of the thread does not make the next one an interrupt's.
    #[test]
    fn softirqs_of_a_call_follow_each_other() {
        let mut cpu = Cpu::default();
        let wake = crate::testing::waking(0, 7, task("x", 9, 120));
        cpu.enter_softirq(us(100), true);
        cpu.exit(us(101));
        cpu.enter_softirq(us(102), true);
        assert_eq!(cpu.waker(&wake), Waker::Thread);
        cpu.exit(us(103));
        // The softirq of a chain continues it.
        cpu.enter_interrupt(true);
        cpu.carried = Some(Carried::new(1, us(110), "irq".to_owned()));
        cpu.exit(us(120));
        cpu.enter_softirq(us(130), true);
        cpu.exit(us(200));
        cpu.enter_softirq(us(220), true);
        assert_eq!(cpu.waker(&wake), Waker::Chain);
    }
}
