//! Rules of the scheduler: compares what each CPU ran with the threads in its run queue.
//!
//! The rules hold for every scheduler class, so a contradiction is either a limit (a quota,
//! throttling, a deadline server) or an error. No rule applies if events do not show a queue for
//! certain: after a missing switch, shortly after a wake-up, and if migrations are not recorded.

mod findings;
#[cfg(test)]
mod ordinary_tests;
#[cfg(test)]
mod priority_tests;
mod run_queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use punctual_model::cause::{PolicyChange, SchedulerFinding, SchedulerRule};
use punctual_model::{EventKind, KernelPriority, Nanos, Task, TraceEvent};

use crate::policies::PolicyChanges;
use findings::{Findings, Key};
use run_queue::{MARGIN, Queued, RunQueue};

pub(crate) use findings::SchedulerFacts;

/// Maximum number of threads that are followed.
const THREADS: usize = 100_000;

/// A period that contradicts a rule.
#[derive(Clone, Copy, Debug)]
struct Period {
    rule: SchedulerRule,
    thread: Task,
    by: Option<Task>,
    from: Nanos,
}

/// A period that has ended. It counts once a recorded switch has ended the wait of its thread.
#[derive(Clone, Debug)]
struct Ended {
    key: Key,
    by: Option<Task>,
    from: Nanos,
    length: Nanos,
    calls: Vec<u64>,
}

/// Maximum number of periods in one wait that are counted.
const PERIODS: usize = 100_000;

/// Known state of a thread.
#[derive(Clone, Debug)]
struct Known {
    /// Its priority at its last switch or change of priority.
    prio: KernelPriority,
    /// The priority that it inherits, if any, and since when.
    inherited: Option<(KernelPriority, Nanos)>,
    /// Last change of the priority that it inherits.
    changed: Option<Nanos>,
    /// The CPU on which it runs.
    runs_on: Option<u32>,
    /// The CPU in whose queue it is.
    queued_on: Option<u32>,
    /// Periods of the current wait.
    ended: Vec<Ended>,
}

/// Follows the run queues of all CPUs through a stream of events in ascending order of time.
#[derive(Debug, Default)]
pub(crate) struct SchedulerRules {
    cpus: BTreeMap<u32, RunQueue>,
    threads: HashMap<u32, Known>,
    /// Periods that have not ended yet, by CPU.
    open: BTreeMap<u32, Vec<Period>>,
    findings: Findings,
    policies: PolicyChanges,
}

