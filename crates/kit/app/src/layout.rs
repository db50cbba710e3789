//! Where each number is. All are 64 bits in the machine's order, counted in words of
//! eight bytes; a reader of another language needs this page alone.

/// The version of the layout. A reader refuses a later one.
pub const ABI_VERSION: u32 = 1;

/// The first word: `PUNCTAPP` as bytes.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"PUNCTAPP");

/// The name of the memory file, as `/proc/PID/fd` shows it behind `/memfd:`.
pub const MEMFD_NAME: &str = "punctual-app";

/// Bytes of a word.
pub const WORD: usize = 8;
/// Bytes of a name; shorter ones end in zero bytes.
pub const NAME_BYTES: usize = 32;
/// Words of the header.
pub const HEADER_WORDS: usize = 512;
/// The most lanes of an application.
pub const MAX_LANES: usize = 64;
/// Places in the ring of worst samples of a lane.
pub const RING_ENTRIES: usize = 64;
/// Words of a place in that ring: its sequence, time, latency, and one that is zero.
pub const RING_ENTRY_WORDS: usize = 4;

/// Words of the header, by their place.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::ABI_VERSION`].
    pub const ABI: usize = 1;
    /// Bytes of the whole file.
    pub const TOTAL_BYTES: usize = 2;
    /// Bytes of a lane.
    pub const LANE_BYTES: usize = 3;
    /// Lanes that there is memory for.
    pub const LANES: usize = 4;
    /// Lanes in use: the first ones.
    pub const LANES_USED: usize = 5;
    /// Buckets of a histogram ([`punctual_grid::BUCKETS`]).
    pub const BUCKETS: usize = 6;
    /// Places of a ring ([`super::RING_ENTRIES`]).
    pub const RING_ENTRIES: usize = 7;
    /// Two words: the boot's identity (random/boot_id of proc(5)).
    pub const BOOT_ID: usize = 8;
    /// When the process was started, in clock ticks after the boot (proc_pid_stat(5)).
    pub const START_TICKS: usize = 10;
    /// The process's number, as it sees itself.
    pub const PID: usize = 11;
    /// The clock of all times: 1, CLOCK_MONOTONIC.
    pub const CLOCK: usize = 12;
    /// Four words: the application's name.
    pub const NAME: usize = 16;
}

/// Words of a lane, by their place. Those from [`RUN`](lane::RUN) to
/// [`RING_HEAD`](lane::RING_HEAD) are counters.
pub mod lane {
    /// What its samples are: a number of [`Kind`](crate::Kind).
    pub const KIND: usize = 0;
    /// The thread that records.
    pub const TID: usize = 1;
    /// The period in ns; 0: none.
    pub const PERIOD_NS: usize = 2;
    /// A sample above is an outlier, in ns; 0: none.
    pub const BUDGET_NS: usize = 3;
    /// Four words: the lane's name.
    pub const NAME: usize = 4;
    /// Samples recorded; written last of each sample.
    pub const RUN: usize = 16;
    /// The sum of the samples that were not early.
    pub const SUM_NS: usize = 17;
    /// The largest.
    pub const MAX_NS: usize = 18;
    /// The smallest that was not early; all ones before the first.
    pub const MIN_NS: usize = 19;
    /// Negative samples.
    pub const EARLY: usize = 20;
    /// Samples beyond the grid.
    pub const OVERFLOW: usize = 21;
    /// Periods that came due; 0: the lane has no periods.
    pub const DUE: usize = 22;
    /// Of these: periods without a job.
    pub const MISSED: usize = 23;
    /// Jobs that began when the next period was due.
    pub const LATE: usize = 24;
    /// Samples above the budget.
    pub const OVER_BUDGET: usize = 25;
    /// Worst samples ever written to the ring.
    pub const RING_HEAD: usize = 26;
    /// The ring.
    pub const RING: usize = 32;
    /// The buckets.
    pub const BUCKETS: usize = RING + super::RING_ENTRIES * super::RING_ENTRY_WORDS;
    /// Words in use.
    pub const WORDS: usize = BUCKETS + punctual_grid::BUCKETS;
}

/// Bytes of a lane: whole pages of 4 KiB.
pub const LANE_BYTES: usize = (lane::WORDS * WORD).next_multiple_of(4096);

/// Bytes of a file with so many lanes.
pub const fn total_bytes(lanes: usize) -> usize {
    HEADER_WORDS * WORD + lanes * LANE_BYTES
}

/// A name as words: cut at [`NAME_BYTES`], at the border of a character.
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

/// The name in these words: what another process wrote, so control characters and
/// bytes that are no text become U+FFFD.
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
    fn a_name_reads_back_and_a_long_one_is_cut_between_characters() {
        assert_eq!(name_of(&name_words("control")), "control");
        let long = format!("{}\u{b5}", "x".repeat(31));
        assert_eq!(name_of(&name_words(&long)), "x".repeat(31));
        assert_eq!(name_of(&name_words("a\x1b[31m\n")), "a\u{fffd}[31m\u{fffd}");
        assert_eq!(name_of(&[u64::MAX; 4]).chars().count(), 32);
    }

    /// A change here is another ABI version.
    #[test]
    fn the_layout_of_version_1_is_unchanged() {
        assert_eq!((ABI_VERSION, HEADER_WORDS, LANE_BYTES), (1, 512, 77_824));
        assert_eq!((lane::RING, lane::BUCKETS, lane::WORDS), (32, 288, 9_388));
    }
}
