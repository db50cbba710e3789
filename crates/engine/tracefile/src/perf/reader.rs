//! Turns the records of a `perf.data` into items.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use punctual_model::{EventKind, Nanos, TraceEvent};

use super::attr::{Attr, bit};
use super::header::{Header, tracing_data};
use super::order::Order;
use super::records::{Record, Records, kind};
use super::sample::Sample;
use crate::dat::clock::differs;
use crate::dat::parser::{Endian, Parser};
use crate::dat::record_decoder::{Decoded, RecordDecoder};
use crate::input::ReadSeek;
use crate::listed::{by_full_name, listed_name};
use crate::{Item, TraceFileError, TraceHead, TraceReader};

/// Maximum number of CPUs. Kernels support fewer (`NR_CPUS_RANGE_END`).
const MOST_CPUS: u32 = 65_536;
/// perf's own clock. It is based on sched_clock().
const PERF_CLOCK: &str = "perf";
/// Size of the record that comes before the formats of the events in a file from a pipe, without
/// its header, in bytes.
const ALIGNMENT: u64 = 8;

/// A reader of a `perf.data`.
pub(super) struct PerfReader {
    records: Records,
    header: Header,
    decoder: Option<RecordDecoder>,
    head: TraceHead,
    order: Order,
    seen: BTreeSet<u32>,
    /// CPUs whose next item follows a record that could not be read.
    broken: BTreeSet<u32>,
    counts: BTreeMap<Problem, (u64, u64)>,
    is_at_end: bool,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Problem {
    Short,
    NoCpu,
    Unknown,
    Late,
}

impl Problem {
    const fn says(self) -> &'static str {
        match self {
            Self::Short => "samples shorter than their fields count as lost events",
            Self::NoCpu => "samples without a CPU are skipped",
            Self::Unknown => "samples of an unknown event are skipped",
            Self::Late => "samples too far out of order count as lost events",
        }
    }
}

impl PerfReader {
    /// Reads the header of a file, and its records up to the first item.
    pub(super) fn open(
        mut source: Box<dyn ReadSeek>,
        warning: Option<String>,
    ) -> Result<Self, TraceFileError> {
        let mut header = Header::read(source.as_mut())?;
        let meta = header.meta.take();
        let is_from_pipe = header.records.1.is_none();
        let mut warnings: Vec<String> = warning.into_iter().collect();
        warnings.append(&mut header.warnings);
        let mut reader = Self {
            records: Records::new(source, &header)?,
            head: TraceHead {
                format: "perf.data".to_owned(),
                resolution: Nanos(1),
                warnings,
                ..TraceHead::default()
            },
            header,
            decoder: None,
            order: Order::default(),
            seen: BTreeSet::new(),
            broken: BTreeSet::new(),
            counts: BTreeMap::new(),
            is_at_end: false,
        };
        match meta {
            Some(meta) => reader.learn(meta)?,
            None if is_from_pipe => while reader.decoder.is_none() && reader.read_record()? {},
            None => (),
        }
        if reader.decoder.is_none() {
            return Err(TraceFileError::NothingUsed {
                format: "perf.data, which has no tracepoints,".to_owned(),
                remedy: ". Record at least -e sched:sched_switch -e sched:sched_waking",
            });
        }
        reader.note_header();
        if !reader.is_any(|attr| attr.is_tracepoint && attr.sample_type & bit::TIME != 0) {
            return Err(TraceFileError::NothingUsed {
                format: "perf.data, whose samples have no time,".to_owned(),
                remedy: ". Record with perf record -T",
            });
        }
        Ok(reader)
    }

    fn is_any(&self, is: impl Fn(&Attr) -> bool) -> bool {
        self.header.attrs.all().iter().any(is)
    }

    /// Prepares for decoding the records of tracepoints.
    fn learn(&mut self, meta: crate::dat::meta::Meta) -> Result<(), TraceFileError> {
        let layout = meta.layout.ok_or_else(|| TraceFileError::Damaged {
            offset: 0,
            what: "no layout of pages".to_owned(),
        })?;
        self.decoder = Some(RecordDecoder::new(layout, meta, &mut self.head));
        Ok(())
    }

