//! Reads the packets and events of one file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use punctual_files::Budget;
use punctual_model::Nanos;

use super::bits::{Cursor, Value, Values};
use super::types::{EventClass, Metadata, StreamClass, Type};
use crate::TraceFileError;

/// Maximum size of the beginning of a packet, up to its first event, in bytes.
const LARGEST_HEAD: u64 = 64 << 10;
/// Maximum size of a packet in bytes. LTTng's default is at most 1 MiB.
const LARGEST_PACKET: u64 = 256 << 20;
/// Maximum number of CPUs. Kernels support fewer (`NR_CPUS_RANGE_END`).
const MOST_CPUS: u64 = 65_536;

/// An event.
pub(super) struct Record {
    pub(super) time: Nanos,
    pub(super) cpu: u32,
    pub(super) class: Rc<EventClass>,
    pub(super) fields: Values,
    /// ID of the thread, if the events contain it.
    pub(super) thread: Option<u32>,
    /// Whether events before this one are missing, and their number if it is known.
    pub(super) lost: Option<Option<u64>>,
}

/// The events of a file, which are those of one CPU.
pub(super) struct Stream {
    name: String,
    file: File,
    /// Size of the file, and the offset of the next packet, in bytes.
    size: u64,
    offset: u64,
    packet: Vec<u8>,
    /// Number of the next bit in the packet, and the first one after its contents.
    bit: u64,
    end: u64,
    class: u64,
    cpu: u32,
    /// Ticks of the clock at the last event.
    ticks: u64,
    last: Nanos,
    sequence: Option<u64>,
    /// Number of events that the recorder had to discard so far.
    discarded: u64,
    lost: Option<Option<u64>>,
    /// Number of events that are missing after the last one of the packet.
    lost_after: Option<u64>,
    /// What is wrong with the file.
    pub(super) warnings: Vec<String>,
}