impl SchedulerRules {
    /// Applies an event. `calls` returns the functions of timers that expired in a period.
    pub(crate) fn event(&mut self, event: &TraceEvent, calls: impl Fn(Nanos, Nanos) -> Vec<u64>) {
        match &event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                let queue = self.cpus.entry(event.cpu).or_default();
                if queue.current.is_some_and(|current| current != prev.pid) {
                    self.unknown(event.cpu);
                }
                self.close(event.cpu, event.time, calls);
                self.note_priority(prev, event);
                self.note_priority(next, event);
                self.switch(event, *prev, prev_state.is_runnable(), *next);
            }
            EventKind::Waking { task, target_cpu } => self.woken(*task, *target_cpu, event, false),
            EventKind::Wakeup {
                task, target_cpu, ..
            } => self.woken(*task, *target_cpu, event, true),
            EventKind::Migrate { task, dest_cpu, .. } => {
                self.migrated(*task, *dest_cpu, event.time)
            }
            EventKind::PiSetprio { task, newprio } => self.inherits(task, *newprio, event.time),
            EventKind::ProcessExit { task } => {
                self.leave_queue(task.pid);
                self.threads.remove(&task.pid);
            }
            EventKind::KernelStack { .. } | EventKind::Requested { .. } => {}
            // A thread that writes an event runs, so a switch to it was not recorded.
            _ if event.pid != 0 && self.queued_on(event.pid).is_some() => {
                self.unknown(event.cpu);
                self.leave_queue(event.pid);
            }
            _ => {}
        }
    }

    /// Forgets all queues: events were lost, or another trace begins.
    pub(crate) fn forget(&mut self) {
        self.cpus.clear();
        self.threads.clear();
        self.open.clear();
    }

    /// Returns the findings, and the changes of policy. Without events about inheritance, the end of
    /// an inherited priority would look like a change.
    pub(crate) fn finish(
        self,
        facts: &SchedulerFacts<'_>,
    ) -> (Vec<SchedulerFinding>, Vec<PolicyChange>) {
        let changes = self.policies.into_list();
        let changes = if facts.inheritance {
            changes
        } else {
            Vec::new()
        };
        (self.findings.finish(facts), changes)
    }

    fn queued_on(&self, pid: u32) -> Option<u32> {
        self.threads.get(&pid)?.queued_on
    }

    /// Forgets the queue of a CPU with a missing switch.
    fn unknown(&mut self, cpu: u32) {
        self.open.remove(&cpu);
        let queue = std::mem::take(self.cpus.entry(cpu).or_default());
        for pid in queue.waiting.keys() {
            if let Some(known) = self.threads.get_mut(pid) {
                known.queued_on = None;
                known.ended.clear();
            }
        }
    }

    /// Ends the periods of a CPU.
    fn close(&mut self, cpu: u32, now: Nanos, calls: impl Fn(Nanos, Nanos) -> Vec<u64>) {
        for period in self.open.remove(&cpu).into_iter().flatten() {
            let ended = Ended {
                key: Key::new(period.rule, period.thread.pid, cpu),
                by: period.by,
                from: period.from,
                length: now.saturating_sub(period.from),
                calls: calls(period.from, now),
            };
            self.ended(period.thread.pid, ended);
        }
    }

    fn ended(&mut self, pid: u32, ended: Ended) {
        let known = self.threads.get_mut(&pid);
        if let Some(known) = known.filter(|known| known.ended.len() < PERIODS) {
            known.ended.push(ended);
        }
    }

    /// The wait of a thread ends. Its periods count if its priority is still the same: events do
    /// not show when a call has changed it.
    fn runs(&mut self, task: Task, cpu: u32, waited: Option<&Queued>) {
        let Some(known) = self.threads.get_mut(&task.pid) else {
            return;
        };
        known.runs_on = Some(cpu);
        let ended = std::mem::take(&mut known.ended);
        if waited.is_some_and(|waited| waited.task.prio == task.prio) {
            for one in ended {
                let time = (one.from, one.length);
                self.findings.add(one.key, task, one.by, time, &one.calls);
            }
        }
    }

    fn switch(&mut self, event: &TraceEvent, prev: Task, runnable: bool, next: Task) {
        let (cpu, now) = (event.cpu, event.time);
        // It ran although it seemed to wait, so what seemed to be its wait is none.
        if self.leave_queue(prev.pid).is_some()
            && let Some(known) = self.threads.get_mut(&prev.pid)
        {
            known.ended.clear();
        }
        let taken = self.leave_queue(next.pid);
        let known = self.threads.get_mut(&prev.pid);
        let runs_on = known.and_then(|known| known.runs_on.take());
        match runs_on {
            // Another CPU has taken it at the same time.
            Some(other) if other != cpu => self.known(&prev).runs_on = Some(other),
            _ if runnable && !prev.is_idle() => {
                self.enqueue(prev, cpu, Queued::preempted(prev, now));
            }
            _ => {}
        }
        self.runs(next, cpu, taken.as_ref());
        let queue = self.cpus.entry(cpu).or_default();
        queue.current = Some(next.pid);
        let (mut open, mut passed) = (Vec::new(), Vec::new());
        for waiting in queue.waiting.values() {
            if !waiting.is_certain(now, queue.switches) {
                continue;
            }
            let period = |rule, by| Period {
                rule,
                thread: waiting.task,
                by,
                from: now,
            };
            if next.is_idle() {
                open.push(period(SchedulerRule::NoIdleWhileRunnable, None));
            } else if next.prio != KernelPriority::UNKNOWN && waiting.task.prio.is_above(next.prio)
            {
                open.push(period(SchedulerRule::HigherFirst, Some(next)));
            } else if taken.is_some_and(|taken| waiting.is_before(&taken, next.prio)) {
                passed.push(waiting.task.pid);
            }
        }
        queue.switches += 1;
        for pid in passed {
            let ended = Ended {
                key: Key::new(SchedulerRule::InOrder, pid, cpu),
                by: Some(next),
                from: now,
                length: Nanos::ZERO,
                calls: Vec::new(),
            };
            self.ended(pid, ended);
        }
        if !open.is_empty() {
            self.open.insert(cpu, open);
        }
    }

    fn woken(&mut self, task: Task, cpu: u32, event: &TraceEvent, queued: bool) {
        if self
            .threads
            .get(&task.pid)
            .is_some_and(|known| known.runs_on.is_some())
        {
            return;
        }
        // An earlier event of the same wake-up.
        if !queued && self.queued_on(task.pid).is_some() {
            return;
        }
        self.leave_queue(task.pid);
        self.known(&task).ended.clear();
        let switches = self.cpus.entry(cpu).or_default().switches;
        self.enqueue(task, cpu, Queued::woken(task, event.time, queued, switches));
    }

    fn migrated(&mut self, task: Task, cpu: u32, now: Nanos) {
        if let Some(before) = self.leave_queue(task.pid) {
            let switches = self.cpus.entry(cpu).or_default().switches;
            self.enqueue(task, cpu, before.moved(now, switches));
        }
    }

    fn inherits(&mut self, task: &Task, prio: KernelPriority, now: Nanos) {
        let known = self.known(task);
        // The clocks of two CPUs may show two such changes in the wrong order.
        let ordered = (known.changed).is_none_or(|before| before + MARGIN <= now);
        known.changed = Some(now);
        let is_known = ordered && known.prio != KernelPriority::UNKNOWN;
        known.inherited = (is_known && prio.is_above(known.prio)).then_some((prio, now));
        if !ordered {
            known.prio = KernelPriority::UNKNOWN;
        } else if known.inherited.is_none() {
            known.prio = prio;
        }
        let cpu = known.queued_on;
        let queue = cpu.and_then(|cpu| self.cpus.get_mut(&cpu));
        if let Some(waiting) = queue.and_then(|queue| queue.waiting.get_mut(&task.pid)) {
            waiting.task.prio = prio;
            waiting.in_order = false;
        }
    }

    /// Compares a thread's priority in a switch with the one it had before.
    fn note_priority(&mut self, task: &Task, event: &TraceEvent) {
        if task.is_idle() || task.prio == KernelPriority::UNKNOWN {
            return;
        }
        let known = self.known(task);
        match known.inherited {
            Some((inherited, since))
                if inherited.is_above(task.prio) && since + MARGIN <= event.time =>
            {
                let key = Key::new(SchedulerRule::Inheritance, task.pid, event.cpu);
                let at = (event.time, Nanos::ZERO);
                self.findings.add(key, *task, None, at, &[]);
            }
            Some(_) => {}
            None => {
                let (from, to) = (known.prio, task.prio);
                known.prio = to;
                if from.is_above(to) {
                    self.policies.add(*task, (from, None), event.time);
                }
            }
        }
    }

    fn known(&mut self, task: &Task) -> &mut Known {
        if self.threads.len() >= THREADS && !self.threads.contains_key(&task.pid) {
            self.forget();
        }
        self.threads.entry(task.pid).or_insert(Known {
            prio: task.prio,
            inherited: None,
            changed: None,
            runs_on: None,
            queued_on: None,
            ended: Vec::new(),
        })
    }

    fn enqueue(&mut self, task: Task, cpu: u32, queued: Queued) {
        let known = self.known(&task);
        (known.queued_on, known.runs_on) = (Some(cpu), None);
        let queue = self.cpus.entry(cpu).or_default();
        queue.waiting.insert(task.pid, queued);
    }

    /// Removes a thread from its queue, with the periods that concern it.
    fn leave_queue(&mut self, pid: u32) -> Option<Queued> {
        let cpu = self.threads.get_mut(&pid)?.queued_on.take()?;
        if let Some(open) = self.open.get_mut(&cpu) {
            open.retain(|period| period.thread.pid != pid);
        }
        self.cpus.get_mut(&cpu)?.waiting.remove(&pid)
    }
}