    /// Copies what the header states about the trace.
    fn note_header(&mut self) {
        self.head.kernel.clone_from(&self.header.kernel);
        self.head.machine.clone_from(&self.header.machine);
        self.head.cpus = self.header.cpus;
        let mut clocks = self.header.attrs.all().iter();
        let clock = clocks
            .find(|attr| attr.is_tracepoint)
            .map(|attr| attr.clock);
        let name = match clock.flatten() {
            None => PERF_CLOCK.to_owned(),
            Some(1) => "mono".to_owned(),
            Some(4) => "mono_raw".to_owned(),
            Some(7) => "boot".to_owned(),
            Some(11) => "tai".to_owned(),
            Some(other) => format!("clock {other}"),
        };
        self.head.clocks_differ = differs(&name, false).ok().flatten();
        self.head.clock = Some(name);
    }

    /// Reads a record. Returns `false` at the end.
    fn read_record(&mut self) -> Result<bool, TraceFileError> {
        let record = match self.records.next() {
            Ok(Some(record)) => record,
            Ok(None) => {
                self.end();
                return Ok(false);
            }
            // Items that precede the damage are still an answer.
            Err(error) if self.seen.is_empty() => return Err(error),
            Err(error) => {
                self.head
                    .warnings
                    .push(format!("the rest is missing: {error}"));
                self.broken.extend(&self.seen);
                self.end();
                return Ok(false);
            }
        };
        match record.kind {
            kind::SAMPLE => self.sample(&record),
            kind::LOST => self.lost(&record, 8),
            kind::LOST_SAMPLES => self.lost(&record, 0),
            kind::FINISHED_ROUND => self.order.end_round(),
            kind::HEADER_ATTR => self.attr(&record)?,
            kind::FEATURE => self.feature(&record),
            kind::TRACING_DATA if self.decoder.is_none() => self.tracing_data(&record)?,
            _ => (),
        }
        Ok(true)
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.is_at_end, true) {
            return;
        }
        let until = self.order.newest();
        for cpu in std::mem::take(&mut self.broken) {
            let count = None;
            self.order.push(Item::Lost { cpu, count, until });
        }
        self.order.end();
        for (problem, (number, offset)) in std::mem::take(&mut self.counts) {
            let (what, number) = (problem.says(), counted(number));
            let warning = format!("{what}: {number}; the first is at byte {offset}");
            self.head.warnings.push(warning);
        }
    }

    fn count(&mut self, problem: Problem, offset: u64) {
        self.counts.entry(problem).or_insert((0, offset)).0 += 1;
    }

    fn sample(&mut self, record: &Record) {
        let endian = self.header.endian;
        let of = self
            .header
            .attrs
            .of_sample(&record.body, |id| endian.u64(id));
        let Some(attr) = of else {
            return self.count(Problem::Unknown, record.offset);
        };
        if !attr.is_tracepoint || attr.sample_type & bit::RAW == 0 {
            return;
        }
        let Some(sample) = Sample::parse(attr, &record.body, endian) else {
            self.broken.extend(&self.seen);
            return self.count(Problem::Short, record.offset);
        };
        let Some(cpu) = sample.cpu.filter(|cpu| *cpu < MOST_CPUS) else {
            return self.count(Problem::NoCpu, record.offset);
        };
        let (Some(raw), Some(decoder)) = (sample.raw, &mut self.decoder) else {
            return;
        };
        self.seen.insert(cpu);
        if sample.has_exited {
            self.head.exited.insert((sample.time, cpu));
        }
        match decoder.decode(0, cpu, sample.time, raw, &mut self.head) {
            Decoded::Item(item) => self.push(cpu, item, sample.stack, record.offset),
            Decoded::Nothing | Decoded::Double => (),
            Decoded::Unreadable => {
                self.broken.insert(cpu);
                self.count(Problem::Short, record.offset);
            }
        }
    }

    /// Adds an item of a CPU, and its stack after it.
    fn push(&mut self, cpu: u32, item: Item, stack: Vec<u64>, offset: u64) {
        let until = item.time();
        if self.broken.remove(&cpu) {
            let count = None;
            self.order.push(Item::Lost { cpu, count, until });
        }
        let stack = match &item {
            Item::Event(event) if !stack.is_empty() => Some(TraceEvent {
                kind: EventKind::KernelStack { frames: stack },
                ..event.clone()
            }),
            _ => None,
        };
        if !self.order.push(item) {
            self.broken.insert(cpu);
            return self.count(Problem::Late, offset);
        }
        if let Some(stack) = stack {
            let name = by_full_name("ftrace:kernel_stack").map(listed_name);
            self.head.recorded.extend(name.map(str::to_owned));
            self.order.push(Item::Event(stack));
        }
    }

    /// Adds the events that the kernel reports as lost. Their number is at byte `place`.
    fn lost(&mut self, record: &Record, place: usize) {
        let endian = self.header.endian;
        let bytes = record.body.get(place..).and_then(|rest| rest.first_chunk());
        let count = bytes.map(|bytes| endian.u64(*bytes));
        let end = self.header.attrs.first();
        let end = end.and_then(|attr| Sample::parse_end(attr, &record.body, endian));
        match end {
            Some((until, Some(cpu))) if cpu < MOST_CPUS => {
                self.order.push(Item::Lost { cpu, count, until });
            }
            // Files without this end do not state the CPU.
            _ => self.broken.extend(&self.seen),
        }
    }

    /// Reads the attributes of an event in a file from a pipe, with its IDs.
    fn attr(&mut self, record: &Record) -> Result<(), TraceFileError> {
        let endian = self.header.endian;
        let size = record.body.get(4..8).and_then(|size| size.try_into().ok());
        let size = size.map_or(0, |size| endian.u32(size)) as usize;
        let mut parser = Parser::option(record.body.clone(), endian, record.offset);
        let attr = Attr::read(&mut parser, size as u64)?;
        let ids = record.body.get(size..).unwrap_or_default();
        let ids = ids.as_chunks().0.iter().map(|id| endian.u64(*id));
        if !self.header.attrs.add(attr, ids) {
            return Err(parser.damaged("too many different attributes of events"));
        }
        Ok(())
    }

    /// Reads a feature in a file from a pipe.
    fn feature(&mut self, record: &Record) {
        let endian: Endian = self.header.endian;
        let mut parser = Parser::option(record.body.clone(), endian, record.offset);
        let read = parser
            .u64()
            .and_then(|feature| self.header.read_feature(feature, &mut parser));
        if let Err(error) = read {
            self.head
                .warnings
                .push(format!("cannot read a feature: {error}"));
        }
        self.note_header();
    }

    /// Reads the formats of the events in a file from a pipe. They follow their record.
    fn tracing_data(&mut self, record: &Record) -> Result<(), TraceFileError> {
        let endian = self.header.endian;
        let size = record.body.first_chunk();
        let size = size.map_or(0, |size| u64::from(endian.u32(*size)));
        let size = size.next_multiple_of(ALIGNMENT);
        let meta = self.records.attached(size, |part: &mut dyn Read, offset| {
            tracing_data(&mut Parser::new(part, endian, offset))
        })?;
        self.learn(meta)
    }
}

fn counted(number: u64) -> String {
    match number {
        1 => "1 sample".to_owned(),
        number => format!("{number} samples"),
    }
}

impl TraceReader for PerfReader {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        loop {
            if let Some(item) = self.order.pop() {
                return Ok(Some(item));
            }
            if self.is_at_end || !self.read_record()? {
                return Ok(self.order.pop());
            }
        }
    }

    fn head(&self) -> &TraceHead {
        &self.head
    }
}
