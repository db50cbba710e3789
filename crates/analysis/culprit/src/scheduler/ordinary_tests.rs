//! A simulated machine that keeps all rules: ordinary, FIFO and round-robin threads with locks that
//! hand on priority. An hour of it must contain no finding.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::{EventKind, KernelPriority, Nanos, Task, TaskState, TraceEvent};

use super::tests::task;
use super::{SchedulerFacts, SchedulerRules};

const CPUS: u32 = 3;
const MICRO: u64 = 1_000;
const SECOND: u64 = 1_000_000 * MICRO;
/// Slice of ordinary threads and of round-robin threads, for events at a bearable rate.
const SLICE: u64 = 40_000 * MICRO;

struct Random(u64);

impl Random {
    /// Returns a number below `limit` (xorshift).
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Asleep(u64),
    Queued,
    Running,
    /// Waits for the lock of another thread.
    Blocked,
}

struct Thread {
    task: Task,
    round_robin: bool,
    state: State,
    cpu: u32,
    /// CPU time until it sleeps.
    left: u64,
    /// Its share of the CPU so far, for ordinary threads.
    ran: u64,
    /// Threads that wait for its lock.
    waiters: Vec<usize>,
    inherited: Option<KernelPriority>,
}

impl Thread {
    fn prio(&self) -> KernelPriority {
        self.inherited.unwrap_or(self.task.prio)
    }

    fn shown(&self) -> Task {
        Task {
            prio: self.prio(),
            ..self.task
        }
    }
}

