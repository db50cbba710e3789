//! The order in which the pairs of threads take turns.

use punctual_model::Nanos;
use serde::{Deserialize, Serialize};

/// The maximum number of exchanges in one turn.
const LONGEST_TURN: u64 = 1_000;

/// Number of turns that each pair has in a run with a known end, if there is enough time.
const ROUNDS: u64 = 4;

/// The exchanges of all pairs. There is one in each interval, and there are never two at a time.
/// The first pair makes a number of exchanges, then the second pair makes as many, and so on, round
/// after round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Schedule {
    pub(super) start: Nanos,
    pub(super) interval: Nanos,
    pub(super) pairs: u64,
    /// Number of exchanges in one turn.
    pub(super) length: u64,
    /// No exchange begins at or after this.
    pub(super) end: Nanos,
}

impl Schedule {
    /// Returns the number of exchanges in one turn. It is so small that each pair has several
    /// rounds, so that changes on the machine during the run affect all pairs.
    pub(super) fn length(duration: Option<Nanos>, interval: Nanos, pairs: u64) -> u64 {
        duration.map_or(LONGEST_TURN, |duration| {
            let each = duration.0 / interval.0.max(1) / pairs.max(1);
            (each / ROUNDS).clamp(1, LONGEST_TURN)
        })
    }

    /// Returns when exchange `number` of pair `pair` is due, both counted from zero.
    pub(super) fn at(&self, pair: u64, number: u64) -> Nanos {
        let (round, place) = (number / self.length, number % self.length);
        let before = round.saturating_mul(self.pairs).saturating_add(pair);
        let exchange = before.saturating_mul(self.length).saturating_add(place);
        self.start + Nanos(self.interval.0.saturating_mul(exchange))
    }

    /// Returns the last exchange of this pair that is due by `now`. It is at or after `from`, which
    /// must already be due.
    pub(super) fn latest(&self, pair: u64, from: u64, now: Nanos) -> u64 {
        let mut number = from;
        while self.at(pair, number + 1) <= now.min(self.end - Nanos(1)) {
            number += 1;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(pairs: u64, length: u64, end: u64) -> Schedule {
        Schedule {
            start: Nanos(1_000),
            interval: Nanos(10),
            pairs,
            length,
            end: Nanos(end),
        }
    }

    #[test]
    fn pairs_take_turns_and_never_meet() {
        let turns = turns(3, 2, u64::MAX);
        let mut all: Vec<(u64, u64)> = Vec::new();
        for pair in 0..3 {
            for number in 0..4 {
                all.push((turns.at(pair, number).0, pair));
            }
        }
        all.sort_unstable();
        let times: Vec<u64> = all.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, (0..12).map(|n| 1_000 + n * 10).collect::<Vec<_>>());
        let order: Vec<u64> = all.iter().map(|(_, pair)| *pair).collect();
        assert_eq!(order, [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_turn_leaves_time_for_some_rounds() {
        let (second, ms) = (Nanos::from_secs(1), Nanos::from_millis(1));
        assert_eq!(Schedule::length(Some(Nanos::from_secs(10)), ms, 4), 625);
        assert_eq!(Schedule::length(Some(second), ms, 256), 1);
        assert_eq!(
            Schedule::length(Some(Nanos::from_secs(3_600)), ms, 1),
            1_000
        );
        assert_eq!(Schedule::length(None, ms, 4), 1_000);
    }

    #[test]
    fn passed_turns_are_found_until_end() {
        // Pair 0 is due at 1000, 1010, 1040, 1050, 1080, ...
        let open = turns(2, 2, u64::MAX);
        assert_eq!(open.latest(0, 0, Nanos(1_009)), 0);
        assert_eq!(open.latest(0, 0, Nanos(1_010)), 1);
        assert_eq!(open.latest(0, 0, Nanos(1_039)), 1);
        assert_eq!(open.latest(0, 0, Nanos(1_055)), 3);
        assert_eq!(turns(2, 2, 1_050).latest(0, 0, Nanos(5_000)), 2);
    }
}
