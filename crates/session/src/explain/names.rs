//! Names of what events hold as numbers: the kernel's functions, system calls.

use std::collections::BTreeMap;

use punctual_host::{Host, Symbols, system_call_name};
use punctual_model::{EventKind, Window};
use punctual_trace::Level;

/// Where names come from.
pub(super) struct Names {
    host: Host,
    /// Read when one is first needed; at the start where many will be.
    symbols: Option<Symbols>,
}

impl Names {
    pub(super) fn of(host: &Host, level: Level) -> Self {
        Self {
            host: host.clone(),
            symbols: (level == Level::Full).then(|| host.symbols()),
        }
    }

    /// Where the kernel's code begins.
    pub(super) fn text_begin(&self) -> Option<u64> {
        self.symbols.as_ref().and_then(Symbols::text_begin)
    }

    /// Names what a window's events hold.
    pub(super) fn fill(&mut self, window: &mut Window) {
        let mut symbols = BTreeMap::new();
        let mut calls = BTreeMap::new();
        for event in &window.events {
            for address in addresses(&event.kind).into_iter().flatten() {
                if address != 0 && !symbols.contains_key(&address) {
                    let table = self.symbols.get_or_insert_with(|| self.host.symbols());
                    if let Some(name) = table.name(address) {
                        symbols.insert(address, name);
                    }
                }
            }
            if let EventKind::SysEnter { id } | EventKind::SysExit { id, .. } = event.kind
                && let Some(name) = system_call_name(id)
            {
                calls.entry(id).or_insert_with(|| name.to_owned());
            }
        }
        (window.symbols, window.calls) = (symbols, calls);
    }
}

/// The addresses of functions in an event.
fn addresses(kind: &EventKind) -> [Option<u64>; 2] {
    match *kind {
        EventKind::HrtimerStart { function, .. }
        | EventKind::HrtimerExpireEntry { function, .. }
        | EventKind::TimerExpireEntry { function, .. }
        | EventKind::WorkqueueStart { function, .. }
        | EventKind::WorkqueueEnd { function, .. } => [Some(function), None],
        EventKind::NmiHandler { handler, .. } => [Some(handler), None],
        EventKind::PageFaultKernel { ip, .. } => [Some(ip), None],
        EventKind::IpiSend {
            callsite, callback, ..
        } => [Some(callsite), Some(callback)],
        EventKind::IrqDisable { caller, parent }
        | EventKind::IrqEnable { caller, parent }
        | EventKind::PreemptDisable { caller, parent }
        | EventKind::PreemptEnable { caller, parent } => [Some(caller), Some(parent)],
        _ => [None, None],
    }
}
