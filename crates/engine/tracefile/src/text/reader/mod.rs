//! Reads the lines of a text trace and returns its items, sorted by time.

mod functions;
mod stacks;
mod statements;

use std::io::BufRead;

use punctual_model::{Comm, EVENTS, EventKind, KernelPriority, Nanos, TraceEvent, Vector};

use super::event::{Found, Table, has_system};
use super::graph::{Graph, GraphLine, is_rule};
use super::head::{self, Columns};
use super::line::{Line, clean, is_without_unit, lost_events, seconds_of};
use super::lines::Lines;
use super::names::Names;
use super::order::Order;
use super::payload;
use super::rtla_analysis::Analysis;
use super::stack::{EventHeader, Frame, Stack};
use super::statement::Pending;
use super::system_call::SystemCall;
use super::warnings::{Warnings, shortened};
use crate::listed::listed_name;
use crate::{Annotation, Item, TraceFileError, TraceHead, TraceReader};
use statements::{breaks_off, thread_in};

/// If a time goes backwards by more than this, the line is not just out of order, but starts
/// another trace.
const RESTART: Nanos = Nanos(1_000_000_000);
/// Maximum number of CPUs. Kernels support fewer (`NR_CPUS_RANGE_END`).
const MOST_CPUS: u32 = 65_536;
/// Maximum number of bytes before the first event.
const LONGEST_PREFACE: u64 = 64 << 20;
/// Maximum number of lines to join into one event. E-mail programs wrap lines at 72 characters.
const MOST_JOINED: u32 = 4;

/// The state of a CPU.
#[derive(Clone, Debug, Default)]
struct Cpu {
    /// Whether the CPU has had an item since the trace began.
    is_seen: bool,
    /// ID of the running thread, from the last context switch.
    current: Option<u32>,
    /// Events that were lost before the next item of this CPU. If the inner value is `None`, their
    /// number is unknown.
    lost: Option<Option<u64>>,
}

/// An event from the table whose text is incomplete. The rest may be on the next line.
#[derive(Debug)]
struct Incomplete {
    line: u64,
    header: EventHeader,
    index: usize,
    vector: Vector,
    text: String,
    joined: u32,
}

/// A reader of a text trace.
#[derive(Debug)]
pub(super) struct TextReader<R> {
    lines: Lines<R>,
    head: TraceHead,
    table: Table,
    columns: Columns,
    names: Names,
    order: Order,
    cpus: Vec<Cpu>,
    /// For each event in the table, by its index, the buffer from which the event is taken.
    buffers: Vec<Option<String>>,
    warnings: Warnings,
    incomplete: Option<Incomplete>,
    stack: Option<Stack>,
    /// The functions of the tracer function_graph that have not returned.
    graph: Graph,
    /// The statement of a latency tracer in the header of the current trace.
    pending: Pending,
    /// The automatic analysis of rtla that is being read.
    analysis: Option<Analysis>,
    /// A line that breaks off in the middle, because a mail program wrapped it.
    wrapped: Option<String>,
    /// Whether the times of the last event were counted from the start of the trace.
    is_relative: bool,
    /// The last event. It is kept because a stack may follow it.
    last: Option<EventHeader>,
    /// The first line that is not empty, in shortened form.
    first: Option<String>,
    /// Whether a header or any event has been read.
    is_trace: bool,
    /// Whether a header of trace-cmd has been read.
    is_report: bool,
    /// Whether the kernel overwrote the first events of the buffers.
    is_overwritten: bool,
    /// Whether a header has been read after events, so that the next event begins another trace.
    begins: bool,
    /// Whether a line has an event whose time is a whole number.
    is_without_unit: bool,
    is_at_end: bool,
}

