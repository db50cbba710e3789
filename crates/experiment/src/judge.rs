//! From what was noted of a condition to its verdict.

use punctual_model::{
    Condition, LoadRecord, LoopRequirement, Nanos, Outcome, Recording, ThreadRecord, Unknown,
    grouped, poisson_lower, poisson_upper,
};
use punctual_stats::pairs::binomial_p;
use punctual_stats::sequential::{Decision, Sequential};
use punctual_stats::tail::remark;

use crate::events::Noted;
use crate::request::LEAST;

const DAY: f64 = 86_400.0;

/// Below this chance a part of the run differs from the rest.
const CHANCE: f64 = 0.05;

/// What a condition is judged by.
pub(crate) struct Grounds<'a> {
    pub(crate) name: &'a str,
    pub(crate) recording: &'a Recording,
    pub(crate) noted: &'a Noted,
    pub(crate) asked: &'a LoopRequirement,
    /// Whether it was measured until it was decided: then the sequential test judges.
    pub(crate) sequential: bool,
}

impl Grounds<'_> {
    fn threads(&self) -> Vec<&ThreadRecord> {
        let prefix = format!("{}: ", self.name);
        let own = |thread: &&ThreadRecord| thread.title().starts_with(&prefix);
        self.recording.threads.iter().filter(own).collect()
    }

    fn loads(&self) -> Vec<&LoadRecord> {
        let own = |load: &&LoadRecord| load.phase.as_deref() == Some(self.name);
        self.recording.load.iter().filter(own).collect()
    }

    /// The verdict on this condition.
    pub(crate) fn condition(&self) -> Condition {
        let threads = self.threads();
        let due = |thread: &&ThreadRecord| thread.accounting.recorded + thread.accounting.missed;
        let least = threads.iter().map(due).min().unwrap_or(0);
        let measured = Nanos(self.asked.period_ns.0.saturating_mul(least));
        let mut all = punctual_model::Due::default();
        threads.iter().for_each(|thread| all.merge(&thread.due()));
        let episodes = self.noted.episodes();
        let missed: u64 = threads.iter().map(|thread| thread.accounting.missed).sum();
        let count = match (episodes.count(), missed) {
            // Missed periods that no sample told of.
            (0, 1..) => 1,
            (count, _) => count,
        };
        let per_day = |events: f64, unknown: f64| match measured.0 {
            0 => unknown,
            _ => events * DAY / measured.as_secs_f64(),
        };
        let mut condition = Condition {
            name: self.name.to_owned(),
            loads: self.loads().iter().map(|load| load.name.clone()).collect(),
            measured_ns: measured,
            periods: threads.iter().map(due).sum(),
            late: self.noted.late.len() as u64 + self.noted.beyond,
            episodes: count,
            extremal_index: episodes.extremal_index,
            per_day_at_most: per_day(poisson_upper(count), f64::MAX),
            per_day_at_least: per_day(poisson_lower(count), 0.0),
            max_ns: all.max(),
            p99_ns: (all.periods() >= 1_000)
                .then(|| all.quantile(0.99)?.exact())
                .flatten(),
            real_time: (threads.iter()).all(|thread| thread.scheduling.policy.is_real_time()),
            outcome: Outcome::NotProven,
            lacking: Vec::new(),
            needs_ns: None,
            tail: None,
            no_tail: None,
        };
        self.judge(&mut condition);
        // After the verdict, which it must not change.
        let prefix = format!("{}: ", self.name);
        match remark(self.recording, |thread| thread.title().starts_with(&prefix)) {
            Ok(tail) => condition.tail = Some(tail),
            Err(why) => condition.no_tail = Some(why.to_string()),
        }
        condition
    }

    fn judge(&self, condition: &mut Condition) {
        let allowed = self.asked.max_misses_per_day;
        let seconds = condition.measured_ns.as_secs_f64();
        let test = Sequential::new(allowed).filter(|_| self.sequential);
        let decision = match test {
            Some(test) => test.decide(condition.episodes, seconds),
            None if condition.per_day_at_most <= allowed => Decision::Held,
            None if condition.per_day_at_least > allowed => Decision::Broken,
            None => Decision::Open,
        };
        if !condition.real_time {
            condition.lacking.push(Condition::NOT_REAL_TIME.to_owned());
        }
        if condition.measured_ns == Nanos::ZERO {
            condition.lacking.push("nothing was measured".to_owned());
        } else {
            condition.lacking.extend(self.gates(condition));
        }
        condition.outcome = match decision {
            Decision::Broken if condition.real_time => Outcome::Broken,
            Decision::Held if condition.lacking.is_empty() => Outcome::Held,
            _ => Outcome::NotProven,
        };
        if decision == Decision::Open && allowed > 0.0 {
            let needed = match test {
                Some(test) => test.seconds_needed(condition.episodes),
                None => poisson_upper(condition.episodes) * DAY / allowed,
            };
            condition.needs_ns = Some(Nanos((needed.min(1e10) * 1e9) as u64));
        }
        if allowed == 0.0 && decision == Decision::Open {
            let never = "no time proves that there is none: allow a rate, --max-misses-per-day 1";
            condition.lacking.push(never.to_owned());
        }
    }

    /// Why *held* may not be said.
    fn gates(&self, condition: &Condition) -> Vec<String> {
        let mut said = Vec::new();
        if condition.measured_ns < LEAST {
            said.push(format!(
                "{} measured, at least {LEAST} needed",
                condition.measured_ns
            ));
        }
        let dropped = self.recording.series.dropped;
        if dropped > 0 {
            said.push(format!("{} samples were dropped", grouped(dropped)));
        }
        if !self.recording.knows(Unknown::Missed) {
            said.push("missed periods are not known".to_owned());
        }
        if let Some(suspension) = self.recording.suspensions.first() {
            said.push(suspension.lacking());
        }
        said.extend(self.loads().iter().filter_map(|load| match load {
            load if load.failed => Some(format!("the load {} failed", load.name)),
            load if load.did_nothing() => Some(format!("the load {} did nothing", load.name)),
            load if load.ended_early.is_some() => Some(format!(
                "the load {} ended before the measurement",
                load.name
            )),
            _ => None,
        }));
        said.extend(self.unsteady(condition));
        said
    }

    /// A part of the run that differs from the rest by more than chance does: half of
    /// it, or its first tenth (a warm-up that has not settled).
    fn unsteady(&self, condition: &Condition) -> Option<String> {
        let (first, _) = self.noted.span?;
        let episodes = self.noted.episodes();
        let within = |parts: u64| {
            let end = first + self.noted.periods() / parts;
            episodes
                .each
                .iter()
                .filter(|(begin, _)| *begin < end)
                .count() as u64
        };
        let all = condition.episodes;
        for (parts, what) in [(2, "first half"), (10, "first tenth")] {
            let count = within(parts).min(all);
            if binomial_p(count, all, 1.0 / parts as f64) < CHANCE {
                return Some(format!(
                    "the run was not steady: {count} of {all} episodes in its {what}"
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::testing;

    use super::*;

    fn asked(per_day: f64) -> LoopRequirement {
        LoopRequirement {
            period_ns: Nanos::from_millis(1),
            budget_ns: Nanos::from_millis(10),
            max_misses_per_day: per_day,
        }
    }

    /// A quiet recording of so many seconds, of one condition.
    fn quiet(seconds: u64) -> Recording {
        let mut recording = testing::recording(1, seconds);
        recording.load.clear();
        let thread = &mut recording.threads[0];
        thread.label = Some("loaded: CPU 0".to_owned());
        thread.accounting.recorded = seconds * 1_000;
        thread.accounting.missed = 0;
        recording.series.dropped = 0;
        recording
    }

    fn judged(recording: &Recording, late: &[u64], asked: &LoopRequirement) -> Condition {
        let noted = Noted {
            late: late.to_vec(),
            beyond: 0,
            span: Some((0, recording.threads[0].accounting.recorded.max(1) - 1)),
        };
        Grounds {
            name: "loaded",
            recording,
            noted: &noted,
            asked,
            sequential: false,
        }
        .condition()
    }

    /// 60 s without a miss: 4,314 a day and no more; 4.3 min for 1,000 a day.
    #[test]
    fn a_quiet_recording_proves_what_the_table_says() {
        let minute = judged(&quiet(60), &[], &asked(4_314.0));
        assert_eq!(minute.outcome, Outcome::Held, "{minute:?}");
        assert!(
            (minute.per_day_at_most - 4_313.85).abs() < 0.1,
            "{minute:?}"
        );
        let strict = judged(&quiet(60), &[], &asked(4_313.0));
        assert_eq!(strict.outcome, Outcome::NotProven);
        for (per_day, minutes) in [(1_000.0, 4.3), (100.0, 43.1), (10.0, 431.4), (1.0, 4_314.0)] {
            let needs = judged(&quiet(60), &[], &asked(per_day)).needs_ns.unwrap();
            let found = needs.as_secs_f64() / 60.0;
            assert!((found / minutes - 1.0).abs() < 0.01, "{per_day}: {found}");
        }
        assert_eq!(
            judged(&quiet(260), &[], &asked(1_000.0)).outcome,
            Outcome::Held
        );
        let never = judged(&quiet(60), &[], &asked(0.0));
        assert_eq!((never.outcome, never.needs_ns), (Outcome::NotProven, None));
        assert!(never.lacking[0].contains("no time proves"), "{never:?}");
    }

    #[test]
    fn episodes_are_counted_and_break_it() {
        // Ten bursts of three late periods, spread over the minute: at least 7,800 a day.
        let late: Vec<u64> = (0..30).map(|n| n / 3 * 6_000 + 2_000 + n % 3).collect();
        let condition = judged(&quiet(60), &late, &asked(1_000.0));
        assert_eq!((condition.late, condition.episodes), (30, 10));
        assert_eq!(condition.outcome, Outcome::Broken, "{condition:?}");
        assert_eq!(
            judged(&quiet(60), &[], &asked(0.0)).outcome,
            Outcome::NotProven
        );
        assert_eq!(
            judged(&quiet(60), &[9], &asked(0.0)).outcome,
            Outcome::Broken
        );
    }

    #[test]
    fn what_weakens_the_evidence_is_never_held() {
        let held = |change: fn(&mut Recording)| {
            let mut recording = quiet(60);
            change(&mut recording);
            let condition = judged(&recording, &[], &asked(10_000.0));
            (condition.outcome, condition.lacking.join("; "))
        };
        assert_eq!(held(|_| ()), (Outcome::Held, String::new()));
        let lacks = |change: fn(&mut Recording), why: &str| {
            let (outcome, lacking) = held(change);
            assert_eq!(outcome, Outcome::NotProven, "{why}");
            assert!(lacking.contains(why), "{lacking}");
        };
        lacks(|one| one.series.dropped = 3, "dropped");
        lacks(
            |one| one.threads[0].scheduling.policy = punctual_model::Policy::Other,
            "without a real-time priority",
        );
        lacks(
            |one| one.threads[0].accounting.recorded = 5_000,
            "at least 10.0 s",
        );
        lacks(|one| one.threads[0].label = None, "nothing was measured");
        lacks(
            |one| {
                one.load.push(LoadRecord {
                    name: "cpu".to_owned(),
                    failed: true,
                    phase: Some("loaded".to_owned()),
                    ..LoadRecord::default()
                });
            },
            "load cpu failed",
        );
        // Few, and all in the first half of an hour.
        let late: Vec<u64> = (0..9).map(|n| n * 150_000 + 7).collect();
        let unsteady = judged(&quiet(3_600), &late, &asked(10_000.0));
        assert_eq!(unsteady.outcome, Outcome::NotProven);
        assert!(
            unsteady.lacking[0].contains("9 of 9 episodes"),
            "{unsteady:?}"
        );
    }

    /// An ordinary thread that is late says nothing of a real-time loop.
    #[test]
    fn an_ordinary_thread_breaks_nothing() {
        let mut recording = quiet(60);
        recording.threads[0].scheduling.policy = punctual_model::Policy::Other;
        let late: Vec<u64> = (0..30).map(|n| n * 2_000).collect();
        let condition = judged(&recording, &late, &asked(10.0));
        assert_eq!(condition.outcome, Outcome::NotProven);
    }
}
