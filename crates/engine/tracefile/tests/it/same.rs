//! Compares the items of a `trace.dat` with those of its `trace-cmd report`.

#![allow(unreachable_pub)]

use punctual_model::{EventKind, TraceEvent};
use punctual_tracefile::{Annotation, Item, TraceHead};

/// Describes an item using only the information that both forms contain. The text has no flags, and
/// it has names instead of addresses.
fn common(item: &Item, head: &TraceHead) -> String {
    let name = |address: &mut u64, names: &mut String| {
        *names += head.symbols.get(address).map_or("?", String::as_str);
        *names += " ";
        *address = 0;
    };
    match item {
        Item::Lost { .. }
        | Item::Statement { .. }
        | Item::Function { .. }
        | Item::RunTime { .. } => format!("{item:?}"),
        Item::Mark(Annotation {
            time,
            cpu,
            pid,
            text,
            ..
        }) => format!("{time:?} {cpu} {pid} {text}"),
        Item::Event(TraceEvent {
            time,
            cpu,
            pid,
            kind,
            ..
        }) => {
            let (mut kind, mut names) = (kind.clone(), String::new());
            match &mut kind {
                EventKind::HrtimerStart { function, .. }
                | EventKind::HrtimerExpireEntry { function, .. }
                | EventKind::TimerExpireEntry { function, .. } => name(function, &mut names),
                EventKind::Switch { prev_state, .. } => {
                    // trace-cmd before 3.2 does not show preemption, and swaps the two states of a
                    // thread that ends.
                    let ends = if prev_state.is_exit() { 0x30 } else { 0 };
                    prev_state.0 = (prev_state.0 & 0xff) | ends;
                }
                // The numbers of calls that only a name states are not those of the kernel.
                EventKind::SysEnter { id: id @ ..0, .. }
                | EventKind::SysExit { id: id @ ..0, .. } => {
                    names += head.calls.get(id).map_or("?", String::as_str);
                    *id = -1;
                }
                _ => (),
            }
            format!("{time:?} {cpu} {pid} {names}{kind:?}")
        }
    }
}

/// Compares items. Items with the same time may be in a different order if their CPUs differ.
///
/// # Panics
/// Panics if the items differ.
pub fn same(ours: &(Vec<Item>, TraceHead), text: &(Vec<Item>, TraceHead), name: &str) {
    let sorted = |(items, head): &(Vec<Item>, TraceHead)| {
        let mut items: Vec<String> = items.iter().map(|item| common(item, head)).collect();
        items.sort();
        items
    };
    let (ours, text) = (sorted(ours), sorted(text));
    for (ours, text) in ours.iter().zip(&text) {
        assert_eq!(ours, text, "{name}");
    }
    assert_eq!(ours.len(), text.len(), "{name}");
}
