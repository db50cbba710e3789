//! Episodes: late periods that follow each other closely are counted as one.

use crate::Nanos;

/// The default gap: late periods with no longer pause between them form one episode.
pub const EPISODE_GAP: Nanos = Nanos::from_secs(1);

/// The episodes of a run. An episode is a sequence of late periods without a pause longer than a
/// fixed gap. A reader can check this definition against the data. An estimate of the clustering,
/// in contrast, would split sparse bursts and join others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episodes {
    /// Number of times at which periods were late. Each time counts once, however many CPUs were
    /// late.
    pub late: u64,
    /// First and last late period of each episode.
    pub each: Vec<(Nanos, Nanos)>,
}

impl Episodes {
    /// Finds the episodes formed by late periods that came due at these times, given in any order.
    pub fn new(late: &[Nanos], gap: Nanos) -> Self {
        let mut late = late.to_vec();
        late.sort_unstable();
        late.dedup();
        let mut each: Vec<(Nanos, Nanos)> = Vec::new();
        for at in &late {
            match each.last_mut() {
                Some(open) if at.saturating_sub(open.1) <= gap => open.1 = *at,
                _ => each.push((*at, *at)),
            }
        }
        Self {
            late: late.len() as u64,
            each,
        }
    }

    /// Returns the number of episodes.
    pub fn count(&self) -> u64 {
        self.each.len() as u64
    }

    /// Returns the start times of the episodes, relative to `start`, in ascending order.
    pub fn begins(&self, start: Nanos) -> Vec<Nanos> {
        let since = |episode: &(Nanos, Nanos)| episode.0.saturating_sub(start);
        self.each.iter().map(since).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_longer_than_the_gap_separates() {
        let of = |millis: &[u64]| {
            let late: Vec<Nanos> = millis.iter().map(|ms| Nanos::from_millis(*ms)).collect();
            Episodes::new(&late, EPISODE_GAP)
        };
        // A pause that is exactly as long as the gap does not split an episode. The order of the
        // times does not matter, and several CPUs may be late at once.
        let found = of(&[2_000, 0, 1_000, 1_000, 3_001, 9_000]);
        assert_eq!((found.late, found.count()), (5, 3), "{found:?}");
        assert_eq!(
            found.begins(Nanos::from_millis(500)),
            [0, 2_501, 8_500].map(Nanos::from_millis)
        );
        assert_eq!(of(&[7]).each.len(), 1);
        assert_eq!(of(&[]), Episodes::default());
        // Sparse bursts, with 300 ms between late periods, form one episode each.
        let bursts: Vec<u64> = (0..50).map(|n| n / 5 * 20_000 + n % 5 * 300).collect();
        assert_eq!(of(&bursts).count(), 10);
        // If every period is late, there is one episode.
        assert_eq!(of(&(0..5_000).collect::<Vec<_>>()).count(), 1);
    }
}
