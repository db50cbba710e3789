//! Completes the windows once the whole trace is known.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{
    EventGap, EventKind, GapReason, Nanos, NotShown, Task, TraceEvent, Window, event_names,
};

use super::history::apart;
use super::missing::{complete, is_half};
use super::open::is_first;
use super::osnoise;
use super::refills::{is_refill, last_refill};
use super::{LateFound, LateReactions, Reaction, TraceFacts};
use crate::events::{HRTIMER_EXPIRE, MIGRATE, PI_SETPRIO, SWITCH, VECTORS};
use crate::scheduler::SchedulerFacts;

impl LateReactions {
    /// Ends the stream and returns the late reactions.
    pub fn finish(mut self, facts: &TraceFacts<'_>) -> LateFound {
        self.add_interrupts(facts);
        self.add_noise(facts);
        self.end_jobs(Nanos(u64::MAX));
        self.close(Nanos(u64::MAX));
        self.cut_off();
        let recorded = |name: &&str| !facts.recorded.contains(*name);
        let not_recorded: BTreeSet<String> =
            event_names().filter(recorded).map(str::to_owned).collect();
        let mut missing = not_recorded.clone();
        complete(&mut missing);
        let mut not_shown = Vec::new();
        if !self.flags {
            not_shown.push(NotShown::Flags);
        }
        if missing.contains(VECTORS) && facts.may_have_vectors {
            not_shown.push(NotShown::Vectors);
        }
        let mut found = self.found;
        if self.seen_real_time {
            let names_threads = self.wanted.names_threads();
            (found.open).retain(|wait| is_first(wait.thread.prio, names_threads));
        }
        found.real_time = self.seen_real_time;
        if missing.contains(SWITCH) {
            found.contradictions = 0;
        }
        let list = if self.seen_real_time {
            self.real_time
        } else {
            found.above = std::mem::take(&mut found.ordinary).0;
            self.others
        };
        let mut reactions = list.into_list();
        let shows_refills = self.timer_calls.are_named(facts.symbols);
        reactions.sort_by_key(|one| (one.window.expected, one.window.actual));
        for reaction in &mut reactions {
            let window = &mut reaction.window;
            (window.events).retain(|event| !is_half(event, &missing, &self.ended_vectors));
            window.missing_events = missing.iter().cloned().collect();
            window.evidence.not_shown.clone_from(&not_shown);
            if facts.resolution > Nanos(1) {
                window.clock_error = facts.resolution;
            }
            window.evidence.quotas_known = shows_refills && facts.recorded.contains(HRTIMER_EXPIRE);
            window.evidence.quota_refilled = last_refill(&reaction.timer_calls, facts.symbols);
            if missing.contains(SWITCH) {
                // If switches are not recorded, an event of another thread is not a contradiction.
                let gaps = &mut window.evidence.gaps;
                gaps.retain(|gap| gap.reason != GapReason::Contradiction);
            }
            if let Some(sample) = reaction.sample {
                osnoise::complete(window, sample, facts.recorded);
            }
            name(window, facts);
            if facts.clocks_differ {
                let error = judge_clocks(reaction, |one, other| self.clocks.error(one, other));
                found.clock_error = found.clock_error.max(error.map(Some)).or(Some(None));
            }
        }
        (found.scheduler, found.policy_changes) = self.rules.finish(&SchedulerFacts {
            // The order of events of different CPUs must be known.
            migrations: facts.recorded.contains(MIGRATE) && !facts.clocks_differ,
            inheritance: facts.recorded.contains(PI_SETPRIO) && !facts.clocks_differ,
            refills: shows_refills && facts.recorded.contains(HRTIMER_EXPIRE),
            is_refill: &|function| is_refill(function, facts.symbols),
            servers: facts.kernel.and_then(deadline_servers),
        });
        let thread = |tid: u32| {
            self.names
                .get(&tid)
                .map_or(format!("thread {tid}"), Task::label)
        };
        found.refused_calls =
            (self.refused).named(|id| facts.calls.get(&id).cloned(), |tid| Some(thread(tid)));
        found.functions = self.functions.longest();
        let (threads, other_threads) = self.waits.into_parts();
        LateFound {
            reactions,
            threads,
            other_threads,
            without_end: found.without_end + self.finder.take_without_end().len() as u64,
            missing: not_recorded.into_iter().collect(),
            not_shown,
            ..found
        }
    }
}

impl LateFound {
    pub(super) const fn new() -> Self {
        Self {
            reactions: Vec::new(),
            above: 0,
            real_time: false,
            ordinary: (0, None),
            threads: Vec::new(),
            other_threads: None,
            open: Vec::new(),
            without_end: 0,
            incomplete: 0,
            events: 0,
            lost: (0, 0),
            contradictions: 0,
            span: None,
            cpus: BTreeSet::new(),
            missing: Vec::new(),
            not_shown: Vec::new(),
            functions: Vec::new(),
            scheduler: Vec::new(),
            policy_changes: Vec::new(),
            refused_calls: Vec::new(),
            clock_error: None,
        }
    }

