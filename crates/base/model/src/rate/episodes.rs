//! Late periods that follow each other closely, counted once.

use crate::Nanos;

/// Late periods with no pause longer than this between them are one episode, unless
/// something else is asked for.
pub const EPISODE_GAP: Nanos = Nanos::from_secs(1);

/// The episodes of a run. An episode is late periods with no pause longer than a fixed
/// gap between them: a definition that a reader can check, where an estimated clustering
/// splits sparse bursts and leaves others together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episodes {
    /// Late periods: each moment counted once, whatever the number of CPUs that were late.
    pub late: u64,
    /// Each episode: its first and its last late period.
    pub each: Vec<(Nanos, Nanos)>,
}

impl Episodes {
    /// Those of late periods that came due at these times, in any order.
    pub fn of(late: &[Nanos], gap: Nanos) -> Self {
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

    /// How many episodes.
    pub fn count(&self) -> u64 {
        self.each.len() as u64
    }

    /// When they began, counted from `start`, rising.
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
            Episodes::of(&late, EPISODE_GAP)
        };
        // Exactly the gap is no longer than it; in any order, and several CPUs at once.
        let found = of(&[2_000, 0, 1_000, 1_000, 3_001, 9_000]);
        assert_eq!((found.late, found.count()), (5, 3), "{found:?}");
        assert_eq!(
            found.begins(Nanos::from_millis(500)),
            [0, 2_501, 8_500].map(Nanos::from_millis)
        );
        assert_eq!(of(&[7]).each.len(), 1);
        assert_eq!(of(&[]), Episodes::default());
        // Sparse bursts, 300 ms between their late periods: one each.
        let bursts: Vec<u64> = (0..50).map(|n| n / 5 * 20_000 + n % 5 * 300).collect();
        assert_eq!(of(&bursts).count(), 10);
        // All late: one, without an end.
        assert_eq!(of(&(0..5_000).collect::<Vec<_>>()).count(), 1);
    }
}
