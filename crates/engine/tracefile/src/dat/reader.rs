//! Merges the items of all CPUs in a `trace.dat` and sorts them by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_model::Nanos;

use super::clock::{self, Clock};
use super::file::DatFile;
use super::limits::MOST_CPUS;
use super::options::{Buffer, Region};
use super::pages::Pages;
use super::record_decoder::RecordDecoder;
use super::stream::{Shared, Stream};
use super::warnings::Warnings;
use crate::input::ReadSeek;
use crate::{Item, TraceFileError, TraceHead, TraceReader};

/// Total memory for the pages of all CPUs, in bytes.
const HELD: usize = 32 << 20;
/// Maximum memory for the pages of one CPU, in bytes.
const HELD_OF_CPU: usize = 256 << 10;

/// Maximum total memory for decompressed chunks of all CPUs, in bytes.
const HELD_CHUNKS: usize = 256 << 20;
/// Maximum number of warnings.
const MOST_WARNINGS: usize = 200;

/// A reader of a `trace.dat`.
pub(super) struct DatReader {
    shared: Shared,
    streams: Vec<Stream>,
    /// For each stream except the current one, the time of its next item and its index.
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// The stream that the next items come from, up to the time `limit`.
    current: Option<usize>,
    limit: Nanos,
    is_at_end: bool,
}

impl DatReader {
    /// Prepares for reading the pages of a file.
    pub(super) fn new(
        source: Box<dyn ReadSeek>,
        mut file: DatFile,
        mut warnings: Vec<String>,
    ) -> Result<Self, TraceFileError> {
        warnings.append(&mut file.warnings);
        warnings.append(&mut file.options.warnings);
        let layout = file.meta.layout.ok_or_else(|| TraceFileError::Damaged {
            offset: 0,
            what: "no layout of pages".to_owned(),
        })?;
        let mut buffers = std::mem::take(&mut file.options.buffers);
        if file.version >= 7 {
            state_own_clock(&mut buffers, file.options.clock.as_deref());
        }
        let clock = clock_of(&buffers).or(file.options.clock.take());
        let mut head = TraceHead {
            format: format(&file),
            resolution: clock::resolution(clock.as_deref()),
            kernel: file.options.kernel.take(),
            machine: file.options.machine.take(),
            cpus: cpus(&file, &buffers),
            session: file.options.session(),
            warnings,
            ..TraceHead::default()
        };
        head.warnings.extend(overwritten(&file.options.stats));
        if let Some(clock) = &clock {
            head.clocks_differ = clock::differs(clock, file.options.tsc.is_some())?;
        }
        if file.text.is_some() {
            let warning = "the file also contains the text of a latency tracer, which was not read";
            head.warnings.push(warning.to_owned());
        }
        let streams = streams(&file, layout, &buffers, clock.as_deref(), &mut head);
        head.clock = clock;
        let mut reader = Self {
            shared: Shared {
                source,
                records: RecordDecoder::new(layout, file.meta, &mut head),
                clock: Clock {
                    tsc: file.options.tsc,
                    shift: file.options.shift,
                    offset_ns: file.options.offset_ns,
                },
                warnings: Warnings::default(),
                head,
                held: 0,
            },
            streams,
            order: BinaryHeap::new(),
            current: None,
            limit: Nanos(u64::MAX),
            is_at_end: false,
        };
        for (index, stream) in reader.streams.iter_mut().enumerate() {
            if let Some(time) = stream.next_time(&mut reader.shared)? {
                reader.order.push(Reverse((time, index)));
            }
        }
        Ok(reader)
    }

    fn end(&mut self) {
        if !self.is_at_end {
            self.is_at_end = true;
            let warnings = self.shared.warnings.take();
            self.shared.head.warnings.extend(warnings);
            self.shared.head.warnings.truncate(MOST_WARNINGS);
        }
    }
}

impl TraceReader for DatReader {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        loop {
            let Some(index) = self.current else {
                let Some(Reverse((_, index))) = self.order.pop() else {
                    self.end();
                    return Ok(None);
                };
                self.current = Some(index);
                let next = self.order.peek();
                self.limit = next.map_or(Nanos(u64::MAX), |Reverse((time, _))| *time);
                continue;
            };
            let Some(stream) = self.streams.get_mut(index) else {
                self.current = None;
                continue;
            };
            match stream.next_time(&mut self.shared)? {
                Some(time) if time <= self.limit => return Ok(stream.take()),
                Some(time) => self.order.push(Reverse((time, index))),
                None => (),
            }
            self.current = None;
        }
    }

    fn head(&self) -> &TraceHead {
        &self.shared.head
    }
}

fn format(file: &DatFile) -> String {
    let packing = file.packing.name();
    let packing = packing.map_or_else(String::new, |name| format!(", {name}"));
    format!("trace.dat version {}{packing}", file.version)
}

