//! Decodes records according to their types, using the formats in the file.

use std::collections::BTreeSet;

use punctual_host::Symbols;
use punctual_model::{
    Comm, EVENTS, EventKind, FunctionRun, KernelPriority, Nanos, Task, TraceEvent,
};
use punctual_trace::{Decoder, FieldPosition, Format, Layout};

use super::annotations::{AnnotationFormat, Texts};
use super::meta::{FTRACE, Meta};
use crate::listed::{by_full_name, call_of, listed_name};
use crate::{Annotation, Item, TraceHead};

/// How to treat the records of a type.
#[derive(Clone, Debug, Default)]
enum Route {
    /// Skip the records.
    #[default]
    Skip,
    /// Decode them as the event with this index in [`EVENTS`].
    Event(usize),
    Mark(AnnotationFormat),
    /// Decode them as the run time of a thread: its name, its ID and the time.
    RunTime([FieldPosition; 3]),
    /// Decode them as the return of a function.
    Returned(ReturnFormat),
    /// Decode them as the begin of the system call with this number ([`TraceHead::calls`]), whose
    /// first arguments are in these fields.
    Begun(i64, [Option<FieldPosition>; 2]),
    /// Decode them as the end of this system call, whose result is in this field.
    Ended(i64, FieldPosition),
}

/// The fields of a return in the tracer function_graph.
#[derive(Clone, Debug)]
struct ReturnFormat {
    function: FieldPosition,
    called: FieldPosition,
    returned: FieldPosition,
}

impl ReturnFormat {
    /// Returns the fields, or the name of one that is missing.
    fn new(format: &Format) -> Result<Self, &'static str> {
        let field = |name| format.position(name).ok_or(name);
        Ok(Self {
            function: field("func")?,
            called: field("calltime")?,
            returned: field("rettime")?,
        })
    }

    /// Returns the address of the function, and its duration.
    fn run(&self, layout: &Layout, data: &[u8]) -> Option<(u64, Nanos)> {
        let number = |place: &FieldPosition| Some(layout.unsigned(place.bytes(layout, data)?));
        let (called, returned) = (number(&self.called)?, number(&self.returned)?);
        Some((
            number(&self.function)?,
            Nanos(returned.saturating_sub(called)),
        ))
    }
}

#[derive(Clone, Debug, Default)]
struct Kind {
    route: Route,
    /// Whether a record of this type has been seen.
    is_seen: bool,
    /// The buffer from which records of this type are taken. Such records in other buffers are
    /// copies.
    buffer: Option<usize>,
}

/// The decoder for the records of a file.
#[derive(Debug)]
pub(crate) struct RecordDecoder {
    layout: Layout,
    decoder: Decoder,
    /// Indexed by the type number of the record.
    kinds: Vec<Kind>,
    texts: Texts,
    symbols: Symbols,
    /// Recent addresses whose functions have already been added to the head, indexed by their low
    /// bits.
    named: Vec<u64>,
}

/// The result of decoding a record.
pub(crate) enum Decoded {
    Item(Item),
    Nothing,
    /// The record is an event from the table ([`EVENTS`]), but it is truncated.
    Unreadable,
    /// The record is a copy of an event that is also in another buffer.
    Double,
}

/// The trace system of the events of single system calls.
const SYSCALLS: &str = "syscalls";
/// Number of recent addresses to remember.
const RECENT: usize = 1 << 12;
/// Maximum number of functions in the head. Kernels have fewer functions.
const MOST_SYMBOLS: usize = 1 << 18;

impl RecordDecoder {
    /// Creates the decoder from the formats in the file, and adds the listed events and warnings to
    /// the head.
    pub(crate) fn new(layout: Layout, meta: Meta, head: &mut TraceHead) -> Self {
        let text_begin = meta.symbols.text_begin();
        let mut records = Self {
            layout,
            decoder: Decoder::new(layout, text_begin),
            kinds: Vec::new(),
            texts: Texts::from_meta(&meta),
            symbols: Symbols::default(),
            named: vec![0; RECENT],
        };
        head.lists_events = !meta.formats.is_empty() && !meta.has_all_formats();
        let mut missing = BTreeSet::new();
        for (system, format) in &meta.formats {
            if let Some(field) = records.learn(system, format, head) {
                missing.insert(format!(
                    "events {system}:{} are skipped: their format has no field {field}, or the \
                     field is at an unknown position",
                    format.name
                ));
            }
        }
        if meta.bad_formats > 0 {
            let number = meta.bad_formats;
            missing.insert(format!(
                "number of event formats that cannot be read: {number}"
            ));
        }
        head.warnings.extend(missing);
        records.symbols = meta.symbols;
        records
    }

