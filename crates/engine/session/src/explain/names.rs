//! Names for numbers in events: kernel functions and system calls.

use std::borrow::Cow;
use std::collections::BTreeMap;

use punctual_culprit::interrupt_source;
use punctual_host::{Host, Symbols, system_call_name};
use punctual_model::cause::{InterruptSource, InterruptWakeup};
use punctual_model::{EventKind, TraceEvent, Window};
use punctual_trace::{Level, StackPart, WaitRecord};

use super::jvm;
use super::wait_stacks::AFTER;

/// Source of the names.
pub(super) struct Names {
    host: Host,
    /// Read on first use, or at the start if many are expected.
    symbols: Option<Symbols>,
}

impl Names {
    pub(super) fn new(host: &Host, level: Level) -> Self {
        Self {
            host: host.clone(),
            symbols: (level == Level::Full).then(|| host.symbols()),
        }
    }

    /// Returns the start address of the kernel's code.
    pub(super) fn text_begin(&self) -> Option<u64> {
        self.symbols.as_ref().and_then(Symbols::text_begin)
    }

    /// Returns the wake-ups by interrupts whose stacks show the source.
    pub(super) fn interrupt_wakeups(
        &mut self,
        events: &[TraceEvent],
        stacks: &[WaitRecord],
    ) -> Vec<InterruptWakeup> {
        let stacks = stacks.iter().filter(|one| one.part == StackPart::Interrupt);
        let known = stacks.filter_map(|stack| {
            let table = self.symbols.get_or_insert_with(|| self.host.symbols());
            let names = stack.words.iter().map(|word| table.function(*word));
            let name =
                |found: Option<(Cow<'_, str>, u64)>| found.unwrap_or_default().0.into_owned();
            let functions: Vec<String> = names.map(name).collect();
            Some((stack, interrupt_source(&functions)?))
        });
        // The stack was taken just after the event.
        let wakeup = |(stack, by): (&WaitRecord, InterruptSource)| {
            let is_of_stack = |event: &&TraceEvent| {
                let is_same = matches!(&event.kind, EventKind::Waking { task, .. } if Some(task.pid) == stack.woken);
                is_same && event.pid == stack.tid && event.time <= stack.time
            };
            let event = events.iter().rfind(is_of_stack)?;
            let is_near = event.time + AFTER > stack.time;
            is_near.then_some(InterruptWakeup {
                at: event.time,
                woken: stack.woken?,
                by,
            })
        };
        known.filter_map(wakeup).collect()
    }

    /// Adds the names for a window's events.
    pub(super) fn fill(&mut self, window: &mut Window) {
        let mut symbols = BTreeMap::new();
        let mut calls = BTreeMap::new();
        let waits = window.evidence.waits.iter();
        let stacks = waits.flat_map(|wait| wait.waker.iter().chain([&wait.waiting]));
        let of_stacks: Vec<u64> = stacks.flat_map(|stack| stack.kernel.clone()).collect();
        let mut name = |address: u64| {
            if address != 0 && !symbols.contains_key(&address) {
                let table = self.symbols.get_or_insert_with(|| self.host.symbols());
                if let Some(name) = table.name(address) {
                    symbols.insert(address, name);
                }
            }
        };
        of_stacks.into_iter().for_each(&mut name);
        for event in &window.events {
            let addresses = event.kind.addresses().into_iter().flatten();
            let frames = event.kind.frames().iter().copied();
            addresses.chain(frames).for_each(&mut name);
            if let EventKind::SysEnter { id, .. }
            | EventKind::SysExit { id, .. }
            | EventKind::SleepsIn { id, .. } = event.kind
                && let Some(name) = system_call_name(id)
            {
                calls.entry(id).or_insert_with(|| name.to_owned());
            }
        }
        (window.symbols, window.calls) = (symbols, calls);
        window.evidence.jvm = jvm::threads(&self.host, window.victim.tid, &window.events);
    }
}
