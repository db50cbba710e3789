//! Derives the verdict on a condition from its recorded data.

use punctual_model::{
    Condition, Decision, ERROR, IntervalRow, LoadRecord, Looks, LoopRequirement, Nanos, Outcome,
    Rate, Recording, ThreadRecord, Unknown, counted,
};
use punctual_stats::tail::remark;

use crate::events::Noted;
use crate::request::LEAST;

/// The data on which the verdict on a condition is based.
pub(crate) struct Grounds<'a> {
    pub(crate) name: &'a str,
    pub(crate) recording: &'a Recording,
    pub(crate) noted: &'a Noted,
    pub(crate) asked: &'a LoopRequirement,
    /// The interim evaluations, if the condition was measured until the result was decided.
    pub(crate) looks: Option<Looks>,
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

    /// Returns the verdict on this condition.
    pub(crate) fn condition(&self) -> Condition {
        let threads = self.threads();
        let due = |thread: &&ThreadRecord| thread.accounting.recorded + thread.accounting.missed;
        let least = threads.iter().map(due).min().unwrap_or(0);
        let measured = Nanos(self.asked.period_ns.0.saturating_mul(least));
        let mut all = punctual_model::Due::default();
        threads.iter().for_each(|thread| all.merge(&thread.due()));
        let noted = self.complete(&threads, measured);
        let rate = noted.rate(self.asked, measured);
        let (decision, error) = self.decide(&rate);
        let drift = self.drift(&noted, &rate, measured);
        let supported = rate.supports_bounds() && drift.is_none();
        let bound = |events: f64| supported.then(|| rate.per_day(events)).flatten();
        let mut condition = Condition {
            name: self.name.to_owned(),
            loads: self.loads().iter().map(|load| load.name.clone()).collect(),
            measured_ns: measured,
            periods: threads.iter().map(due).sum(),
            late: noted.late,
            longest_series: Some(noted.longest_series),
            late_seconds: Some(noted.seconds.count()),
            windows: noted.windows(self.asked),
            episodes: None,
            dispersion: Some(rate.dispersion),
            per_day_at_most: bound(rate.at_most(error)),
            per_day_at_least: bound(rate.at_least(error)),
            max_ns: all.max(),
            p99_ns: (all.periods() >= 1_000)
                .then(|| all.quantile(0.99)?.exact())
                .flatten(),
            real_time: (threads.iter()).all(|thread| thread.scheduling.policy.is_real_time()),
            outcome: Outcome::NotProven,
            lacking: Vec::new(),
            needs_ns: None,
            needs_likely_ns: None,
            tail: None,
            no_tail: None,
            jobs: None,
        };
        self.judge(&rate, decision, &mut condition, drift);
        let missed = threads.iter().map(|thread| thread.accounting.missed);
        let unseen = missed.sum::<u64>().saturating_sub(noted.missed);
        if unseen > 0 {
            let periods = counted(unseen, "missed period", "missed periods");
            condition
                .lacking
                .push(format!("the time of {periods} is unknown"));
            if condition.outcome == Outcome::Held {
                condition.outcome = Outcome::NotProven;
            }
        }
        // This is computed after the verdict, because it must not influence the verdict.
        let prefix = format!("{}: ", self.name);
        match remark(self.recording, |thread| thread.title().starts_with(&prefix)) {
            Ok(tail) => condition.tail = Some(tail),
            Err(why) => condition.no_tail = Some(why.to_string()),
        }
        condition
    }

    /// Returns the late periods, with those that had no wake-up by the end of the run.
    fn complete(&self, threads: &[&ThreadRecord], measured: Nanos) -> Noted {
        let mut noted = self.noted.clone();
        for open in threads.iter().filter_map(|thread| thread.open) {
            noted.add_open(self.asked, measured, open.periods);
        }
        noted
    }

    /// Returns how the rate compares with the limit, and the error probability of its bounds.
    fn decide(&self, rate: &Rate) -> (Decision, f64) {
        let allowed = self.asked.max_late_seconds_per_day.unwrap_or_default();
        match self.looks {
            Some(looks) => looks.end(rate, rate),
            None => (rate.decide(allowed, ERROR), ERROR),
        }
    }

    /// Returns the reason why the late seconds say nothing about the rest of the day: they follow
    /// the temperature or the frequency of the machine.
    fn drift(&self, noted: &Noted, rate: &Rate, measured: Nanos) -> Option<String> {
        let prefix = format!("{}: ", self.name);
        let own = |row: &&IntervalRow| {
            let thread = self.recording.threads.get(row.thread as usize);
            thread.is_some_and(|thread| thread.title().starts_with(&prefix))
        };
        let rows = self.recording.series.rows.iter().filter(own);
        let start = rows.map(|row| row.start_ns).min().unwrap_or_default();
        self.recording.drift_of_seconds(
            noted.limited(self.asked).seconds().iter().copied(),
            (start, measured),
            rate.local_dispersion(),
            self.asked.unit(),
        )
    }

    fn judge(
        &self,
        rate: &Rate,
        decision: Decision,
        condition: &mut Condition,
        drift: Option<String>,
    ) {
        let allowed = self.asked.max_late_seconds_per_day.unwrap_or_default();
        if !condition.real_time {
            condition.lacking.push(Condition::NOT_REAL_TIME.to_owned());
        }
        if condition.measured_ns == Nanos::ZERO {
            condition.lacking.push("nothing was measured".to_owned());
        } else {
            let doubt = rate.doubt().map(|doubt| doubt.sentence(self.asked.unit()));
            condition.lacking.extend(doubt.or(drift));
            condition.lacking.extend(self.gates(condition));
        }
        condition.outcome = match decision {
            Decision::Broken if condition.real_time => Outcome::Broken,
            Decision::Held if condition.lacking.is_empty() => Outcome::Held,
            _ => Outcome::NotProven,
        };
        if decision == Decision::Open {
            condition.needs_ns = match self.looks {
                Some(looks) => looks.needed(rate),
                None => rate.needed(allowed, ERROR),
            };
            condition.needs_likely_ns = rate.likely(allowed, ERROR);
        }
        if allowed == 0.0 && decision == Decision::Open {
            condition.lacking.push(Condition::NEVER.to_owned());
        }
    }

    /// Returns the reasons why the outcome cannot be *held*.
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
            said.push(format!(
                "the time series lacks {}",
                counted(dropped, "sample", "samples")
            ));
        }
        if !self.recording.knows(Unknown::Missed) {
            said.push("missed periods are not known".to_owned());
        }
        if let Some(suspension) = self.recording.suspensions.first() {
            said.push(suspension.lacking());
        }
        said.extend(self.loads().iter().filter_map(|load| load.lacking()));
        said
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
            jobs: false,
            max_late_seconds_per_day: Some(per_day),
            misses: None,
            max_misses_per_day: None,
            sample: None,
        }
    }

    /// A quiet recording of one condition, this many seconds long.
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
        let noted = Noted::of_periods(late.iter().copied(), asked);
        Grounds {
            name: "loaded",
            recording,
            noted: &noted,
            asked,
            looks: None,
        }
        .condition()
    }

    /// 60 s without a miss prove at most 4,314 per day. Proving 1,000 per day takes 4.3 min.
    #[test]
    fn quiet_recording_bounds_the_miss_rate() {
        let minute = judged(&quiet(60), &[], &asked(4_314.0));
        assert_eq!(minute.outcome, Outcome::Held, "{minute:?}");
        let bound = minute.per_day_at_most.unwrap();
        assert!((bound - 4_313.85).abs() < 0.1, "{minute:?}");
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
        assert!(
            never.lacking[0].contains("no run is long enough"),
            "{never:?}"
        );
    }

    #[test]
    fn late_seconds_are_counted_and_break_it() {
        // Ten bursts of three late periods each, spread over the minute, mean at least 4,000 late
        // seconds per day.
        let late: Vec<u64> = (0..30).map(|n| n / 3 * 6_000 + 2_000 + n % 3).collect();
        let condition = judged(&quiet(60), &late, &asked(1_000.0));
        assert_eq!((condition.late, condition.late_seconds), (30, Some(10)));
        assert_eq!(condition.longest_series, Some(3));
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

    /// A loop that is late in each period has 86,400 late seconds a day. It once counted as a
    /// single event, and was held.
    #[test]
    fn loop_that_is_always_late_is_broken() {
        let late: Vec<u64> = (0..60_000).collect();
        for per_day in [10.0, 20_000.0, 60_000.0] {
            let condition = judged(&quiet(60), &late, &asked(per_day));
            assert_eq!(condition.outcome, Outcome::Broken, "{condition:?}");
            assert_eq!(condition.per_day_at_most, Some(86_400.0));
        }
        // Nearly always late, with pauses of a few periods.
        let late: Vec<u64> = (0..60_000).filter(|n| n % 100 > 2).collect();
        let condition = judged(&quiet(60), &late, &asked(20_000.0));
        assert_eq!(condition.outcome, Outcome::Broken, "{condition:?}");
    }

    #[test]
    fn tolerated_windows_make_no_late_second() {
        let mut weakly = asked(5_000.0);
        weakly.misses = Some("2/10".parse().unwrap());
        // Two late periods in a row in each second are tolerated.
        let pairs: Vec<u64> = (0..120).map(|n| n / 2 * 1_000 + n % 2).collect();
        let condition = judged(&quiet(60), &pairs, &weakly);
        assert_eq!(condition.outcome, Outcome::Held, "{condition:?}");
        assert_eq!(condition.windows.unwrap().worst, 2);
        assert_eq!(condition.counted(), (0, "violated seconds"));
        assert_eq!(condition.late_seconds, Some(60));
        // Three are not.
        let threes: Vec<u64> = (0..180).map(|n| n / 3 * 1_000 + n % 3).collect();
        let condition = judged(&quiet(60), &threes, &weakly);
        assert_eq!(condition.outcome, Outcome::Broken, "{condition:?}");
        assert_eq!(condition.counted(), (60, "violated seconds"));
    }

    /// Missed periods that no sample shows may have been in any second.
    #[test]
    fn missed_periods_at_unknown_times_prove_nothing() {
        let mut recording = quiet(60);
        recording.threads[0].accounting.missed = 2;
        recording.threads[0].open = None;
        let condition = judged(&recording, &[], &asked(10_000.0));
        assert_eq!(condition.outcome, Outcome::NotProven);
        assert!(
            condition.lacking[0].contains("2 missed periods"),
            "{condition:?}"
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
        lacks(|one| one.series.dropped = 3, "time series lacks 3 samples");
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
        // First, a few late periods, all in the first half of an hour. Then more of them, all in
        // its first tenth.
        let late: Vec<u64> = (0..9).map(|n| n * 150_000 + 7).collect();
        let slow = judged(&quiet(3_600), &late, &asked(10_000.0));
        assert_eq!(
            (slow.outcome, slow.per_day_at_most),
            (Outcome::NotProven, None)
        );
        assert!(slow.lacking[0].contains("8 times as long"), "{slow:?}");
        let late: Vec<u64> = (0..12).map(|n| n * 30_000).collect();
        let unsettled = judged(&quiet(3_600), &late, &asked(10_000.0));
        assert_eq!(unsettled.outcome, Outcome::NotProven);
        let why = "the machine had not settled after the warm-up: 12 of 12 late seconds";
        assert!(unsettled.lacking[0].contains(why), "{unsettled:?}");
    }

    /// The processor is throttled for a while in the middle of the run, and cools down again. Nearly
    /// all late seconds are from this time.
    #[test]
    fn late_seconds_that_follow_throttling_prove_nothing() {
        let mut recording = quiet(600);
        let late: Vec<u64> = [200, 240, 290, 305, 340, 380]
            .map(|second| second * 1_000 + 7)
            .into();
        let plain = judged(&recording, &late, &asked(20_000.0));
        assert_eq!(plain.outcome, Outcome::Held, "{plain:?}");
        let point = |at: u64| punctual_model::PowerPoint {
            at_ns: Nanos::from_secs(at * 10),
            mean_khz: Some(if (18..40).contains(&at) {
                1_200_000
            } else {
                3_600_000
            }),
            max_milli_celsius: None,
        };
        recording.interference.power = Some(punctual_model::Power {
            points: (0..60).map(point).collect(),
            ..punctual_model::Power::default()
        });
        let throttled = judged(&recording, &late, &asked(20_000.0));
        assert_eq!(
            (throttled.outcome, throttled.per_day_at_most),
            (Outcome::NotProven, None)
        );
        let why = "late seconds follow the frequency of the CPUs";
        assert!(throttled.lacking[0].contains(why), "{throttled:?}");
    }

    /// A late thread without real-time priority proves nothing about a real-time loop.
    #[test]
    fn an_ordinary_thread_breaks_nothing() {
        let mut recording = quiet(60);
        recording.threads[0].scheduling.policy = punctual_model::Policy::Other;
        let late: Vec<u64> = (0..30).map(|n| n * 2_000).collect();
        let condition = judged(&recording, &late, &asked(10.0));
        assert_eq!(condition.outcome, Outcome::NotProven);
    }
}
