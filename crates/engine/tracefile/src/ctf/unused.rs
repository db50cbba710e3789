//! Counts the events of a trace that are not used, and the warnings that do not fit.

use std::collections::BTreeMap;

/// Maximum number of warnings about damaged packets.
const MOST_WARNINGS: usize = 20;
/// Maximum number of names in a sentence.
const MOST_NAMED: usize = 10;
/// Maximum number of counts that are kept for CPUs without a switch.
const MOST_COUNTS: usize = 10_000;

/// Events and warnings that are not used.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// Events that punctual does not know, by name.
    foreign: BTreeMap<String, u64>,
    /// Events before the first switch of their CPU, by CPU and name.
    threadless: BTreeMap<u32, BTreeMap<String, u64>>,
    counts: usize,
    warnings: Vec<String>,
    /// Number of warnings beyond the limit.
    further: u64,
    /// Number of events that lack a field.
    pub(super) unreadable: u64,
}

impl Unused {
    pub(super) fn foreign(&mut self, name: &str) {
        count(&mut self.foreign, name);
    }

    /// Counts an event of a CPU whose thread is unknown.
    pub(super) fn threadless(&mut self, cpu: u32, name: &str) {
        let names = self.threadless.entry(cpu).or_default();
        let is_new = !names.contains_key(name);
        if is_new && self.counts >= MOST_COUNTS {
            return count(names, "other events");
        }
        self.counts += usize::from(is_new);
        count(names, name);
    }

    /// The first switch of a CPU. Returns whether events before it are not used.
    pub(super) fn switch(&mut self, cpu: u32) -> bool {
        let Some(names) = self.threadless.remove(&cpu) else {
            return false;
        };
        self.counts = self.counts.saturating_sub(names.len());
        true
    }

    pub(super) fn warn(&mut self, new: impl Iterator<Item = String>) {
        for warning in new {
            if self.warnings.len() < MOST_WARNINGS {
                self.warnings.push(warning);
            } else {
                self.further += 1;
            }
        }
    }

    /// Returns all warnings at the end of the trace.
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut all = std::mem::take(&mut self.warnings);
        if self.further > 0 {
            all.push(format!("and {} more warnings like these", self.further));
        }
        if self.unreadable > 0 {
            let number = self.unreadable;
            all.push(format!(
                "events without all their fields count as lost events: {number}"
            ));
        }
        if !self.threadless.is_empty() {
            let cpus: Vec<String> = self.threadless.keys().map(u32::to_string).collect();
            let mut sums = BTreeMap::new();
            for (name, number) in self.threadless.values().flatten() {
                *sums.entry(name.clone()).or_default() += number;
            }
            all.push(format!(
                "CPU {}: no sched_switch shows the thread of these events, so they are not used: {}",
                punctual_model::listed(&cpus, MOST_NAMED),
                named(&sums)
            ));
        }
        if !self.foreign.is_empty() {
            all.push(format!(
                "no analysis uses these events: {}",
                named(&self.foreign)
            ));
        }
        all
    }
}

fn count(counts: &mut BTreeMap<String, u64>, name: &str) {
    match counts.get_mut(name) {
        Some(number) => *number += 1,
        None => drop(counts.insert(name.to_owned(), 1)),
    }
}

/// Returns names with their numbers, the most frequent first.
fn named(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    let names = counts
        .iter()
        .map(|(name, number)| format!("{name} ({number})"));
    punctual_model::listed(&names.collect::<Vec<_>>(), MOST_NAMED)
}
