//! The fields of one record, read by their index in a list.

use std::sync::Arc;

use punctual_model::{Comm, KernelPriority, Nanos, Task, Text};

use super::format::Place;
use crate::ring::Layout;

/// A record whose fields are read by number, in the order of the event's row of the
/// table.
pub(crate) struct Fields<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) record: &'a [u8],
    pub(crate) places: &'a [Place],
    pub(crate) texts: &'a mut Texts,
    /// Start of the kernel's code: some addresses are written as offsets
    /// from it. 0 if unknown.
    pub(crate) text_begin: u64,
}

impl Fields<'_> {
    #[inline]
    pub(crate) fn bytes(&self, number: usize) -> Option<&[u8]> {
        self.places.get(number)?.bytes(self.layout, self.record)
    }

    #[inline]
    pub(crate) fn u64(&self, number: usize) -> Option<u64> {
        Some(self.layout.unsigned(self.bytes(number)?))
    }

    /// The low half, for numbers of 32 bits.
    #[inline]
    pub(crate) fn u32(&self, number: usize) -> Option<u32> {
        Some(self.u64(number)? as u32)
    }

    /// Signed, of any size.
    #[inline]
    pub(crate) fn i64(&self, number: usize) -> Option<i64> {
        let bytes = self.bytes(number)?;
        let unused = 64 - 8 * bytes.len().min(8) as u32;
        let wide = self.layout.unsigned(bytes);
        Some(wide.checked_shl(unused)? as i64 >> unused)
    }

    #[inline]
    pub(crate) fn i32(&self, number: usize) -> Option<i32> {
        Some(self.i64(number)? as i32)
    }

    /// A duration; `None` if negative.
    pub(crate) fn nanos(&self, number: usize) -> Option<Nanos> {
        Some(Nanos(u64::try_from(self.i64(number)?).unwrap_or(0)))
    }

    #[inline]
    pub(crate) fn comm(&self, number: usize) -> Option<Comm> {
        let bytes = self.bytes(number)?;
        Some(match bytes.first_chunk::<16>() {
            Some(comm) if bytes.len() == 16 => Comm(*comm),
            _ => Comm::new(bytes),
        })
    }

    #[inline]
    pub(crate) fn priority(&self, number: usize) -> Option<KernelPriority> {
        Some(KernelPriority(self.i32(number)? as i16))
    }

    /// A thread whose name, number and priority are three fields in a row.
    #[inline]
    pub(crate) fn task(&self, first: usize) -> Option<Task> {
        Some(Task {
            comm: self.comm(first)?,
            pid: self.u32(first + 1)?,
            prio: self.priority(first + 2)?,
        })
    }

    /// A name shared by many events.
    pub(crate) fn text(&mut self, number: usize) -> Option<Text> {
        let bytes = self.places.get(number)?.bytes(self.layout, self.record)?;
        Some(self.texts.shared(bytes))
    }

    /// An address written as an offset from the start of the kernel's
    /// code.
    pub(crate) fn in_text(&self, number: usize) -> Option<u64> {
        Some(self.text_begin.wrapping_add(self.u64(number)?))
    }
}

/// Names seen before: some ten interrupts on most machines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts(Vec<Arc<str>>);

impl Texts {
    /// Limit of remembered names: more are not names of interrupts.
    const MOST: usize = 1_024;

    fn shared(&mut self, bytes: &[u8]) -> Text {
        let until = bytes.iter().position(|byte| *byte == 0);
        let bytes = &bytes[..until.unwrap_or(bytes.len())];
        if let Some(known) = self.0.iter().find(|text| text.as_bytes() == bytes) {
            return Text(Arc::clone(known));
        }
        let text: Arc<str> = String::from_utf8_lossy(bytes).into();
        if self.0.len() < Self::MOST {
            self.0.push(Arc::clone(&text));
        }
        Text(text)
    }
}
