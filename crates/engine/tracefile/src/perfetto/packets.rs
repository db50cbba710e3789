//! The first pass: finds the bundles of events, and reads everything else that is used.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, SeekFrom, Write};

use flate2::read::ZlibDecoder;
use punctual_files::Budget;
use punctual_model::{Comm, Nanos};
use tempfile::SpooledTempFile;

use super::compact::TIMES;
use super::wire::{Message, Value, varint};
use crate::TraceFileError;
use crate::input::ReadSeek;

/// Maximum size of a packet, in bytes. Perfetto's packets have at most a few MB.
const LARGEST_PACKET: u64 = 64 << 20;
/// Maximum size of the packets that are compressed into one, in bytes. Perfetto compresses 512 KiB.
const LARGEST_UNPACKED: u64 = 64 << 20;
/// Maximum size of the bundles in memory, in bytes. More of them are in a file.
const IN_MEMORY: usize = 8 << 20;
/// Maximum number of CPUs. Kernels support fewer (`NR_CPUS_RANGE_END`).
const MOST_CPUS: u64 = 65_536;
/// Maximum number of names of functions and threads.
const MOST_NAMES: usize = 1 << 18;

/// Numbers of fields in `TracePacket`.
mod packet {
    pub(super) const FTRACE_EVENTS: u64 = 1;
    pub(super) const PROCESS_TREE: u64 = 2;
    pub(super) const INTERNED: u64 = 12;
    pub(super) const DROPPED: u64 = 42;
    pub(super) const SYSTEM_INFO: u64 = 45;
    pub(super) const COMPRESSED: u64 = 50;
}

/// Numbers of fields in `FtraceEventBundle`.
pub(super) mod bundle {
    pub(in crate::perfetto) const CPU: u64 = 1;
    pub(in crate::perfetto) const EVENT: u64 = 2;
    pub(in crate::perfetto) const LOST: u64 = 3;
    pub(in crate::perfetto) const COMPACT: u64 = 4;
    pub(in crate::perfetto) const CLOCK: u64 = 5;
    /// The time in an event.
    pub(in crate::perfetto) const TIME: u64 = 1;
}

/// A bundle of events of one CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) first: Nanos,
    /// Offset in the copy, and size in bytes.
    pub(super) offset: u64,
    pub(super) size: u32,
    /// Whether events before the bundle are missing.
    pub(super) is_after_loss: bool,
}

/// The result of the first pass.
pub(super) struct Contents {
    pub(super) bundles: SpooledTempFile,
    pub(super) places: BTreeMap<u32, Vec<Place>>,
    /// Number of the clock (`FtraceClock`).
    pub(super) clock: u64,
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) symbols: BTreeMap<u64, String>,
    pub(super) threads: BTreeMap<u32, Comm>,
    pub(super) warnings: Vec<String>,
    written: u64,
    /// CPUs with a loss before their next bundle, because packets were lost.
    dropped: BTreeSet<u32>,
    other_clock: u64,
    bad_packed: Option<String>,
}