struct Machine {
    now: u64,
    random: Random,
    threads: Vec<Thread>,
    queues: Vec<VecDeque<usize>>,
    current: Vec<Option<usize>>,
    since: Vec<u64>,
    events: Vec<TraceEvent>,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let kinds: [(&str, i16, bool); 12] = [
            ("motion", 19, false),
            ("motion", 19, false),
            ("control", 49, false),
            ("control", 49, true),
            ("control", 49, true),
            ("audio", 88, true),
            ("make", 120, false),
            ("make", 120, false),
            ("make", 120, false),
            ("nice", 139, false),
            ("shell", 120, false),
            ("eager", 100, false),
        ];
        let threads = kinds
            .iter()
            .zip(10..)
            .map(|((name, prio, round_robin), pid)| Thread {
                task: task(name, pid, *prio),
                round_robin: *round_robin,
                state: State::Asleep(u64::from(pid) * MICRO),
                cpu: pid % CPUS,
                left: 0,
                ran: 0,
                waiters: Vec::new(),
                inherited: None,
            });
        Self {
            now: 0,
            random: Random(seed),
            threads: threads.collect(),
            queues: vec![VecDeque::new(); CPUS as usize],
            current: vec![None; CPUS as usize],
            since: vec![0; CPUS as usize],
            events: Vec::new(),
        }
    }

    fn event(&mut self, cpu: u32, kind: EventKind) {
        let pid = self.current[cpu as usize].map_or(0, |one| self.threads[one].task.pid);
        // The clocks of the CPUs differ by up to 1 µs.
        let time = Nanos(self.now + 5 * MICRO + u64::from(cpu) * 500);
        self.events.push(TraceEvent {
            time,
            cpu,
            pid,
            flags: 0,
            preempt_count: 0,
            kind,
        });
        self.now += 100;
    }

    /// Returns the next thread of a CPU: the first of the highest real-time priority, or the
    /// ordinary one that ran least.
    fn best(&self, cpu: u32) -> Option<usize> {
        let queue = self.queues[cpu as usize].iter().copied();
        let rank = |one: &usize| {
            let thread = &self.threads[*one];
            match thread.prio() {
                prio if prio.is_real_time() => (prio, 0),
                _ => (KernelPriority(KernelPriority::FIRST_FAIR), thread.ran),
            }
        };
        queue.min_by_key(rank)
    }

    fn enqueue(&mut self, one: usize, cpu: u32, first: bool) {
        (self.threads[one].state, self.threads[one].cpu) = (State::Queued, cpu);
        if first {
            self.queues[cpu as usize].push_front(one);
        } else {
            self.queues[cpu as usize].push_back(one);
        }
    }

    fn dequeue(&mut self, one: usize) {
        for queue in &mut self.queues {
            queue.retain(|other| *other != one);
        }
    }

    fn shown(&self, one: Option<usize>) -> Task {
        one.map_or(task("swapper", 0, 120), |one| self.threads[one].shown())
    }

    /// The CPU chooses its next thread.
    fn switch(&mut self, cpu: u32, asleep: bool) {
        let prev = self.current[cpu as usize];
        let mut next = self.best(cpu);
        if next.is_none() {
            next = self.pull(cpu);
        }
        let (before, after) = (self.shown(prev), self.shown(next));
        if let Some(one) = next {
            self.dequeue(one);
            self.threads[one].state = State::Running;
            self.threads[one].cpu = cpu;
        }
        let kind = EventKind::Switch {
            prev: before,
            prev_state: TaskState(u32::from(asleep)),
            next: after,
        };
        if prev != next {
            self.event(cpu, kind);
        }
        self.current[cpu as usize] = next;
        self.since[cpu as usize] = self.now;
    }

    /// An idle CPU takes a waiting thread from another one.
    fn pull(&mut self, cpu: u32) -> Option<usize> {
        let waiting = (0..CPUS)
            .filter(|other| *other != cpu)
            .find_map(|other| self.best(other))?;
        self.dequeue(waiting);
        let kind = EventKind::Migrate {
            task: self.threads[waiting].shown(),
            orig_cpu: self.threads[waiting].cpu,
            dest_cpu: cpu,
        };
        self.event(cpu, kind);
        Some(waiting)
    }

    fn account(&mut self) {
        for cpu in 0..CPUS as usize {
            if let Some(one) = self.current[cpu] {
                let ran = self.now.saturating_sub(self.since[cpu]);
                self.threads[one].left = self.threads[one].left.saturating_sub(ran);
                self.threads[one].ran += ran;
            }
            self.since[cpu] = self.now;
        }
    }

    /// Wakes a thread: on its CPU, or on an idle one.
    fn wake(&mut self, one: usize, waker: u32) {
        let own = self.threads[one].cpu;
        let target = (0..CPUS)
            .find(|cpu| self.current[*cpu as usize].is_none())
            .unwrap_or(own);
        let shown = self.threads[one].shown();
        self.event(
            waker,
            EventKind::Waking {
                task: shown,
                target_cpu: own,
            },
        );
        if target != own {
            let (task, orig_cpu, dest_cpu) = (shown, own, target);
            self.event(
                waker,
                EventKind::Migrate {
                    task,
                    orig_cpu,
                    dest_cpu,
                },
            );
        }
        // The other CPU takes a moment to see the wake-up.
        self.now += self.random.below(30) * MICRO;
        self.threads[one].left = if self.threads[one].task.prio.is_real_time() {
            MICRO * (100 + self.random.below(3_000))
        } else {
            MICRO * (500 + self.random.below(60_000))
        };
        self.enqueue(one, target, false);
        self.event(
            target,
            EventKind::Wakeup {
                task: shown,
                target_cpu: target,
                new: false,
            },
        );
        self.now += MICRO * (1 + self.random.below(5));
        self.preempt(target, false);
    }

    /// Switches if another thread of the queue has to run now.
    fn preempt(&mut self, cpu: u32, expired: bool) {
        let Some(best) = self.best(cpu) else { return };
        let Some(own) = self.current[cpu as usize] else {
            return self.switch(cpu, false);
        };
        let (best, thread) = (&self.threads[best], &self.threads[own]);
        let equal = best.prio() == thread.prio() && thread.round_robin;
        let fair = !thread.prio().is_real_time() && best.ran < thread.ran;
        let turn = expired && (equal || fair);
        if best.prio().is_above(thread.prio()) || turn {
            self.enqueue(own, cpu, !turn);
            self.switch(cpu, false);
        }
    }

    /// The thread of a CPU has used its time: it waits for a lock of another thread, or sleeps.
    fn done(&mut self, cpu: u32, one: usize) {
        self.release(cpu, one);
        let holder = (0..self.threads.len()).find(|other| {
            let holder = &self.threads[*other];
            *other != one
                && holder.waiters.is_empty()
                && holder.inherited.is_none()
                && !matches!(holder.state, State::Asleep(_) | State::Blocked)
                && self.threads[one].task.prio.is_above(holder.task.prio)
        });
        match holder.filter(|_| self.random.below(4) == 0) {
            Some(holder) => {
                let newprio = self.threads[one].task.prio;
                let task = self.threads[holder].shown();
                self.event(cpu, EventKind::PiSetprio { task, newprio });
                self.threads[holder].inherited = Some(newprio);
                self.threads[holder].waiters.push(one);
                self.threads[one].state = State::Blocked;
                self.switch(cpu, true);
                if self.threads[holder].state == State::Queued {
                    let queue = self.threads[holder].cpu;
                    self.preempt(queue, false);
                }
            }
            None => {
                let sleep = 20_000 * MICRO + self.random.below(200_000) * MICRO;
                self.threads[one].state = State::Asleep(self.now + sleep);
                self.switch(cpu, true);
            }
        }
    }

    /// The thread releases its lock: it loses the priority and wakes the waiters.
    fn release(&mut self, cpu: u32, one: usize) {
        let waiters = std::mem::take(&mut self.threads[one].waiters);
        if waiters.is_empty() {
            return;
        }
        let task = self.threads[one].shown();
        let newprio = self.threads[one].task.prio;
        self.threads[one].inherited = None;
        self.event(cpu, EventKind::PiSetprio { task, newprio });
        for waiter in waiters {
            self.threads[waiter].left = 1;
            let elsewhere = (cpu + 1) % CPUS;
            self.wake_waiter(waiter, cpu, elsewhere);
        }
    }

    /// Wakes a waiter on another CPU, so that the releasing thread goes on.
    fn wake_waiter(&mut self, waiter: usize, cpu: u32, target: u32) {
        let (task, own) = (self.threads[waiter].shown(), self.threads[waiter].cpu);
        self.event(
            cpu,
            EventKind::Waking {
                task,
                target_cpu: own,
            },
        );
        if own != target {
            let (orig_cpu, dest_cpu) = (own, target);
            self.event(
                cpu,
                EventKind::Migrate {
                    task,
                    orig_cpu,
                    dest_cpu,
                },
            );
        }
        self.threads[waiter].left = 200 * MICRO;
        self.enqueue(waiter, target, false);
        let new = false;
        self.event(
            cpu,
            EventKind::Wakeup {
                task,
                target_cpu: target,
                new,
            },
        );
        self.preempt(target, false);
    }

    fn step(&mut self) {
        let mut times: Vec<u64> = Vec::new();
        for thread in &self.threads {
            match thread.state {
                State::Asleep(until) => times.push(until),
                State::Running => times.push(self.now + thread.left.min(SLICE)),
                State::Queued | State::Blocked => {}
            }
        }
        self.now = times
            .into_iter()
            .min()
            .unwrap_or(self.now)
            .max(self.now + 1);
        self.account();
        for one in 0..self.threads.len() {
            if matches!(self.threads[one].state, State::Asleep(until) if until <= self.now) {
                let waker = self.random.below(u64::from(CPUS)) as u32;
                self.wake(one, waker);
                self.account();
            }
        }
        for cpu in 0..CPUS {
            match self.current[cpu as usize] {
                Some(one) if self.threads[one].left == 0 => self.done(cpu, one),
                Some(_) => self.preempt(cpu, true),
                None => {}
            }
        }
    }
}

#[test]
fn ordinary_hour_has_no_finding() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..=6 {
        let mut machine = Machine::new(seed * 0x9e37_79b9);
        while machine.now < 600 * SECOND {
            machine.step();
        }
        machine.events.sort_by_key(|event| event.time);
        let mut rules = SchedulerRules::default();
        for event in &machine.events {
            let kind = match event.kind {
                EventKind::Switch { .. } => "switch",
                EventKind::PiSetprio { .. } => "inheritance",
                EventKind::Migrate { .. } => "migration",
                _ => "wake-up",
            };
            *kinds.entry(kind).or_default() += 1;
            rules.event(event, |_, _| Vec::new());
        }
        let facts = SchedulerFacts {
            migrations: true,
            inheritance: true,
            refills: false,
            is_refill: &|_| false,
            servers: None,
        };
        let none = (Vec::new(), Vec::new());
        assert_eq!(rules.finish(&facts), none, "seed {seed}");
    }
    assert!(kinds.values().all(|count| *count > 1_000), "{kinds:?}");
}
