//! Decodes a bundle of events of one CPU.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_model::{Comm, EventKind, Nanos, Task, TraceEvent};

use super::compact;
use super::fields::Fields;
use super::packets::bundle;
use super::table::{GENERIC, Known, PRINT};
use super::wire::{Message, Value};
use crate::listed::listed_name;
use crate::{Annotation, Item};

/// Numbers in `FtraceEvent`: the thread and the flags. All greater numbers are those of events.
const PID: u64 = 2;
const FLAGS: u64 = 5;
/// Numbers of the events that the compact form contains.
const SWITCH: usize = 4;
const WAKING: usize = 20;
/// The name and the least ID of the threads in own traces that stand for missing events.
const NOT_RECORDED: &[u8] = b"(not recorded)";
const LEAST_MADE: u32 = i32::MAX as u32 - 65_536;
/// Number of the name in `GenericFtraceEvent`.
const NAME: u64 = 1;

/// Decodes the events of bundles.
#[derive(Debug)]
pub(super) struct Decoder {
    /// By the number of the event.
    known: Vec<Option<Known>>,
    names: Vec<Arc<str>>,
    seen: BTreeSet<usize>,
    /// Events that have occurred since the last question.
    new: Vec<usize>,
    /// Number of events of the table that lack a field.
    pub(super) unreadable: u64,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            known: Known::all(),
            names: Vec::new(),
            seen: BTreeSet::new(),
            new: Vec::new(),
            unreadable: 0,
        }
    }

    /// Returns the names of the events that have occurred for the first time since the last call.
    pub(super) fn take_new(&mut self) -> impl Iterator<Item = &'static str> + use<> {
        let new = std::mem::take(&mut self.new).into_iter();
        new.map(listed_name)
    }

    fn note(&mut self, index: usize) {
        if self.seen.insert(index) {
            self.new.push(index);
        }
    }

    /// Returns the items of a bundle in ascending order of time. `current`: the thread that runs on
    /// the CPU, as far as the bundles in the compact form state it.
    pub(super) fn items(
        &mut self,
        bytes: &[u8],
        cpu: u32,
        current: &mut Option<Task>,
    ) -> Vec<Item> {
        let mut items = Vec::new();
        for (number, value) in Message(bytes) {
            if number == bundle::EVENT {
                items.extend(self.event(Message(value.bytes()), cpu));
            } else if number == bundle::COMPACT {
                let message = Message(value.bytes());
                let begin = items.len();
                let push = |event: TraceEvent| items.push(Item::Event(event));
                let unknown = compact::decode(message, cpu, current, push);
                for item in items.get(begin..).unwrap_or_default() {
                    self.note_compact(item);
                }
                if let Some(until) = unknown {
                    let count = None;
                    items.push(Item::Lost { cpu, count, until });
                }
            }
        }
        items.sort_by_key(Item::time);
        items
    }

    fn note_compact(&mut self, item: &Item) {
        let number = match item {
            Item::Event(event) if matches!(event.kind, EventKind::Switch { .. }) => SWITCH,
            _ => WAKING,
        };
        let index = self.known.get(number).and_then(Option::as_ref);
        if let Some(index) = index.map(|known| known.event.index) {
            self.note(index);
        }
    }

    fn event(&mut self, message: Message<'_>, cpu: u32) -> Option<Item> {
        let (mut time, mut pid, mut flags, mut own) = (Nanos::ZERO, 0, 0, None);
        for (number, value) in message {
            match (number, value) {
                (bundle::TIME, value) => time = Nanos(value.number()),
                (PID, value) => pid = value.number() as u32,
                (FLAGS, Value::Number(bits)) => flags = bits as u8,
                (number, Value::Bytes(bytes)) => own = Some((number, bytes)),
                _ => (),
            }
        }
        let (number, bytes) = own?;
        let own = Message(bytes);
        if number == PRINT.0 {
            let text = String::from_utf8_lossy(own.get(PRINT.1)?.bytes());
            return Some(Item::Mark(Annotation {
                time,
                cpu,
                pid,
                comm: Comm::default(),
                text: text.trim_end_matches('\n').to_owned(),
            }));
        }
        let generic;
        let known = if number == GENERIC {
            let name = own.get(NAME)?.bytes();
            generic = Known::by_name(std::str::from_utf8(name).ok()?)?;
            &generic
        } else {
            self.known.get(usize::try_from(number).ok()?)?.as_ref()?
        };
        let index = known.event.index;
        let mut fields = Fields {
            known,
            message: own,
            names: &mut self.names,
        };
        let kind = known
            .event
            .spec
            .event
            .decode(&mut fields, &known.event.vector);
        self.note(index);
        let Some(kind) = kind else {
            self.unreadable += 1;
            let count = Some(1);
            return Some(Item::Lost {
                cpu,
                count,
                until: time,
            });
        };
        if let Some(replaced) = gap_of_own_export(&kind, cpu, time) {
            return replaced;
        }
        Some(Item::Event(TraceEvent {
            time,
            cpu,
            pid,
            flags,
            preempt_count: 0,
            kind,
        }))
    }
}

/// In the traces that punctual itself writes, a thread that does not exist occupies the CPU while
/// events are missing. Returns what replaces the switches to and from it: nothing, or the loss.
fn gap_of_own_export(kind: &EventKind, cpu: u32, until: Nanos) -> Option<Option<Item>> {
    let EventKind::Switch { prev, next, .. } = kind else {
        return None;
    };
    let is_made = |task: &Task| task.pid >= LEAST_MADE && task.comm == Comm::new(NOT_RECORDED);
    if is_made(prev) {
        let count = None;
        return Some(Some(Item::Lost { cpu, count, until }));
    }
    is_made(next).then_some(None)
}
