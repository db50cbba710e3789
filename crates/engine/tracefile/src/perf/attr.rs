//! The attributes of a recorded event, which determine the layout of its samples.

use std::collections::HashMap;

use crate::TraceFileError;
use crate::dat::parser::Parser;

/// Bits of `sample_type` (`enum perf_event_sample_format`), in the order of the fields in a sample.
pub(super) mod bit {
    pub(in crate::perf) const IP: u64 = 1;
    pub(in crate::perf) const TID: u64 = 1 << 1;
    pub(in crate::perf) const TIME: u64 = 1 << 2;
    pub(in crate::perf) const ADDR: u64 = 1 << 3;
    pub(in crate::perf) const READ: u64 = 1 << 4;
    pub(in crate::perf) const CALLCHAIN: u64 = 1 << 5;
    pub(in crate::perf) const ID: u64 = 1 << 6;
    pub(in crate::perf) const CPU: u64 = 1 << 7;
    pub(in crate::perf) const PERIOD: u64 = 1 << 8;
    pub(in crate::perf) const STREAM_ID: u64 = 1 << 9;
    pub(in crate::perf) const RAW: u64 = 1 << 10;
    pub(in crate::perf) const IDENTIFIER: u64 = 1 << 16;
}

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// Size of `struct perf_event_attr` in its first version, in bytes.
const SMALLEST: u32 = 64;
/// Maximum number of different attributes. The events of one recording have two or three.
const MOST_LAYOUTS: usize = 256;
/// Positions of flags in `struct perf_event_attr`.
const SAMPLE_ID_ALL: u32 = 18;
const USE_CLOCKID: u32 = 25;

/// The attributes of an event (`struct perf_event_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attr {
    pub(super) is_tracepoint: bool,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    /// Whether records other than samples also end with the time, the CPU and so on.
    pub(super) has_sample_id: bool,
    /// The clock, as a number of clock_gettime(2). `None` for perf's own clock.
    pub(super) clock: Option<i32>,
}

impl Attr {
    /// Reads the attributes, which may be longer or shorter than those of this version.
    /// `size`: the number of bytes in the file, if the attributes themselves state 0.
    pub(super) fn read(parser: &mut Parser<'_>, size: u64) -> Result<Self, TraceFileError> {
        let kind = parser.u32()?;
        let stated = match parser.u32()? {
            0 => SMALLEST,
            stated => stated,
        };
        if stated < SMALLEST || u64::from(stated) > size {
            return Err(parser.damaged(format!(
                "the attributes of an event have {stated} bytes instead of {SMALLEST} to {size}"
            )));
        }
        let (_config, _period) = (parser.u64()?, parser.u64()?);
        let (sample_type, read_format) = (parser.u64()?, parser.u64()?);
        let flags = parser.u64()?;
        // The first bit field is in the highest bits on big-endian machines.
        let flags = if parser.endian().is_big {
            flags.reverse_bits()
        } else {
            flags
        };
        let has = |flag: u32| flags >> flag & 1 == 1;
        // `clockid` is at byte 92.
        let rest = parser.bytes(size - 48)?;
        let clock = rest.get(44..48).and_then(|bytes| bytes.try_into().ok());
        let clock = clock.filter(|_| has(USE_CLOCKID) && stated >= 96);
        Ok(Self {
            is_tracepoint: kind == TRACEPOINT,
            sample_type,
            read_format,
            has_sample_id: has(SAMPLE_ID_ALL),
            clock: clock.map(|bytes| parser.endian().u32(bytes) as i32),
        })
    }

    const fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }
}

/// The recorded events, and the event of each ID.
#[derive(Debug, Default)]
pub(super) struct Attrs {
    all: Vec<Attr>,
    by_id: HashMap<u64, usize>,
}

impl Attrs {
    /// Adds an event with its IDs. Equal attributes are stored once. Returns `false` if there are
    /// too many different ones.
    pub(super) fn add(&mut self, attr: Attr, ids: impl Iterator<Item = u64>) -> bool {
        let known = self.all.iter().position(|known| *known == attr);
        let index = known.unwrap_or(self.all.len());
        if index == self.all.len() {
            self.all.push(attr);
        }
        self.by_id.extend(ids.map(|id| (id, index)));
        self.all.len() <= MOST_LAYOUTS
    }

    pub(super) fn first(&self) -> Option<&Attr> {
        self.all.first()
    }

    pub(super) fn all(&self) -> &[Attr] {
        &self.all
    }

    /// Returns the event of a sample.
    pub(super) fn of_sample(
        &self,
        sample: &[u8],
        number: impl Fn([u8; 8]) -> u64,
    ) -> Option<&Attr> {
        let first = self.first()?;
        if self.all.len() == 1 {
            return Some(first);
        }
        let place = if first.has(bit::IDENTIFIER) {
            0
        } else if first.has(bit::ID) {
            let before = [bit::IP, bit::TID, bit::TIME, bit::ADDR];
            before.iter().filter(|bit| first.has(**bit)).count()
        } else {
            return Some(first);
        };
        let bytes = sample.get(place * 8..place * 8 + 8)?.try_into().ok()?;
        let index = self.by_id.get(&number(bytes))?;
        self.all.get(*index)
    }
}
