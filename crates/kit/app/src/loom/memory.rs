//! Memory of one process in place of the sealed memory, because loom must see each access.

use std::sync::Mutex;

use crate::atomic::AtomicU64;
use crate::{Error, layout};

#[derive(Debug)]
pub(crate) struct Memory {
    words: Vec<AtomicU64>,
    pub(crate) channels: usize,
    pub(crate) used: Mutex<usize>,
}

impl Memory {
    pub(crate) fn new(channels: usize) -> Result<Self, Error> {
        let words = layout::total_bytes(channels) / layout::WORD;
        Ok(Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            channels,
            used: Mutex::new(0),
        })
    }

    pub(crate) fn word(&self, place: usize) -> &AtomicU64 {
        &self.words[place]
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }
}