    pub(super) fn note(&mut self, event: &TraceEvent) {
        self.note_line(event.cpu, event.time);
    }

    /// Counts an event, or a sample that a tracer wrote.
    pub(super) fn note_line(&mut self, cpu: u32, time: Nanos) {
        self.events += 1;
        self.note_span(cpu, time, time);
    }

    /// Extends the span of the trace.
    pub(super) fn note_span(&mut self, cpu: u32, begin: Nanos, end: Nanos) {
        let (from, to) = self.span.get_or_insert((begin, end));
        (*from, *to) = ((*from).min(begin), (*to).max(end));
        if !self.cpus.contains(&cpu) {
            self.cpus.insert(cpu);
        }
    }
}

/// Sets the error of the clocks of a reaction. If the clock of a CPU cannot be compared with that
/// of the CPU on which the reaction ended, the events of that CPU explain nothing. Returns the
/// error if it is known.
fn judge_clocks(
    reaction: &mut Reaction,
    error: impl Fn(u32, u32) -> Option<Nanos>,
) -> Option<Nanos> {
    let window = &mut reaction.window;
    let own = window.victim.cpu;
    let cpus: BTreeSet<u32> = window.events.iter().map(|event| event.cpu).collect();
    let mut largest = Some(Nanos::ZERO);
    let gap = |cpu: u32, to: Nanos| EventGap {
        cpu,
        from: Nanos::ZERO,
        to,
        reason: GapReason::ClocksDiffer,
    };
    let mut gaps = Vec::new();
    for cpu in cpus.iter().copied().filter(|cpu| *cpu != own) {
        match error(own, cpu) {
            Some(error) => {
                window.clock_error = window.clock_error.max(error);
                largest = largest.max(Some(error));
            }
            // The start of the latency is a time of that clock. If the events of the own CPU
            // bracket the wait, only this edge is uncertain.
            None if reaction.waker == Some(cpu) && !brackets(window) => {
                gaps.extend(cpus.iter().map(|cpu| gap(*cpu, window.actual)));
                largest = None;
                break;
            }
            None => {
                gaps.push(gap(cpu, window.actual));
                largest = None;
            }
        }
    }
    let all = std::mem::take(&mut window.evidence.gaps);
    window.evidence.gaps = apart(all.into_iter().chain(gaps).collect());
    largest
}

/// Returns whether events of the CPU on which the wait ended show what the CPU did before its
/// beginning, and do not contradict that beginning: the thread had left the CPU.
fn brackets(window: &Window) -> bool {
    let (tid, cpu) = (window.victim.tid, window.victim.cpu);
    let own = window.events.iter().filter(|event| event.cpu == cpu);
    let mut before = own.clone().filter(|event| event.time <= window.expected);
    let left_later = own.clone().any(|event| {
        let leaves = matches!(&event.kind, EventKind::Switch { prev, .. } if prev.pid == tid);
        leaves && event.time > window.expected && event.time < window.actual
    });
    before.next().is_some() && !left_later
}

/// Adds the names of addresses and system calls in the events.
fn name(window: &mut Window, facts: &TraceFacts<'_>) {
    let mut symbols = BTreeMap::new();
    let mut calls = BTreeMap::new();
    for event in &window.events {
        let addresses = event.kind.addresses().into_iter().flatten();
        for address in addresses.chain(event.kind.frames().iter().copied()) {
            let lower = facts.symbols.range(..=address).next_back();
            if let Some((_, name)) = lower.filter(|_| address != 0) {
                symbols.insert(address, name.clone());
            }
        }
        if let EventKind::SysEnter { id, .. } | EventKind::SysExit { id, .. } = event.kind
            && let Some(name) = facts.calls.get(&id)
        {
            calls.insert(id, name.clone());
        }
    }
    (window.symbols, window.calls) = (symbols, calls);
}

/// Returns the number of deadline servers for ordinary threads that a kernel has, by its version: since
/// Linux 6.12 for the threads of the fair class, and since 7.0 also for those of sched_ext.
fn deadline_servers(kernel: &str) -> Option<u64> {
    let mut numbers = kernel
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().ok());
    let version = (numbers.next()??, numbers.next()??);
    Some(u64::from(version >= (6, 12)) + u64::from(version >= (7, 0)))
}

#[cfg(test)]
mod tests {
    use super::deadline_servers;

    #[test]
    fn kernel_version_gives_number_of_servers() {
        for (kernel, servers) in [
            ("6.11.10-rt7", Some(0)),
            ("6.12-rc1", Some(1)),
            ("6.19.2", Some(1)),
            ("7.0.0-arch1", Some(2)),
            ("generic", None),
        ] {
            assert_eq!(deadline_servers(kernel), servers, "{kernel}");
        }
    }
}
