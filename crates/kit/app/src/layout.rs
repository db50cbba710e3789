//! The memory layout. All numbers have 64 bits in native byte order, and offsets are in words of
//! eight bytes. This page is all that is needed to write a reader in another language.

/// Version of the layout. Readers reject a later one.
pub const ABI_VERSION: u32 = 1;

/// The first word: `PUNCTAPP` as bytes.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"PUNCTAPP");

/// Name of the memory file, as `/proc/PID/fd` shows it after `/memfd:`.
pub const MEMFD_NAME: &str = "punctual-app";

/// Bytes per word.
pub const WORD: usize = 8;
/// Number of bytes of a name. Shorter names are padded with zero bytes.
pub const NAME_BYTES: usize = 32;
/// Words of the header.
pub const HEADER_WORDS: usize = 512;
/// Maximum number of channels of an application.
pub const MAX_CHANNELS: usize = 64;
/// Entries in the ring of top samples of a channel.
pub const RING_ENTRIES: usize = if cfg!(all(test, loom)) { 2 } else { 64 };
/// Words of a ring entry: sequence, time, latency, and a zero.
pub const RING_ENTRY_WORDS: usize = 4;

/// Offsets of the words of the header.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::ABI_VERSION`].
    pub const ABI: usize = 1;
    /// Size of the whole file in bytes.
    pub const TOTAL_BYTES: usize = 2;
    /// Size of a channel in bytes.
    pub const CHANNEL_BYTES: usize = 3;
    /// Number of allocated channels.
    pub const CHANNELS: usize = 4;
    /// Number of channels in use; these come first.
    pub const CHANNELS_USED: usize = 5;
    /// Buckets of a histogram ([`crate::buckets::BUCKETS`]).
    pub const BUCKETS: usize = 6;
    /// Entries of a ring ([`super::RING_ENTRIES`]).
    pub const RING_ENTRIES: usize = 7;
    /// Two words: the boot ID (random/boot_id in proc(5)).
    pub const BOOT_ID: usize = 8;
    /// Start time of the process, in clock ticks after boot (proc_pid_stat(5)).
    pub const START_TICKS: usize = 10;
    /// Process ID, as seen in the PID namespace of the process.
    pub const PID: usize = 11;
    /// Clock of all times: 1 is CLOCK_MONOTONIC.
    pub const CLOCK: usize = 12;
    /// Four words: name of the application.
    pub const NAME: usize = 16;
}

/// Offsets of the words of a channel. Those from [`RUN`](channel::RUN) to [`RING_HEAD`](channel::RING_HEAD)
/// are counters.
pub mod channel {
    /// Meaning of the channel's samples, which is the number of a [`Kind`](crate::Kind).
    pub const KIND: usize = 0;
    /// ID of the thread that records.
    pub const TID: usize = 1;
    /// Period in ns; 0 if there is none.
    pub const PERIOD_NS: usize = 2;
    /// Samples above this value in ns are outliers; 0 if there is no such limit.
    pub const BUDGET_NS: usize = 3;
    /// Four words: name of the channel.
    pub const NAME: usize = 4;
    /// Number of recorded samples. For each sample, this word is written last.
    pub const RUN: usize = 16;
    /// Sum of the samples that were not early.
    pub const SUM_NS: usize = 17;
    /// The largest sample.
    pub const MAX_NS: usize = 18;
    /// The smallest sample that was not early. All bits are set before the first sample.
    pub const MIN_NS: usize = 19;
    /// Number of negative samples.
    pub const EARLY: usize = 20;
    /// Number of samples above the highest bucket.
    pub const OVERFLOW: usize = 21;
    /// Number of periods that came due; 0 if the channel has no periods.
    pub const DUE: usize = 22;
    /// Number of due periods in which no job ran.
    pub const MISSED: usize = 23;
    /// Number of jobs that began when the next period was already due.
    pub const LATE: usize = 24;
    /// Number of samples above the budget.
    pub const OVER_BUDGET: usize = 25;
    /// Total number of samples written to the ring.
    pub const RING_HEAD: usize = 26;
    /// The ring.
    pub const RING: usize = 32;
    /// The buckets.
    pub const BUCKETS: usize = RING + super::RING_ENTRIES * super::RING_ENTRY_WORDS;
    /// Number of words in use.
    pub const WORDS: usize = BUCKETS + crate::buckets::BUCKETS;
}

/// Bytes of a channel: whole pages of 4 KiB.
pub const CHANNEL_BYTES: usize = (channel::WORDS * WORD).next_multiple_of(4096);

/// Returns the size in bytes of a file with `channels` channels.
pub const fn total_bytes(channels: usize) -> usize {
    HEADER_WORDS * WORD + channels * CHANNEL_BYTES
}

/// Encodes a name as words, truncated to [`NAME_BYTES`] at a character boundary.
pub(crate) fn name_words(name: &str) -> [u64; NAME_BYTES / WORD] {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = [0; NAME_BYTES];
    bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
    let mut words = [0; NAME_BYTES / WORD];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<WORD>().0) {
        *word = u64::from_ne_bytes(*chunk);
    }
    words
}

/// Decodes a name. Another process wrote it, so control characters and invalid UTF-8 become U+FFFD.
pub(crate) fn name_of(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_cut_between_characters() {
        assert_eq!(name_of(&name_words("control")), "control");
        let long = format!("{}\u{b5}", "x".repeat(31));
        assert_eq!(name_of(&name_words(&long)), "x".repeat(31));
        assert_eq!(name_of(&name_words("a\x1b[31m\n")), "a\u{fffd}[31m\u{fffd}");
        assert_eq!(name_of(&[u64::MAX; 4]).chars().count(), 32);
    }

    /// Any change here requires a new ABI version.
    #[test]
    fn the_layout_of_version_1_is_unchanged() {
        assert_eq!((ABI_VERSION, HEADER_WORDS, CHANNEL_BYTES), (1, 512, 77_824));
        assert_eq!(
            (channel::RING, channel::BUCKETS, channel::WORDS),
            (32, 288, 9_388)
        );
    }
}
