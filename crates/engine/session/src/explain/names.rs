//! Names for numbers in events: kernel functions and system calls.

use std::collections::BTreeMap;

use punctual_host::{Host, Symbols, system_call_name};
use punctual_model::{EventKind, Window};
use punctual_trace::Level;

use super::jvm;

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
