//! Measuring until it is proven: sequential tests of a rate of episodes.
//!
//! Two one-sided tests of Wald (Annals of Mathematical Statistics 16, 1945) against the
//! limit itself. Under the limit each likelihood ratio is a martingale of mean 1, so
//! that it ever reaches 20 with a chance of 5% at most: a wrong *held* and a wrong
//! *broken* are both that rare, whenever one looks.

/// A rate, in the time measured so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequential {
    /// Episodes a day that are allowed.
    per_day: f64,
}

/// What a sequential test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The rate is not above the limit.
    Held,
    /// The rate is above the limit.
    Broken,
    /// Measure on.
    Open,
}

/// Of the limit: the rate that makes *held* likely, and the one that makes *broken* so.
const ALTERNATIVES: [f64; 2] = [0.25, 2.0];

/// The likelihood ratio that decides: errors of 5%.
const DECIDES: f64 = 20.0;

const DAY: f64 = 86_400.0;

impl Sequential {
    /// A test of at most `per_day` episodes a day; `None` where that is not above zero:
    /// no time proves that there is none.
    pub fn new(per_day: f64) -> Option<Self> {
        (per_day > 0.0 && per_day.is_finite()).then_some(Self { per_day })
    }

    /// After `episodes` in `seconds`.
    pub fn decide(self, episodes: u64, seconds: f64) -> Decision {
        let expected = self.per_day * seconds / DAY;
        let ratio = |times: f64| episodes as f64 * times.ln() + (1.0 - times) * expected;
        let [good, bad] = ALTERNATIVES.map(ratio);
        match () {
            () if good >= DECIDES.ln() => Decision::Held,
            () if bad >= DECIDES.ln() => Decision::Broken,
            () => Decision::Open,
        }
    }

    /// How many seconds in all decide, if no further episode comes after `episodes`.
    pub fn seconds_needed(self, episodes: u64) -> f64 {
        let expected =
            (DECIDES.ln() - episodes as f64 * ALTERNATIVES[0].ln()) / (1.0 - ALTERNATIVES[0]);
        expected * DAY / self.per_day
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_time_decides_at_what_it_says() {
        let test = Sequential::new(1_000.0).unwrap();
        // ln(20) / 0.75 = 3.994 expected at the limit.
        let needed = test.seconds_needed(0);
        assert!((needed - 3.994_310 * 86.4).abs() < 0.01, "{needed}");
        assert_eq!(test.decide(0, needed - 0.1), Decision::Open);
        assert_eq!(test.decide(0, needed + 0.1), Decision::Held);
        assert!(test.seconds_needed(1) > needed);
        // One minute, 0.69 expected, 8 seen.
        assert_eq!(test.decide(8, 60.0), Decision::Broken);
        assert_eq!(Sequential::new(0.0), None);
        assert_eq!(Sequential::new(f64::INFINITY), None);
    }

    /// How often 2,000 made-up machines of a rate, in parts of the limit, end at each.
    fn ends(rate: f64) -> [u32; 2] {
        let mut random = fastrand::Rng::with_seed(7);
        let test = Sequential::new(86_400.0).unwrap();
        let mut ends = [0, 0];
        for _ in 0..2_000 {
            let (mut seconds, mut episodes) = (0.0, 0);
            for _ in 0..1_000 {
                seconds -= (1.0 - random.f64()).ln() / rate;
                // Looked at before each episode and after it.
                let before = test.decide(episodes, seconds);
                episodes += 1;
                match (before, test.decide(episodes, seconds)) {
                    (Decision::Held, _) => ends[0] += 1,
                    (_, Decision::Broken) => ends[1] += 1,
                    _ => continue,
                }
                break;
            }
        }
        ends
    }

    #[test]
    fn errors_are_as_rare_as_they_are_said_to_be() {
        // At the limit itself neither is right; each comes in at most 5% (100), and
        // three standard deviations more are 130.
        let [held, broken] = ends(1.0);
        assert!(held <= 130 && broken <= 130, "{held} {broken}");
        let [held, broken] = ends(0.25);
        assert!(held >= 1_900 && broken <= 30, "{held} {broken}");
        let [held, broken] = ends(2.0);
        assert!(broken >= 1_900 && held <= 30, "{held} {broken}");
    }
}