/// Reads the whole file once.
///
/// # Errors
/// Returns an error if the file has no events of ftrace.
pub(super) fn read(
    source: &mut dyn ReadSeek,
    warning: Option<String>,
) -> Result<Contents, TraceFileError> {
    source.seek(SeekFrom::Start(0))?;
    let mut input = BufReader::with_capacity(256 << 10, source);
    let mut contents = Contents {
        bundles: SpooledTempFile::new(IN_MEMORY),
        places: BTreeMap::new(),
        clock: 0,
        kernel: None,
        machine: None,
        symbols: BTreeMap::new(),
        threads: BTreeMap::new(),
        warnings: warning.into_iter().collect(),
        written: 0,
        dropped: BTreeSet::new(),
        other_clock: 0,
        bad_packed: None,
    };
    let (mut bytes, mut offset) = (Vec::new(), 0);
    loop {
        match next_packet(&mut input, &mut bytes, offset) {
            Ok(None) => break,
            Ok(Some(end)) => {
                contents.packet(&bytes, offset, false)?;
                offset = end;
            }
            Err(error @ TraceFileError::Damaged { .. }) if !contents.places.is_empty() => {
                contents
                    .warnings
                    .push(format!("the rest is missing: {error}"));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    contents.finish()
}

/// Copies all complete packets, without decoding them.
pub(super) fn copy(source: &mut dyn ReadSeek, out: &mut dyn Write) -> Result<(), TraceFileError> {
    source.seek(SeekFrom::Start(0))?;
    let mut input = BufReader::with_capacity(256 << 10, source);
    let (mut bytes, mut offset) = (Vec::new(), 0);
    loop {
        let end = match next_packet(&mut input, &mut bytes, offset) {
            Ok(Some(end)) => end,
            Ok(None) | Err(TraceFileError::Damaged { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut size = bytes.len();
        let mut head = vec![0x0a];
        while size > 0x7f {
            head.push(size as u8 | 0x80);
            size >>= 7;
        }
        head.push(size as u8);
        out.write_all(&head)?;
        out.write_all(&bytes)?;
        offset = end;
    }
}

/// Reads the next packet into `bytes`. Returns the offset of its end, or `None` at the end of the
/// file.
fn next_packet(
    input: &mut impl BufRead,
    bytes: &mut Vec<u8>,
    offset: u64,
) -> Result<Option<u64>, TraceFileError> {
    let damaged = |what: String| TraceFileError::Damaged { offset, what };
    let mut head = Vec::new();
    // The key and the size of the packet.
    while head.len() < 11 {
        let mut byte = [0];
        if input.read(&mut byte)? == 0 {
            if head.is_empty() {
                return Ok(None);
            }
            return Err(damaged("the file ends inside this packet".to_owned()));
        }
        head.extend(byte);
        if head.len() > 1 && byte[0] & 0x80 == 0 {
            break;
        }
    }
    let size = head.get(1..).and_then(|mut size| varint(&mut size));
    let size = size.filter(|size| head.first() == Some(&0x0a) && *size <= LARGEST_PACKET);
    let Some(size) = size else {
        return Err(damaged("a packet does not begin here".to_owned()));
    };
    bytes.clear();
    Budget::bytes(size).append(input, bytes)?;
    if (bytes.len() as u64) < size {
        let there = bytes.len();
        return Err(damaged(format!(
            "the packet has {size} bytes, but only {there} bytes follow"
        )));
    }
    Ok(Some(offset + head.len() as u64 + size))
}

impl Contents {
    /// Reads a packet at this offset in the file. `is_inner`: it was compressed.
    fn packet(&mut self, bytes: &[u8], offset: u64, is_inner: bool) -> Result<(), TraceFileError> {
        let message = Message(bytes);
        if message.number(packet::DROPPED) != 0 && message.get(packet::FTRACE_EVENTS).is_some() {
            self.dropped.extend(self.places.keys());
        }
        for (number, value) in message {
            match number {
                packet::FTRACE_EVENTS => self.bundle(value.bytes())?,
                packet::PROCESS_TREE => self.threads(value.bytes()),
                packet::INTERNED => self.symbols(value.bytes()),
                packet::SYSTEM_INFO => {
                    let names = Message(value.bytes()).get(1).map(Value::bytes);
                    let name = |number| {
                        let name = names.and_then(|names| Message(names).get(number))?;
                        let name = String::from_utf8_lossy(name.bytes()).into_owned();
                        // punctual writes this if it does not know the name.
                        (!name.is_empty() && !name.ends_with("not recorded")).then_some(name)
                    };
                    self.kernel = name(3).or(self.kernel.take());
                    self.machine = name(4).or(self.machine.take());
                }
                packet::COMPRESSED if !is_inner => self.packed(value.bytes(), offset)?,
                _ => (),
            }
        }
        Ok(())
    }

    /// Reads packets that are compressed into one.
    fn packed(&mut self, packed: &[u8], offset: u64) -> Result<(), TraceFileError> {
        let mut unpacked = Vec::new();
        let budget = Budget::bytes(LARGEST_UNPACKED);
        let read = budget.append(ZlibDecoder::new(packed), &mut unpacked);
        if let Err(error) = read {
            let place = format!("cannot decompress a packet at byte {offset}: {error}");
            self.bad_packed.get_or_insert(place);
            self.dropped.extend(self.places.keys());
        }
        for (number, value) in Message(&unpacked) {
            if number == 1 {
                self.packet(value.bytes(), offset, true)?;
            }
        }
        Ok(())
    }

    /// Copies a bundle, and notes its place.
    fn bundle(&mut self, bytes: &[u8]) -> Result<(), TraceFileError> {
        let message = Message(bytes);
        let (cpu, clock) = (message.number(bundle::CPU), message.number(bundle::CLOCK));
        let Some(first) = first_time(message).filter(|_| cpu < MOST_CPUS) else {
            return Ok(());
        };
        if self.places.is_empty() {
            self.clock = clock;
        } else if self.clock != clock {
            self.other_clock += 1;
            return Ok(());
        }
        let cpu = cpu as u32;
        let lost = message.number(bundle::LOST) != 0;
        self.bundles
            .write_all(bytes)
            .map_err(TraceFileError::Spool)?;
        self.places.entry(cpu).or_default().push(Place {
            first,
            offset: self.written,
            size: bytes.len() as u32,
            is_after_loss: self.dropped.remove(&cpu) || lost,
        });
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn threads(&mut self, tree: &[u8]) {
        for (_, thread) in Message(tree).filter(|(of, _)| *of == 2) {
            let thread = Message(thread.bytes());
            if let Some(name) = thread.get(2)
                && self.threads.len() < MOST_NAMES
            {
                let name = Comm::new(name.bytes());
                self.threads.insert(thread.number(1) as u32, name);
            }
        }
    }

    /// Reads the names of functions, which events refer to by a number.
    fn symbols(&mut self, interned: &[u8]) {
        for (_, symbol) in Message(interned).filter(|(of, _)| *of == 26) {
            let symbol = Message(symbol.bytes());
            let name = symbol
                .get(2)
                .map(|name| String::from_utf8_lossy(name.bytes()));
            if let Some(name) = name
                && self.symbols.len() < MOST_NAMES
            {
                self.symbols.insert(symbol.number(1), name.into_owned());
            }
        }
    }

    fn finish(mut self) -> Result<Self, TraceFileError> {
        if self.places.is_empty() {
            return Err(TraceFileError::NothingUsed {
                format: "Perfetto trace, which has no events of ftrace,".to_owned(),
                remedy: ". Record the data source linux.ftrace with the ftrace_events \
                         sched/sched_switch and sched/sched_waking",
            });
        }
        for places in self.places.values_mut() {
            places.sort_by_key(|place| place.first);
        }
        if self.other_clock > 0 {
            let number = self.other_clock;
            let warning = format!("skipped bundles with another clock than the first: {number}");
            self.warnings.push(warning);
        }
        self.warnings.extend(self.bad_packed.take());
        Ok(self)
    }
}

/// Returns the time of the first event in a bundle.
fn first_time(message: Message<'_>) -> Option<Nanos> {
    let event = message.get_first(bundle::EVENT);
    let event = event.map(|event| Message(event.bytes()).number(bundle::TIME));
    let compact = message.get(bundle::COMPACT).map(|of| Message(of.bytes()));
    let compact = compact.into_iter().flat_map(|compact| {
        let firsts = TIMES
            .iter()
            .filter_map(move |column| compact.get_first(*column));
        firsts.filter_map(|value| match value {
            Value::Number(time) => Some(time),
            Value::Bytes(mut packed) => varint(&mut packed),
        })
    });
    event.into_iter().chain(compact).min().map(Nanos)
}