/// Corrects the clock of an instance that alone contains data. trace-cmd 3.1 states the clock of the
/// top-level buffer for each instance, but its option TRACECLOCK is read from an instance.
fn state_own_clock(buffers: &mut [Buffer], option: Option<&str>) {
    let is_used = |buffer: &Buffer| !buffer.name.is_empty() || has_data(buffer);
    let mut used = buffers.iter_mut().filter(|buffer| is_used(buffer));
    if let (Some(instance), None, Some(clock)) = (used.next(), used.next(), option)
        && !instance.name.is_empty()
        && instance.clock.is_some()
    {
        instance.clock = Some(clock.to_owned());
    }
}

/// Returns the clock of the first buffer that contains data.
fn clock_of(buffers: &[Buffer]) -> Option<String> {
    let mut with_data = buffers.iter().filter(|buffer| has_data(buffer));
    with_data.next()?.clock.clone()
}

pub(super) fn has_data(buffer: &Buffer) -> bool {
    buffer.regions.iter().any(|region| region.size > 0)
}

fn cpus(file: &DatFile, buffers: &[Buffer]) -> Option<u32> {
    let regions = buffers.iter().flat_map(|buffer| &buffer.regions);
    let cpus = regions.map(|region| region.cpu.saturating_add(1));
    let used = cpus.filter(|cpus| *cpus <= MOST_CPUS).max();
    file.options.cpus.or(used)
}

/// Returns a warning if the kernel overwrote or dropped events.
fn overwritten(stats: &[String]) -> Option<String> {
    let total = |key: &str| -> u64 {
        let lines = stats.iter().flat_map(|stats| stats.lines());
        let values = lines.filter_map(|line| line.trim().strip_prefix(key)?.trim().parse().ok());
        values.fold(0, u64::saturating_add)
    };
    let overwritten = total("overrun:").saturating_add(total("commit overrun:"));
    let dropped = total("dropped events:");
    let says = |number, what| match number {
        0 => None,
        1 => Some(format!("1 event was {what}")),
        number => Some(format!("{number} events were {what}")),
    };
    let parts = [says(overwritten, "overwritten"), says(dropped, "dropped")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty())
        .then(|| format!("the kernel's buffers were too small: {}", parts.join(", ")))
}

/// Creates a stream for each CPU of the buffers whose clock is `clock`. Other buffers are skipped
/// with a warning.
fn streams(
    file: &DatFile,
    layout: punctual_trace::Layout,
    buffers: &[Buffer],
    clock: Option<&str>,
    head: &mut TraceHead,
) -> Vec<Stream> {
    let used = || {
        let buffers = buffers.iter().enumerate();
        buffers.filter(|(_, buffer)| has_data(buffer))
    };
    let count: usize = used().map(|(_, buffer)| buffer.regions.len()).sum();
    let most = (HELD / count.max(1)).min(HELD_OF_CPU);
    let mut streams = Vec::new();
    let mut left = file.size;
    for (index, buffer) in used() {
        if let (Some(own), Some(clock)) = (buffer.clock.as_deref(), clock)
            && own != clock
        {
            let name = &buffer.name;
            head.warnings.push(format!(
                "skipped the buffer {name:?}: its clock is {own}, not {clock}"
            ));
            continue;
        }
        let layout = layout.with_page_bytes(buffer.page_bytes);
        for region in kept(buffer, file.size, &mut left, head) {
            let pages = Pages::new(region, layout.page_bytes, most);
            let pages = if buffer.is_packed {
                pages.packed(file.packing, file.endian, HELD_CHUNKS / count.max(1))
            } else {
                pages
            };
            streams.push(Stream::new(region.cpu, index, layout, pages));
        }
    }
    streams
}

/// Returns the parts of a buffer that can be read. `left` is the number of bytes in the file that
/// have not been assigned to a CPU yet.
fn kept(buffer: &Buffer, size: u64, left: &mut u64, head: &mut TraceHead) -> Vec<Region> {
    let (mut cut, mut refused) = (None, None);
    let mut kept = Vec::new();
    for region in buffer.regions.iter().filter(|region| region.size > 0) {
        let end = region.offset.saturating_add(region.size);
        if end > size {
            cut = cut.max(Some(end));
        }
        let region = Region {
            size: end.min(size).saturating_sub(region.offset),
            ..*region
        };
        if region.cpu >= MOST_CPUS || region.size > *left {
            refused.get_or_insert(region);
            continue;
        }
        *left -= region.size;
        kept.push(region);
    }
    if let Some(end) = cut {
        head.warnings.push(format!(
            "the file is truncated: it has {size} bytes, but the data of a CPU ends at byte {end}"
        ));
    }
    if let Some(Region { cpu, offset, size }) = refused {
        head.warnings.push(format!(
            "skipped invalid data of CPU {cpu}: {size} bytes at offset {offset}"
        ));
    }
    kept
}