impl<R: BufRead> TextReader<R> {
    /// Opens a text trace and reads it up to its first event.
    pub(super) fn open(input: R) -> Result<Self, TraceFileError> {
        let mut reader = Self {
            lines: Lines::new(input),
            head: TraceHead::default(),
            table: Table::new(),
            columns: Columns::default(),
            names: Names::default(),
            order: Order::default(),
            cpus: Vec::new(),
            buffers: vec![None; EVENTS.len()],
            warnings: Warnings::default(),
            incomplete: None,
            stack: None,
            graph: Graph::default(),
            pending: Pending::default(),
            analysis: None,
            wrapped: None,
            is_relative: false,
            last: None,
            first: None,
            is_trace: false,
            is_report: false,
            is_overwritten: false,
            begins: false,
            is_without_unit: false,
            is_at_end: false,
        };
        let mut line = String::new();
        while reader.order.newest().is_none() && !reader.is_at_end {
            reader.read_line(&mut line)?;
            if reader.lines.read > LONGEST_PREFACE && !reader.is_trace {
                break;
            }
        }
        if reader.order.newest().is_none() && reader.warnings.no_cpu.is_any() {
            return Err(TraceFileError::NoCpu);
        }
        if reader.order.newest().is_none() && reader.is_without_unit {
            let clock = "counter or x86-tsc".to_owned();
            return Err(TraceFileError::NoTime { clock });
        }
        if !reader.is_trace {
            let first = reader.first.unwrap_or_default();
            return Err(TraceFileError::NoEvent { first });
        }
        if reader.head.format.is_empty() {
            "text without events".clone_into(&mut reader.head.format);
        }
        Ok(reader)
    }

    fn read_line(&mut self, line: &mut String) -> Result<(), TraceFileError> {
        if self.lines.next_into(line)? {
            self.take_line(&clean(line));
        } else {
            self.end();
        }
        Ok(())
    }

    fn end(&mut self) {
        self.finish();
        self.state_latency();
        self.is_at_end = true;
        let until = self.order.newest().unwrap_or_default();
        for (cpu, state) in (0..).zip(&mut self.cpus) {
            if let Some(count) = state.lost.take() {
                self.order.push(until, Item::Lost { cpu, count, until });
            }
        }
        self.head.warnings = self.warnings.sentences();
    }

