//! Properties that hold regardless of the bytes that a process writes into its figures. A fuzz
//! target also uses them.

#![allow(unreachable_pub)]

use punctual_app::buckets::BUCKETS;
use punctual_app::layout::{self, header};
use punctual_app::{Identity, Reader};

/// The process that wrote [`image`].
pub const WRITER: Identity = Identity {
    boot_id: [1, 2],
    start_ticks: 3,
};

/// Figures of one channel, as words.
pub fn image() -> Vec<u64> {
    let mut words = vec![0; layout::total_bytes(1) / layout::WORD];
    for (place, value) in [
        (header::MAGIC, layout::MAGIC),
        (header::ABI, layout::ABI_VERSION.into()),
        (header::TOTAL_BYTES, layout::total_bytes(1) as u64),
        (header::CHANNEL_BYTES, layout::CHANNEL_BYTES as u64),
        (header::CHANNELS, 1),
        (header::CHANNELS_USED, 1),
        (header::BUCKETS, BUCKETS as u64),
        (header::RING_ENTRIES, layout::RING_ENTRIES as u64),
        (header::BOOT_ID, 1),
        (header::BOOT_ID + 1, 2),
        (header::START_TICKS, 3),
        (header::CLOCK, 1),
    ] {
        words[place] = value;
    }
    words
}

/// Converts words to bytes.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Applies `bytes` to figures and reads them: each group of 12 is a word offset and its value, and
/// the remainder is the position where the ring is read.
pub fn figures(bytes: &[u8]) {
    let _ = Reader::new(bytes, &WRITER).is_ok();
    let mut words = image();
    let (patches, rest) = bytes.as_chunks::<12>();
    for patch in patches {
        let [a, b, c, d, value @ ..] = *patch;
        let place = u32::from_le_bytes([a, b, c, d]) as usize % words.len();
        words[place] = u64::from_le_bytes(value);
    }
    let image = bytes_of(&words);
    let Ok(reader) = Reader::new(&image[..], &WRITER) else {
        return;
    };
    assert!(!reader.name().contains(char::is_control));
    let Ok(channels) = reader.channels() else {
        return;
    };
    for (number, head) in channels.iter().enumerate() {
        assert!(!head.name.contains(char::is_control));
        let snapshot = reader.snapshot(number).expect("a channel that is there");
        assert_eq!(snapshot.buckets.len(), BUCKETS);
        let from = rest
            .iter()
            .fold(0, |from, byte| from << 8 | u64::from(*byte));
        for from in [0, from, u64::MAX] {
            let ring = reader.ring(number, from).expect("a channel that is there");
            assert!(ring.entries.len() <= layout::RING_ENTRIES && ring.next >= from);
        }
    }
    assert!(reader.snapshot(channels.len().max(1)).is_err());
}
