//! Parses the fields of samples, and those at the end of other records.

use punctual_model::Nanos;

use super::attr::{Attr, bit};
use crate::dat::parser::Endian;

/// Values above this one are not addresses. They state the context of the addresses that follow
/// (`enum perf_callchain_context`).
const CONTEXT_MAX: u64 = -4_095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
/// Bits of `read_format` (`enum perf_event_read_format`).
const TOTALS: [u64; 2] = [1, 1 << 1];
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;
/// Maximum number of kernel addresses that are kept of a call chain (`PERF_MAX_STACK_DEPTH`).
const DEEPEST: usize = 127;

/// The fields of a sample that are used.
#[derive(Debug, Default)]
pub(super) struct Sample<'a> {
    pub(super) time: Nanos,
    pub(super) cpu: Option<u32>,
    /// Whether the ID of its thread was already free.
    pub(super) has_exited: bool,
    /// The kernel's addresses in the call chain.
    pub(super) stack: Vec<u64>,
    /// The record of the tracepoint.
    pub(super) raw: Option<&'a [u8]>,
}

/// The bytes of a record that have not been parsed yet.
struct Rest<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> Rest<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(size)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(self.endian.u32(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(self.endian.u64(self.take(8)?.try_into().ok()?))
    }

    /// Skips the values of counters. Returns `None` if they do not fit.
    fn skip_values(&mut self, format: u64) -> Option<()> {
        let has = |bit: u64| usize::from(format & bit != 0);
        let each = 1 + has(READ_ID) + has(READ_LOST);
        let totals = TOTALS.iter().map(|bit| has(*bit)).sum::<usize>();
        let words = if format & READ_GROUP == 0 {
            each + totals
        } else {
            let number = usize::try_from(self.u64()?).ok()?;
            number.checked_mul(each)?.checked_add(totals)?
        };
        self.take(words.checked_mul(8)?).map(drop)
    }

    /// Returns the kernel's addresses of a call chain.
    fn kernel_stack(&mut self) -> Option<Vec<u64>> {
        let number = usize::try_from(self.u64()?).ok()?;
        let words = self.take(number.checked_mul(8)?)?;
        let (mut stack, mut is_kernel) = (Vec::new(), false);
        for word in words.as_chunks().0 {
            match self.endian.u64(*word) {
                context @ CONTEXT_MAX.. => is_kernel = context == CONTEXT_KERNEL,
                address if is_kernel && stack.len() < DEEPEST => stack.push(address),
                _ => (),
            }
        }
        Some(stack)
    }
}

impl<'a> Sample<'a> {
    /// Parses a sample. Returns `None` if it is too short for its fields.
    pub(super) fn parse(attr: &Attr, bytes: &'a [u8], endian: Endian) -> Option<Self> {
        let mut rest = Rest { bytes, endian };
        let mut sample = Self::default();
        let has = |bit: u64| attr.sample_type & bit != 0;
        for bit in [bit::IDENTIFIER, bit::IP] {
            if has(bit) {
                rest.u64()?;
            }
        }
        if has(bit::TID) {
            rest.u32()?;
            sample.has_exited = rest.u32()? == u32::MAX;
        }
        if has(bit::TIME) {
            sample.time = Nanos(rest.u64()?);
        }
        for bit in [bit::ADDR, bit::ID, bit::STREAM_ID] {
            if has(bit) {
                rest.u64()?;
            }
        }
        if has(bit::CPU) {
            sample.cpu = Some(rest.u32()?);
            rest.u32()?;
        }
        if has(bit::PERIOD) {
            rest.u64()?;
        }
        if has(bit::READ) {
            rest.skip_values(attr.read_format)?;
        }
        if has(bit::CALLCHAIN) {
            sample.stack = rest.kernel_stack()?;
        }
        if has(bit::RAW) {
            let size = rest.u32()?;
            sample.raw = Some(rest.take(size as usize)?);
        }
        Some(sample)
    }

    /// Parses the time and the CPU at the end of a record that is not a sample.
    pub(super) fn parse_end(
        attr: &Attr,
        bytes: &[u8],
        endian: Endian,
    ) -> Option<(Nanos, Option<u32>)> {
        if !attr.has_sample_id {
            return None;
        }
        let has = |bit: u64| attr.sample_type & bit != 0;
        let fields = [
            bit::TID,
            bit::TIME,
            bit::ID,
            bit::STREAM_ID,
            bit::CPU,
            bit::IDENTIFIER,
        ];
        let size = 8 * fields.into_iter().filter(|bit| has(*bit)).count();
        let bytes = bytes.get(bytes.len().checked_sub(size)?..)?;
        let mut rest = Rest { bytes, endian };
        if has(bit::TID) {
            rest.u64()?;
        }
        let time = Nanos(if has(bit::TIME) {
            rest.u64()?
        } else {
            return None;
        });
        for bit in [bit::ID, bit::STREAM_ID] {
            if has(bit) {
                rest.u64()?;
            }
        }
        let cpu = if has(bit::CPU) {
            Some(rest.u32()?)
        } else {
            None
        };
        Some((time, cpu))
    }
}