    fn take_line(&mut self, text: &str) {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return self.finish();
        }
        if self.first.is_none() {
            self.first = Some(shortened(trimmed));
        }
        if self.take_analysis(trimmed) {
            return;
        }
        if let Some(begin) = self.wrapped.take().filter(|_| Line::parse(text).is_none()) {
            self.warnings.joined.add(self.lines.number, trimmed);
            return self.take_line(&format!("{begin} {trimmed}"));
        }
        if let Some(line) = Line::parse(text) {
            self.finish();
            return self.take_event(&line, text);
        }
        if let Some(line) = GraphLine::parse(text, self.graph.is_on) {
            self.finish();
            return self.take_graph(&line, text);
        }
        if let Some(caller) = trimmed.strip_prefix("<-").filter(|_| self.pending.states()) {
            let caller = caller.split_whitespace().next().unwrap_or_default();
            let caller = self.names.function(caller);
            return self.pending.caller(caller);
        }
        if self.take_header(trimmed) {
            return;
        }
        if let Some(cpus) = head::cpus(trimmed) {
            self.head.cpus = Some(cpus);
            self.is_trace = true;
            self.is_report |= trimmed.starts_with("cpus=");
            // If a header follows events, another trace was appended to this one.
            self.begins |= self.order.newest().is_some();
        }
        if let Some((cpu, count)) = lost_events(trimmed) {
            return self.lose(cpu, count);
        }
        if let Some(comment) = trimmed.strip_prefix('#') {
            return self.take_comment(comment);
        }
        if let Some(frame) = Frame::read(trimmed) {
            return self.take_frame(&frame);
        }
        if self.incomplete.is_some() {
            return self.join(trimmed);
        }
        let is_known = self.graph.is_on && is_rule(trimmed)
            || ["cpus=", "version = "]
                .iter()
                .any(|of| trimmed.starts_with(of))
            || trimmed.starts_with("CPU ") && trimmed.ends_with(" is empty");
        if !is_known {
            self.is_without_unit |= is_without_unit(text);
            self.warnings.no_event.add(self.lines.number, trimmed);
        }
    }

    fn take_event(&mut self, line: &Line<'_>, text: &str) {
        let found = self.table.find(line.rest);
        let is_ours = matches!(found, Found::Event(..) | Found::Mark(_));
        let Some(cpu) = line.cpu.filter(|cpu| *cpu < MOST_CPUS) else {
            let count = if is_ours && line.cpu.is_none() {
                &mut self.warnings.no_cpu
            } else {
                &mut self.warnings.no_event
            };
            return count.add(self.lines.number, text);
        };
        self.is_trace = true;
        let (flags, preempt_count) = self.columns.decode(line.flags);
        // The entries of latency tracers look like names with a system: `77:120:R + [002]`.
        let is_perf = has_system(line.rest) && !matches!(found, Found::Entry(_));
        let header = EventHeader {
            time: line.time,
            cpu,
            // perf separates comm and thread ID with a space, so a dash belongs to the comm.
            pid: line.pid.filter(|_| !is_perf || !line.has_dash),
            flags,
            preempt_count,
        };
        self.note_format(line, is_perf);
        match found {
            Found::Event(index, vector, text) => {
                if self.is_new(index, line) {
                    self.take_kernel_event(header, index, vector, text, 0);
                }
            }
            Found::Mark(text) => {
                let pid = self.thread_of(header).unwrap_or_default();
                let (time, cpu) = (header.time, header.cpu);
                if self.make_room(header) {
                    self.order.push(
                        time,
                        Item::Mark(Annotation {
                            time,
                            cpu,
                            pid,
                            comm: Comm::new(line.comm.as_bytes()),
                            text,
                        }),
                    );
                }
            }
            Found::Stack => {
                self.stack = Some(Stack {
                    header,
                    frames: Vec::new(),
                });
            }
            Found::Call(function, caller) => {
                let thread = thread_in(line, KernelPriority::UNKNOWN);
                self.take_call(header, thread, function, caller);
            }
            Found::RunTime(comm, pid, ran) => self.take_run_time(header, comm, pid, Nanos(ran)),
            Found::Graph(text) => {
                let thread = thread_in(line, KernelPriority::UNKNOWN);
                self.take_function(Some(header), cpu, thread, &text);
            }
            Found::Entry(entry) => self.take_entry(header, line, &entry),
            Found::Lost(count) => self.lose(cpu, count),
            Found::InSwitch(fields) => {
                let (name, fields) = ("tlb_flush".into(), fields.to_owned());
                self.accept(header, None, EventKind::Requested { name, fields });
            }
            Found::SystemCall(call) => self.take_system_call(header, call),
            Found::Other if breaks_off(line.rest) => self.wrapped = Some(text.to_owned()),
            Found::Other => (),
        }
    }

    fn take_system_call(&mut self, header: EventHeader, call: SystemCall<'_>) {
        let (SystemCall::Called(name, _) | SystemCall::Returned(name, _)) = call;
        if !self.head.shows_by_name(name) {
            return;
        }
        let id = self.head.number_of(name);
        let kind = match call {
            SystemCall::Called(_, args) => EventKind::SysEnter { id, args },
            SystemCall::Returned(_, ret) => EventKind::SysExit { id, ret },
        };
        self.accept(header, None, kind);
    }

    fn note_format(&mut self, line: &Line<'_>, is_perf: bool) {
        self.is_relative = line.is_relative;
        self.head.resolution = self.head.resolution.max(line.resolution);
        if self.head.format.is_empty() {
            let format = match () {
                () if is_perf => "text of perf script",
                () if self.is_report => "text of trace-cmd report",
                () if line.is_relative => "text of tracefs (latency format)",
                // trace-cmd pads the name of the event so that the texts are aligned.
                () if line.rest.contains(":  ") => "text of trace-cmd report",
                () => "text of tracefs",
            };
            format.clone_into(&mut self.head.format);
        }
    }

    /// Returns whether this event is taken from the buffer that the line names. Two buffers may
    /// contain the same events.
    fn is_new(&mut self, index: usize, line: &Line<'_>) -> bool {
        if !self.is_report {
            return true;
        }
        let buffer = line.buffer.unwrap_or_default();
        let Some(taken) = self.buffers.get_mut(index) else {
            return true;
        };
        let is_new = taken.get_or_insert_with(|| buffer.to_owned()) == buffer;
        if !is_new {
            self.warnings.other_buffer.add(self.lines.number, line.rest);
        }
        is_new
    }

    fn take_kernel_event(
        &mut self,
        header: EventHeader,
        index: usize,
        vector: Vector,
        text: &str,
        joined: u32,
    ) {
        let Some(spec) = EVENTS.get(index) else {
            return;
        };
        let symbols = &mut self.head.symbols;
        if let Some(kind) = payload::decode(spec, &vector, text, &mut self.names, symbols) {
            if joined > 0 {
                self.warnings.joined.add(self.lines.number, text);
            }
            self.accept(header, Some(index), kind);
        } else if !payload::lacks_fields(spec, text) {
            let line = match self.incomplete.take() {
                Some(incomplete) => incomplete.line,
                None => self.lines.number,
            };
            self.incomplete = Some(Incomplete {
                line,
                header,
                index,
                vector,
                text: text.to_owned(),
                joined,
            });
        }
    }

    /// Joins a line with the incomplete event that precedes it.
    fn join(&mut self, rest: &str) {
        let Some(event) = self.incomplete.take() else {
            return;
        };
        let text = format!("{} {rest}", event.text);
        let (line, joined) = (event.line, event.joined + 1);
        if joined > MOST_JOINED {
            self.incomplete = Some(event);
            return self.finish();
        }
        self.take_kernel_event(
            event.header,
            event.index,
            event.vector,
            text.trim_start(),
            joined,
        );
        if let Some(event) = &mut self.incomplete {
            event.line = line;
        }
    }

    /// Adds an event. `index`: its row in the table of events, if it has one.
    fn accept(&mut self, header: EventHeader, index: Option<usize>, kind: EventKind) {
        let by_event = match &kind {
            EventKind::Switch { prev, .. } => Some(prev.pid),
            _ => None,
        };
        let pid = header.pid.or(by_event).or_else(|| self.thread_of(header));
        let next = match &kind {
            EventKind::Switch { next, .. } => Some(next.pid),
            _ => None,
        };
        let Some(pid) = pid else {
            let name = index.and_then(|index| EVENTS.get(index));
            let name = name.map_or("", |spec| spec.name);
            return self.warnings.no_thread.add(self.lines.number, name);
        };
        if !self.make_room(header) {
            return;
        }
        if let Some(next) = next {
            self.cpu(header.cpu).current = Some(next);
        }
        if let Some(index) = index.filter(|_| !self.head.lists_events) {
            let name = listed_name(index);
            if !self.head.recorded.contains(name) {
                self.head.recorded.insert(name.to_owned());
            }
        }
        self.last = Some(header);
        let event = TraceEvent {
            time: header.time,
            cpu: header.cpu,
            pid,
            flags: header.flags,
            preempt_count: header.preempt_count,
            kind,
        };
        self.order.push(header.time, Item::Event(event));
    }

    fn thread_of(&mut self, header: EventHeader) -> Option<u32> {
        header.pid.or_else(|| self.cpu(header.cpu).current)
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let index = cpu as usize;
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, Cpu::default());
        }
        &mut self.cpus[index]
    }

    /// Adds an item for the events that were lost before this one. Returns `false` if this item is
    /// too late to be sorted.
    fn make_room(&mut self, header: EventHeader) -> bool {
        let (cpu, until) = (header.cpu, header.time);
        let newest = self.order.newest().unwrap_or_default();
        let goes_back = Nanos(until.0.saturating_add(RESTART.0)) < newest;
        if goes_back || std::mem::take(&mut self.begins) {
            self.restart(until);
        }
        if self.order.is_late(until) {
            self.warnings
                .late
                .add(self.lines.number, &seconds_of(until));
            self.lose(cpu, None);
            return false;
        }
        let is_incomplete = self.is_overwritten || self.order.is_restarted();
        let state = self.cpu(cpu);
        if !std::mem::replace(&mut state.is_seen, true) && is_incomplete {
            state.lost.get_or_insert(None);
        }
        if let Some(count) = state.lost.take() {
            self.order.push(until, Item::Lost { cpu, count, until });
        }
        true
    }

    /// Begins another trace. The state of each CPU is unknown until its first event.
    fn restart(&mut self, until: Nanos) {
        self.warnings
            .restart
            .add(self.lines.number, &seconds_of(until));
        self.order.restart();
        for (cpu, state) in (0..).zip(&mut self.cpus) {
            if std::mem::take(state).is_seen {
                let count = None;
                self.order.push(until, Item::Lost { cpu, count, until });
            }
        }
    }

    fn lose(&mut self, cpu: u32, count: Option<u64>) {
        if cpu >= MOST_CPUS {
            return;
        }
        let lost = &mut self.cpu(cpu).lost;
        *lost = Some(match (*lost, count) {
            (None, count) => count,
            (Some(before), count) => before.zip(count).map(|(a, b)| a.saturating_add(b)),
        });
    }
}

impl<R: BufRead> TraceReader for TextReader<R> {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        let mut line = String::new();
        loop {
            if let Some(item) = self.order.pop(self.is_at_end) {
                return Ok(Some(item));
            }
            if self.is_at_end {
                return Ok(None);
            }
            self.read_line(&mut line)?;
        }
    }

    fn head(&self) -> &TraceHead {
        &self.head
    }
}

#[cfg(test)]
mod tests;