impl Stream {
    pub(super) fn open(path: &Path) -> Result<Self, TraceFileError> {
        let refuse = |source| TraceFileError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(refuse)?;
        let size = file.metadata().map_err(refuse)?.len();
        let name = path.file_name().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            file,
            size,
            offset: 0,
            packet: Vec::new(),
            bit: 0,
            end: 0,
            class: 0,
            cpu: 0,
            ticks: 0,
            last: Nanos::ZERO,
            sequence: None,
            discarded: 0,
            lost: None,
            lost_after: None,
            warnings: Vec::new(),
        })
    }

    /// Reads the next event. Returns `None` at the end of the file.
    pub(super) fn next(&mut self, metadata: &Metadata) -> Result<Option<Record>, TraceFileError> {
        loop {
            if self.bit >= self.end {
                if !self.next_packet(metadata)? {
                    return Ok(None);
                }
                continue;
            }
            if let Some(record) = self.event(metadata) {
                return Ok(Some(record));
            }
            let (name, byte) = (&self.name, self.bit / 8);
            let warning = format!("{name}: the packet cannot be read from its byte {byte} on");
            self.warnings.push(warning);
            self.bit = self.end;
            self.lost = Some(None);
        }
    }

    fn warn(&mut self, what: &str) {
        let (name, offset) = (&self.name, self.offset);
        let warning = format!("{name}: {what} at byte {offset}");
        self.warnings.push(warning);
    }

    /// Reads the next packet. Returns `false` at the end of the file.
    fn next_packet(&mut self, metadata: &Metadata) -> Result<bool, TraceFileError> {
        if let Some(count) = self.lost_after.take() {
            self.lost = Some(Some(count));
        }
        if self.offset >= self.size {
            return Ok(false);
        }
        self.file.seek(SeekFrom::Start(self.offset))?;
        self.packet.clear();
        Budget::bytes(LARGEST_HEAD).append(&self.file, &mut self.packet)?;
        let mut head = Cursor {
            bytes: &self.packet,
            bit: 0,
            end: self.packet.len() as u64 * 8,
            order: metadata.order,
        };
        let Some((class, values)) = head_of(&mut head, metadata) else {
            self.warn("the rest is missing, because no packet begins");
            self.offset = self.size;
            return Ok(true);
        };
        let begin = head.bit;
        let left = self.size - self.offset;
        let bytes = |name: &str| values.unsigned(name).map(|bits| bits / 8);
        let packet = bytes("packet_size").unwrap_or(left);
        let content = values.unsigned("content_size").unwrap_or(packet * 8);
        if packet > LARGEST_PACKET || packet * 8 < begin.max(content) || packet == 0 {
            self.warn(&format!(
                "the rest is missing, because a packet of {packet} bytes begins"
            ));
            self.offset = self.size;
            return Ok(true);
        }
        if packet > left {
            self.warn("the file ends in the packet");
        }
        self.read_rest(packet)?;
        self.offset = self.offset.saturating_add(packet);
        self.class = class;
        self.bit = begin;
        self.end = content.min(self.packet.len() as u64 * 8);
        let is_lttng = metadata.is_lttng();
        self.note_head(&values, is_lttng);
        Ok(true)
    }

    /// Reads the packet up to its end, or removes what follows it.
    fn read_rest(&mut self, size: u64) -> Result<(), TraceFileError> {
        let size = size as usize;
        if let Some(missing) = size.checked_sub(self.packet.len()) {
            Budget::bytes(missing as u64).append((&self.file).by_ref(), &mut self.packet)?;
        }
        self.packet.truncate(size);
        Ok(())
    }

    fn note_head(&mut self, values: &Values, is_lttng: bool) {
        if let Some(cpu) = values.unsigned("cpu_id").filter(|cpu| *cpu < MOST_CPUS) {
            self.cpu = cpu as u32;
        }
        if let Some(begin) = values.unsigned("timestamp_begin") {
            self.ticks = begin;
        }
        let sequence = values.unsigned("packet_seq_num");
        let is_next = match (self.sequence, sequence) {
            (Some(last), Some(this)) => this == last.wrapping_add(1),
            _ => true,
        };
        if !is_next {
            self.lost = Some(None);
        }
        self.sequence = sequence;
        let discarded = values.unsigned("events_discarded").unwrap_or(0);
        if let Some(new) = discarded.checked_sub(self.discarded).filter(|new| *new > 0) {
            // LTTng discards events while no other packet is free, so after the last event of the
            // full one. Other writers do not state the place.
            self.lost_after = Some(new);
            if !is_lttng {
                self.lost.get_or_insert(None);
            }
        }
        self.discarded = discarded;
    }

    /// Returns the loss after the last event of the file.
    pub(super) fn take_loss(&mut self) -> Option<(u32, Option<u64>, Nanos)> {
        Some((self.cpu, self.lost.take()?, self.last))
    }

    /// Reads an event. Returns `None` if it is damaged or unknown.
    fn event(&mut self, metadata: &Metadata) -> Option<Record> {
        let class = metadata.streams.get(&self.class)?;
        let mut cursor = Cursor {
            bytes: &self.packet,
            bit: self.bit,
            end: self.end,
            order: metadata.order,
        };
        let begin = cursor.bit;
        let header = part(&mut cursor, class.event_header.as_ref())?;
        let id = header.unsigned("id").unwrap_or(0);
        let event = Rc::clone(class.events.get(&id)?);
        let common = part(&mut cursor, class.event_context.as_ref())?;
        let own = part(&mut cursor, event.context.as_ref())?;
        let fields = part(&mut cursor, event.fields.as_ref())?;
        let end = cursor.bit;
        // An event without a header and fields would never end.
        self.bit = if end == begin { self.end } else { end };
        if let Some((value, size)) = header.time {
            self.ticks = advanced(self.ticks, value, size);
        }
        let frequency = metadata.clock.as_ref().map(|clock| clock.frequency);
        self.last = self
            .last
            .max(nanos(self.ticks, frequency.unwrap_or(SECOND)));
        let thread = own.unsigned("tid").or_else(|| common.unsigned("tid"));
        Some(Record {
            time: self.last,
            cpu: self.cpu,
            class: event,
            fields,
            thread: thread.and_then(|thread| thread.try_into().ok()),
            lost: self.lost.take(),
        })
    }
}

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Returns the time after `ticks` whose lowest `size` bits are `value`.
fn advanced(ticks: u64, value: u64, size: u32) -> u64 {
    if size >= 64 {
        return value;
    }
    let range = 1_u64 << size;
    let new = (ticks & !(range - 1)) | value;
    if new < ticks {
        new.wrapping_add(range)
    } else {
        new
    }
}

fn nanos(ticks: u64, frequency: u64) -> Nanos {
    let wide = u128::from(ticks) * u128::from(SECOND) / u128::from(frequency);
    Nanos(u64::try_from(wide).unwrap_or(u64::MAX))
}

fn part(cursor: &mut Cursor<'_>, of: Option<&Rc<Type>>) -> Option<Values> {
    let mut values = Values::default();
    if let Some(of) = of {
        cursor.read(&Rc::from(""), of, &mut values)?;
    }
    Some(values)
}

/// Reads the beginning of a packet. Returns the ID of its class, and the fields of its context.
fn head_of(cursor: &mut Cursor<'_>, metadata: &Metadata) -> Option<(u64, Values)> {
    let header = part(cursor, metadata.packet_header.as_ref())?;
    if let Some(Value::Number(magic)) = header.get("magic")
        && *magic != 0xc1fc_1fc1
    {
        return None;
    }
    let only = metadata.streams.keys().next().copied().unwrap_or(0);
    let id = header.unsigned("stream_id").unwrap_or(only);
    let class: &StreamClass = metadata.streams.get(&id)?;
    Some((id, part(cursor, class.packet_context.as_ref())?))
}
