//! Repeated checks of a rate during a run, until a limit is proven.

use super::{Decision, ERROR, Rate};
use crate::Nanos;

/// Checks a rate 1, 2, 4, 8, ... minutes after the start. The allowed error is divided among these
/// checks ("looks"): half of it for the first, a quarter for the second, and so on. All looks
/// together therefore give a wrong *held* or a wrong *broken* no more often than a single look
/// would.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Looks {
    /// Number of looks taken.
    taken: u32,
    /// Decision of a look, and the error allowed for that look.
    decided: Option<(Decision, f64)>,
}

const FIRST: Nanos = Nanos::from_secs(60);

impl Looks {
    /// Returns the time of the next look, since the start of the run.
    pub fn next(self) -> Nanos {
        Nanos(FIRST.0.saturating_mul(1 << self.taken.min(32)))
    }

    /// Returns the allowed error of the next look.
    fn error(self) -> f64 {
        ERROR / 2f64.powi(self.taken as i32 + 1)
    }

    /// Takes a look at a limit of `per_day` events per day, if a look is due. Returns whether there
    /// is a decision.
    pub fn look(&mut self, rate: &Rate, per_day: f64) -> bool {
        if self.decided.is_none() && rate.measured >= self.next() {
            let error = self.error();
            let decision = rate.decide(per_day, error);
            self.decided = (decision != Decision::Open).then_some((decision, error));
            self.taken += 1;
        }
        self.decided.is_some()
    }

    /// Returns the decision and the error of its bounds. The end of the run is one more look.
    pub fn end(self, rate: &Rate, per_day: f64) -> (Decision, f64) {
        let error = self.error();
        let last = || (rate.decide(per_day, error), error);
        self.decided.unwrap_or_else(last)
    }

    /// Returns the time of the first look that would prove a limit of `per_day` events per day, if
    /// no events follow those in `rate`.
    pub fn needed(mut self, rate: &Rate, per_day: f64) -> Option<Nanos> {
        while rate.needed(per_day, self.error())? > self.next() {
            if self.taken > 32 {
                return None;
            }
            self.taken += 1;
        }
        Some(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EPISODE_GAP;

    #[test]
    fn the_error_is_divided_over_the_looks() {
        let clean = |seconds| Rate::from_times(&[], Nanos::from_secs(seconds), EPISODE_GAP);
        let mut looks = Looks::default();
        assert!(!looks.look(&clean(59), 1_000.0));
        // A limit of 1,000 a day takes 5.3 min with the error of the first look (ln(1 / 0.025) =
        // 3.69 episodes). The look at 8 min is the fourth and has a sixteenth of the error: 5.77
        // episodes, which takes 8.3 min.
        let minutes = |minutes| Nanos::from_secs(60 * minutes);
        assert_eq!(looks.needed(&clean(0), 1_000.0), Some(minutes(16)));
        for time in [1, 2, 4, 8, 16] {
            assert_eq!(looks.next(), minutes(time));
            assert_eq!(looks.look(&clean(60 * time), 1_000.0), time == 16);
        }
        // Later events do not change the decision.
        let (decision, error) = looks.end(&Rate::plain(1_000, minutes(16)), 1_000.0);
        assert_eq!((decision, error), (Decision::Held, ERROR / 32.0));
        assert_eq!(Looks::default().needed(&clean(0), 0.0), None);
        assert_eq!(Looks::default().needed(&clean(0), 1e-9), None);
        // The end of a run is a look.
        let (decision, _) = Looks::default().end(&clean(59), 1e6);
        assert_eq!(decision, Decision::Held);
    }
}
