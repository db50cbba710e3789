//! Reads the fields of one record by their index.

use std::sync::Arc;

use punctual_model::{Comm, EventFields, Text};

use super::format::FieldPosition;
use crate::ring::Layout;

/// A record whose fields are read by their index in the table of events.
pub(crate) struct Fields<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) record: &'a [u8],
    pub(crate) positions: &'a [FieldPosition],
    pub(crate) texts: &'a mut Texts,
    /// Start address of the kernel's code, or 0 if unknown. It is needed because some addresses are
    /// stored as offsets from it.
    pub(crate) text_begin: u64,
}

impl Fields<'_> {
    #[inline]
    fn bytes(&self, number: usize) -> Option<&[u8]> {
        self.positions.get(number)?.bytes(self.layout, self.record)
    }
}

impl EventFields for Fields<'_> {
    #[inline]
    fn u64(&self, number: usize) -> Option<u64> {
        Some(self.layout.unsigned(self.bytes(number)?))
    }

    #[inline]
    fn i64(&self, number: usize) -> Option<i64> {
        let bytes = self.bytes(number)?;
        let unused = 64 - 8 * bytes.len().min(8) as u32;
        let wide = self.layout.unsigned(bytes);
        Some(wide.checked_shl(unused)? as i64 >> unused)
    }

    #[inline]
    fn comm(&self, number: usize) -> Option<Comm> {
        let bytes = self.bytes(number)?;
        Some(match bytes.first_chunk::<16>() {
            Some(comm) if bytes.len() == 16 => Comm(*comm),
            _ => Comm::new(bytes),
        })
    }

    fn text(&mut self, number: usize) -> Option<Text> {
        let bytes = self
            .positions
            .get(number)?
            .bytes(self.layout, self.record)?;
        Some(self.texts.shared(bytes))
    }

    fn word(&self, number: usize, index: usize) -> Option<u64> {
        let size = usize::from(self.layout.long_bytes);
        let begin = index.checked_mul(size)?;
        let word = self.bytes(number)?.get(begin..begin.checked_add(size)?)?;
        Some(self.layout.unsigned(word))
    }

    fn words(&self, number: usize, count: usize) -> Option<Vec<u64>> {
        let rest = self.positions.get(number)?.rest(self.record)?;
        let words = rest.chunks_exact(usize::from(self.layout.long_bytes).max(1));
        let words = words.map(|word| self.layout.unsigned(word));
        Some(words.take(count).collect())
    }

    fn in_text(&self, number: usize) -> Option<u64> {
        Some(self.text_begin.wrapping_add(self.u64(number)?))
    }

    fn cpus(&self, number: usize) -> Option<Vec<u32>> {
        let words = (self.bytes(number)?).chunks_exact(usize::from(self.layout.long_bytes).max(1));
        let bits = 8 * u32::from(self.layout.long_bytes);
        let cpus = words.zip(0_u32..).flat_map(|(word, index)| {
            let word = self.layout.unsigned(word);
            let set = move |bit: &u32| word >> bit & 1 == 1;
            (0..bits.min(64))
                .filter(set)
                .map(move |bit| index * bits + bit)
        });
        Some(cpus.collect())
    }
}

/// The names seen so far, kept so that equal names share memory. Most machines have about ten
/// interrupts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts(Vec<Arc<str>>);

impl Texts {
    /// Maximum number of names. With more, they cannot all be names of interrupts.
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
