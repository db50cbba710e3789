//! The time of a search. How long loads take to start and to end differs from machine to machine, and
//! changes during a search. Each block is therefore timed, and nothing is planned in a number of blocks
//! that the rest of the time may not suffice for.

use punctual_model::Nanos;

/// Length of a block, if the time suffices.
const USUAL: Nanos = Nanos::from_secs(2);

/// Shortest length of a block.
pub(super) const SHORTEST: Nanos = Nanos::from_millis(500);

/// Number of blocks that a search should have, so that it can halve its mixes. A short search has shorter
/// blocks.
const WANTED: u64 = 200;

/// Number of recent blocks that show whether blocks have become slower.
const RECENT: usize = 8;

/// The time of a search, and what its blocks have taken of it.
#[derive(Clone, Debug)]
pub(super) struct Time {
    total: Nanos,
    /// Time of each block in addition to its length.
    around: Vec<Nanos>,
    /// Sum of the lengths of all blocks.
    measured: Nanos,
}

impl Time {
    pub(super) fn new(total: Nanos) -> Self {
        Self {
            total,
            around: Vec::new(),
            measured: Nanos::ZERO,
        }
    }

    /// Notes a block of this length, and the time that it took.
    pub(super) fn note(&mut self, length: Nanos, took: Nanos) {
        self.around.push(took.saturating_sub(length));
        self.measured += length;
    }

    /// Returns the time that is left at `now`, counted from the start of the search.
    pub(super) fn left(&self, now: Nanos) -> Nanos {
        self.total.saturating_sub(now)
    }

    /// Returns the number of blocks so far.
    pub(super) fn blocks(&self) -> u32 {
        self.around.len() as u32
    }

    /// Returns the mean length of the blocks so far, and the mean time that they took.
    pub(super) fn means(&self) -> [Nanos; 2] {
        let number = self.around.len().max(1) as u64;
        let length = Nanos(self.measured.0 / number);
        [length, length + mean(&self.around)]
    }

    /// Returns the time that a block is expected to take in addition to its length: the mean of all
    /// blocks, or of the last ones if these took longer. The longest block is left out of both means,
    /// so that a single block changes no plan. Zero before the second block.
    pub(super) fn around(&self) -> Nanos {
        let recent = self.around.len().saturating_sub(RECENT);
        usual(&self.around).max(usual(&self.around[recent..]))
    }

    /// Returns the length of a block.
    pub(super) fn block(&self) -> Nanos {
        Nanos(self.total.0 / WANTED)
            .saturating_sub(self.around())
            .clamp(SHORTEST, USUAL)
    }

    /// Returns the time that this number of blocks is expected to take.
    pub(super) fn of_blocks(&self, number: u32, length: Nanos) -> Nanos {
        Nanos((length + self.around()).0.saturating_mul(number.into()))
    }

    /// Returns the length at which this number of blocks fits into a time, at most the usual one.
    pub(super) fn fitting(&self, number: u32, time: Nanos) -> Nanos {
        self.spread(number, time).min(USUAL)
    }

    /// Like [`fitting`](Self::fitting), without a maximum.
    pub(super) fn spread(&self, number: u32, time: Nanos) -> Nanos {
        let each = Nanos(time.0 / u64::from(number.max(1)));
        each.saturating_sub(self.around()).max(SHORTEST)
    }

    /// Returns when the search for mixes must end: `after` blocks should then fit into the rest, if
    /// these need at most 60% of the time, but `least` blocks in any case.
    pub(super) fn search_end(&self, after: u32, least: u32) -> Nanos {
        let length = self.block();
        let wanted = self
            .of_blocks(after, length)
            .min(Nanos(self.total.0 / 5 * 3));
        // Blocks may become slower.
        let spare = Nanos(self.around().0 / 2 * u64::from(least));
        let least = self.of_blocks(least, length) + spare;
        self.total.saturating_sub(wanted.max(least))
    }
}

fn mean(all: &[Nanos]) -> Nanos {
    let sum: u64 = all.iter().map(|one| one.0).sum();
    Nanos(sum / all.len().max(1) as u64)
}

/// Returns the mean of all but the longest.
fn usual(all: &[Nanos]) -> Nanos {
    let sum: u64 = all.iter().map(|one| one.0).sum();
    let longest = all.iter().map(|one| one.0).max().unwrap_or_default();
    let others = all.len().saturating_sub(1).max(1) as u64;
    Nanos((sum - longest) / others)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time of a search with two blocks.
    fn begun(seconds: u64, around_ms: u64) -> Time {
        let mut time = Time::new(Nanos::from_secs(seconds));
        for _ in 0..2 {
            time.note(SHORTEST, SHORTEST + Nanos::from_millis(around_ms));
        }
        time
    }

    #[test]
    fn short_searches_have_short_blocks() {
        let block = |seconds: u64| begun(seconds, 300).block().0 / 1_000_000;
        assert_eq!([1_800, 460, 240, 60].map(block), [2_000, 2_000, 900, 500]);
    }

    /// A slow first block is forgotten, and blocks that become slower are noticed.
    #[test]
    fn expected_time_follows_the_blocks() {
        let mut time = Time::new(Nanos::from_secs(600));
        assert_eq!(time.around(), Nanos::ZERO);
        let mut note = |millis: u64, times: usize| {
            for _ in 0..times {
                time.note(SHORTEST, SHORTEST + Nanos::from_millis(millis));
            }
            time.around().0 / 1_000_000
        };
        assert_eq!(note(60_000, 1), 0);
        assert_eq!(note(200, 1), 200);
        assert_eq!(note(200, 298), 200);
        assert_eq!(note(3_000, 8), 3_000);
        assert_eq!(time.blocks(), 308);
        assert!(time.means()[1] > Nanos::from_millis(950));
    }

    /// The search always leaves time for the confirmation that is expected to suffice.
    #[test]
    fn search_leaves_time_for_the_confirmation() {
        for seconds in [10, 60, 600, 1_800] {
            for around in [0, 200, 2_000, 20_000] {
                let time = begun(seconds, around);
                let end = time.search_end(154, 16);
                let left = time.left(end);
                let needed = time.of_blocks(16, time.block());
                assert!(left >= needed || end == Nanos::ZERO, "{seconds} {around}");
            }
        }
        // A long search uses most of its time for mixes.
        assert!(begun(1_800, 700).search_end(154, 16) > Nanos::from_secs(1_200));
    }
}
