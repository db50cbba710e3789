//! Repeated checks of a rate during a run, until a limit is proven.

use super::{Decision, ERROR, Rate};
use crate::Nanos;

/// Checks a rate several times during a run ("looks"), and divides the allowed error among the
/// looks. All looks together therefore give a wrong *held* or a wrong *broken* no more often than a
/// single look would. The two claims have an error of their own:
///
/// - *Broken* is tried 1, 2, 4, 8, ... minutes after the start, with half of the error for the first
///   look, a quarter for the second, and so on.
/// - *Held* is first tried when a run without events would prove it, but after 5 min at the earliest.
///   This look has 3 of the 5%, so that a clean machine is proven after 1.17 times the time of a run
///   of fixed length. Each further look comes after 1.5 times the time, with half of the remaining
///   error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Looks {
    /// The limit, in events per day.
    per_day: f64,
    /// Number of looks taken for *held*.
    held: i32,
    /// Number of looks taken for *broken*.
    broken: i32,
    /// Decision of a look, and the error allowed for that look.
    decided: Option<(Decision, f64)>,
}

/// Time of the first look for *broken*.
const FIRST: Nanos = Nanos::from_secs(60);

/// Least time of a look for *held*. A shorter run without events says too little about machines
/// whose late seconds cluster for half a minute.
const FIRST_HELD: Nanos = Nanos::from_secs(300);

/// Share of the error of *held* for its first look.
const FIRST_SHARE: f64 = 0.6;

/// Ratio between the times of two looks for *held*.
const LATER: f64 = 1.5;

/// Maximum number of looks of a kind. The last ones would be after more than 300 years.
const MOST: i32 = 60;

fn error_of_held(looks: i32) -> f64 {
    match looks {
        0 => ERROR * FIRST_SHARE,
        n => ERROR * (1.0 - FIRST_SHARE) / 2f64.powi(n),
    }
}

fn error_of_broken(looks: i32) -> f64 {
    ERROR / 2f64.powi(looks + 1)
}

impl Looks {
    /// Creates the looks for a limit of `per_day` events per day.
    pub fn new(per_day: f64) -> Self {
        Self {
            per_day,
            held: 0,
            broken: 0,
            decided: None,
        }
    }

    /// Returns the time of the next look, since the start of the run.
    pub fn next(self) -> Nanos {
        self.next_for_held(self.held).min(self.next_for_broken())
    }

    fn next_for_broken(self) -> Nanos {
        Nanos((FIRST.0 as f64 * 2f64.powi(self.broken)) as u64)
    }

    /// Returns the time of a look for *held*. The conversion saturates.
    fn next_for_held(self, looks: i32) -> Nanos {
        let clean = Rate::plain(0, FIRST).needed(self.per_day, error_of_held(0));
        let first = clean.map_or(f64::INFINITY, |clean| {
            clean.max(FIRST_HELD).0 as f64 * (1.0 + 1e-9)
        });
        Nanos((first * LATER.powi(looks)).ceil() as u64)
    }

    /// Takes the looks that are due: for *broken* at the events that are certain, for *held* at all
    /// that may have been. Without the second rate, the run cannot be held. Returns whether there is
    /// a decision.
    pub fn look(&mut self, least: &Rate, most: Option<&Rate>) -> bool {
        if self.decided.is_none() && least.measured >= self.next_for_broken() {
            self.try_for(Decision::Broken, least, error_of_broken(self.broken));
            self.broken = (self.broken + 1).min(MOST);
        }
        if self.decided.is_none() && least.measured >= self.next_for_held(self.held) {
            if let Some(most) = most {
                self.try_for(Decision::Held, most, error_of_held(self.held));
            }
            self.held = (self.held + 1).min(MOST);
        }
        self.decided.is_some()
    }

    fn try_for(&mut self, claim: Decision, rate: &Rate, error: f64) {
        if rate.decide(self.per_day, error) == claim {
            self.decided = Some((claim, error));
        }
    }

    /// Returns the decision and the error of its bounds. The end of the run is one more look for
    /// each claim. Without a decision, the error is that of *held*.
    pub fn end(mut self, least: &Rate, most: &Rate) -> (Decision, f64) {
        let error = error_of_held(self.held);
        if self.decided.is_none() {
            self.try_for(Decision::Broken, least, error_of_broken(self.broken));
        }
        if self.decided.is_none() {
            self.try_for(Decision::Held, most, error);
        }
        self.decided.unwrap_or((Decision::Open, error))
    }

    /// Returns the time of the first look that would prove the limit, if no events follow those in
    /// `rate`.
    pub fn needed(self, rate: &Rate) -> Option<Nanos> {
        (self.held..MOST).find_map(|looks| {
            let needed = rate.needed(self.per_day, error_of_held(looks))?;
            let at = self.next_for_held(looks);
            (needed <= at).then_some(at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LateSeconds;

    fn clean(time: Nanos) -> Rate {
        LateSeconds::default().rate(time)
    }

    /// Proves 10 late seconds a day for a machine that is never late. A run of fixed length takes
    /// 7.2 h.
    #[test]
    fn clean_machine_is_held_within_1_3_times_the_shortest_run() {
        let mut looks = Looks::new(10.0);
        let needed = looks.needed(&clean(Nanos::ZERO)).unwrap();
        let mut taken = 0;
        let at = loop {
            let next = looks.next();
            taken += 1;
            let rate = clean(next);
            if looks.look(&rate, Some(&rate)) {
                break next;
            }
        };
        assert_eq!(at, needed);
        let hours = at.as_secs_f64() / 3_600.0;
        assert!((7.2..9.4).contains(&hours), "{hours}");
        // Those at 1, 2, 4, ..., 256 min are for *broken*.
        assert_eq!(taken, 10);
        // Later events do not change the decision.
        let late = Rate::plain(1_000_000, at);
        assert_eq!(
            looks.end(&late, &late),
            (Decision::Held, ERROR * FIRST_SHARE)
        );
    }

    #[test]
    fn the_error_is_divided_over_the_looks() {
        let all: f64 = (0..MOST).map(error_of_held).sum();
        assert!((all - ERROR).abs() < 1e-9, "{all}");
        let all: f64 = (0..MOST).map(error_of_broken).sum();
        assert!((all - ERROR).abs() < 1e-9, "{all}");
    }

    #[test]
    fn lateness_is_broken_at_the_first_look() {
        let mut always = LateSeconds::default();
        (0..60).for_each(|second| always.add(Nanos::from_secs(second)));
        let mut looks = Looks::new(20_000.0);
        let rate = always.rate(FIRST);
        assert!(looks.look(&rate, Some(&rate)));
        assert_eq!(looks.end(&rate, &rate).0, Decision::Broken);
    }

    #[test]
    fn impossible_limits_are_never_proven() {
        for per_day in [0.0, 1e-9] {
            assert_eq!(Looks::new(per_day).needed(&clean(Nanos::ZERO)), None);
            assert_eq!(Looks::new(per_day).next(), FIRST);
        }
        // The end of a run is a look.
        let short = clean(Nanos::from_secs(59));
        assert_eq!(Looks::new(20_000.0).end(&short, &short).0, Decision::Held);
        assert_eq!(Looks::new(10.0).end(&short, &short).0, Decision::Open);
    }
}