    /// Stores how to decode an event. If it cannot be decoded, returns the field that is missing.
    fn learn(
        &mut self,
        system: &str,
        format: &Format,
        head: &mut TraceHead,
    ) -> Option<&'static str> {
        let route = if let Some(index) = by_full_name(&format!("{system}:{}", format.name))
            && let Some(spec) = EVENTS.get(index)
        {
            if let Err(field) = self.decoder.learn(spec, format) {
                return Some(field);
            }
            if head.lists_events && system != FTRACE {
                head.recorded.insert(listed_name(index).to_owned());
            }
            Route::Event(index)
        } else if system == SYSCALLS
            && let Some((call, ends)) = call_of(&format.name)
        {
            let id = head.number_of(call);
            if ends {
                let Some(result) = format.position("ret") else {
                    return Some("ret");
                };
                Route::Ended(id, result)
            } else {
                // The first field is the number of the call.
                let mut fields = format.own_positions().skip(1);
                Route::Begun(id, [fields.next(), fields.next()])
            }
        } else if system == "sched" && format.name == "sched_stat_runtime" {
            let field = |name| format.position(name).ok_or(name);
            match (field("comm"), field("pid"), field("runtime")) {
                (Ok(comm), Ok(pid), Ok(ran)) => Route::RunTime([comm, pid, ran]),
                (Err(field), ..) | (_, Err(field), _) | (.., Err(field)) => return Some(field),
            }
        } else if system == FTRACE && format.name == "funcgraph_exit" {
            match ReturnFormat::new(format) {
                Ok(fields) => Route::Returned(fields),
                Err(field) => return Some(field),
            }
        } else {
            Route::Mark(AnnotationFormat::from_format(system, format)?)
        };
        let id = usize::from(format.id);
        if self.kinds.len() <= id {
            self.kinds.resize(id + 1, Kind::default());
        }
        if let Some(kind) = self.kinds.get_mut(id) {
            kind.route = route;
        }
        None
    }

    /// Decodes a record of a CPU.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        buffer: usize,
        cpu: u32,
        time: Nanos,
        data: &[u8],
        head: &mut TraceHead,
    ) -> Decoded {
        let Some(id) = data.get(..2) else {
            return Decoded::Unreadable;
        };
        let id = self.layout.unsigned(id) as usize;
        let Some(kind) = self.kinds.get_mut(id) else {
            return Decoded::Nothing;
        };
        if matches!(kind.route, Route::Skip) {
            return Decoded::Nothing;
        }
        if *kind.buffer.get_or_insert(buffer) != buffer {
            return Decoded::Double;
        }
        match &kind.route {
            Route::Skip => Decoded::Nothing,
            Route::Event(index) => {
                if !kind.is_seen {
                    kind.is_seen = true;
                    head.recorded.insert(listed_name(*index).to_owned());
                }
                let Some(event) = self.decoder.event(cpu, time, data) else {
                    return Decoded::Unreadable;
                };
                for address in event.kind.addresses().into_iter().flatten() {
                    self.name(address, head);
                }
                for address in event.kind.frames() {
                    self.name(*address, head);
                }
                Decoded::Item(Item::Event(event))
            }
            Route::Mark(of) => {
                let text = of.text(&self.layout, &self.texts, data);
                let pid = data.get(4..8).map(|pid| self.layout.unsigned(pid) as u32);
                match (text, pid) {
                    (Some(text), Some(pid)) => Decoded::Item(Item::Mark(Annotation {
                        time,
                        cpu,
                        pid,
                        comm: Comm::default(),
                        text,
                    })),
                    _ => Decoded::Unreadable,
                }
            }
            Route::RunTime([comm, pid, ran]) => {
                let field = |place: &FieldPosition| place.bytes(&self.layout, data);
                let (Some(comm), Some(pid), Some(ran)) = (field(comm), field(pid), field(ran))
                else {
                    return Decoded::Unreadable;
                };
                Decoded::Item(Item::RunTime {
                    time,
                    cpu,
                    thread: Task {
                        pid: self.layout.unsigned(pid) as u32,
                        comm: Comm::new(super::parser::text(comm).as_bytes()),
                        prio: KernelPriority::UNKNOWN,
                    },
                    ran: Nanos(self.layout.unsigned(ran)),
                })
            }
            Route::Returned(format) => {
                let run = format.run(&self.layout, data);
                let pid = data.get(4..8).map(|pid| self.layout.unsigned(pid) as u32);
                let (Some((function, took)), Some(pid)) = (run, pid) else {
                    return Decoded::Unreadable;
                };
                if took < FunctionRun::LEAST {
                    return Decoded::Nothing;
                }
                let named = self.symbols.function(function);
                let function =
                    named.map_or_else(|| format!("{function:#x}"), |(name, _)| name.into_owned());
                Decoded::Item(Item::Function {
                    time,
                    run: FunctionRun {
                        function: function.as_str().into(),
                        cpu,
                        pid: Some(pid),
                        end: Some(time),
                        took,
                    },
                })
            }
            Route::Begun(id, _) | Route::Ended(id, _)
                if head
                    .calls
                    .get(id)
                    .is_some_and(|call| !head.shows_by_name(call)) =>
            {
                Decoded::Nothing
            }
            Route::Begun(id, fields) => {
                let kind = begun(&self.layout, *id, fields, data);
                call_event(&self.layout, kind, (cpu, time), data)
            }
            Route::Ended(id, result) => {
                let kind = ended(&self.layout, *id, result, data);
                call_event(&self.layout, kind, (cpu, time), data)
            }
        }
    }

    /// Adds the name of the function at this address to the head.
    #[inline]
    fn name(&mut self, address: u64, head: &mut TraceHead) {
        let slot = (address >> 2) as usize % RECENT;
        let Some(named) = self.named.get_mut(slot) else {
            return;
        };
        if *named == address {
            return;
        }
        *named = address;
        if let Some((name, _)) = self.symbols.function(address)
            && head.symbols.len() < MOST_SYMBOLS
        {
            head.symbols
                .entry(address)
                .or_insert_with(|| name.into_owned());
        }
    }
}

/// Returns the begin of a system call. Its arguments have the size of a `long`.
fn begun(
    layout: &Layout,
    id: i64,
    fields: &[Option<FieldPosition>; 2],
    data: &[u8],
) -> Option<EventKind> {
    let mut args = [0; 2];
    for (arg, field) in args.iter_mut().zip(fields) {
        if let Some(field) = field {
            *arg = layout.unsigned(field.bytes(layout, data)?);
        }
    }
    Some(EventKind::SysEnter { id, args })
}

/// Returns the end of a system call. Its result has the size of a `long`.
fn ended(layout: &Layout, id: i64, result: &FieldPosition, data: &[u8]) -> Option<EventKind> {
    let result = result.bytes(layout, data)?;
    let ret = match (result.len(), layout.unsigned(result)) {
        (4, short) => i64::from(short as u32 as i32),
        (_, long) => long as i64,
    };
    Some(EventKind::SysExit { id, ret })
}

fn call_event(
    layout: &Layout,
    kind: Option<EventKind>,
    (cpu, time): (u32, Nanos),
    data: &[u8],
) -> Decoded {
    let event = || {
        Some(TraceEvent {
            time,
            cpu,
            pid: layout.unsigned(data.get(4..8)?) as u32,
            flags: *data.get(2)?,
            preempt_count: *data.get(3)?,
            kind: kind?,
        })
    };
    event().map_or(Decoded::Unreadable, |event| {
        Decoded::Item(Item::Event(event))
    })
}
