//! The verdict on a machine over the runs of a sampled series.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::LateRun;
use crate::verdict::{length, number};
use crate::{
    Claim, ClaimUnit, Decision, ERROR, LoopRequirement, MeasuredOn, Nanos, Outcome, Question,
    RecordingId, SampledRuns, Sampling, SlotState, counted, grouped,
};

/// The version of [`SeriesProof`] as JSON. It is increased only if a reader of the older form would
/// misread the newer one. Adding a field does not increase it.
pub const SERIES_PROOF_SCHEMA: u32 = 1;

/// Whether a machine holds the requirement of a periodic loop or of an application over a whole
/// period, such as a week, by runs at random times in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesProof {
    /// Version of this JSON form, [`SERIES_PROOF_SCHEMA`].
    pub schema: u32,
    /// The series.
    pub series: String,
    /// Host name of the machine. Null if unknown.
    pub host: Option<String>,
    /// The result in one word.
    pub outcome: Outcome,
    /// The result in one sentence.
    pub sentence: String,
    /// The answer, with bound, confidence, condition and evidence.
    pub claims: Vec<Claim>,
    /// The requirement, with the number of runs.
    pub asked: LoopRequirement,
    /// Epoch of the series. A changed definition starts a new one, and its runs are not mixed with
    /// those of earlier epochs.
    pub epoch: u32,
    /// Seed of the random times, in hexadecimal digits.
    pub seed: String,
    /// Start of the period.
    pub from: Timestamp,
    /// End of the period.
    pub until: Timestamp,
    /// Machine and time of the first run. Null if no run was measured.
    pub measured_on: Option<MeasuredOn>,
    /// Background loads of the first run.
    pub loads: Vec<String>,
    /// Reasons why the runs together prove nothing, each in one sentence: the machine changed
    /// between them.
    pub refused: Vec<String>,
    /// The planned runs of the period, in the order of their due times.
    pub runs: Vec<SampledSlot>,
}

/// A planned run of a sampled series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledSlot {
    /// Number of the run in its period, from 1.
    pub number: u64,
    /// Its random due time.
    pub due: Timestamp,
    /// State of its slot. Null if there is none: the run is not due yet, or the service did not run.
    pub state: Option<SlotState>,
    /// Its recording. Null if there is none.
    pub recording: Option<RecordingId>,
    /// Number of seconds that were late for certain, or violated if the requirement limits windows.
    /// Null if the run is missing.
    pub late_seconds: Option<u64>,
    /// Number of seconds that may have been late.
    pub late_seconds_at_most: Option<u64>,
    /// Largest number of late periods in a window of a thread. Absent unless it is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_window: Option<u64>,
    /// Number of late periods or jobs.
    pub late: Option<u64>,
    /// Number of due periods, or of jobs.
    pub periods: Option<u64>,
    /// Measuring time.
    pub measured_ns: Option<Nanos>,
    /// Whether the run is not due yet.
    pub pending: bool,
    /// Reason why the run is missing. Null if it was measured.
    pub lacking: Option<String>,
}

impl SampledSlot {
    /// Creates a run that has no result yet.
    pub fn new(number: u64, due: Timestamp) -> Self {
        Self {
            number,
            due,
            state: None,
            recording: None,
            late_seconds: None,
            late_seconds_at_most: None,
            worst_window: None,
            late: None,
            periods: None,
            measured_ns: None,
            pending: false,
            lacking: None,
        }
    }

    /// Applies the result of its run.
    pub fn fill(&mut self, result: Result<LateRun, String>) {
        match result {
            Ok(run) => {
                self.late_seconds = Some(run.at_least);
                self.late_seconds_at_most = Some(run.at_most);
                self.worst_window = run.worst_window;
                (self.late, self.periods) = (Some(run.late), Some(run.periods));
                self.measured_ns = Some(run.measured_ns);
            }
            Err(why) => self.lacking = Some(why),
        }
    }
}

impl SeriesProof {
    /// Judges the runs. Sets the outcome, the sentence and the claim.
    pub fn judge(&mut self) {
        let claim = self.claim();
        self.outcome = claim.outcome;
        self.sentence = claim.sentence();
        self.claims = vec![claim];
    }

    fn sample(&self) -> Sampling {
        // A requirement without runs belongs to a check-up.
        self.asked.sample.unwrap_or(Sampling {
            runs: 1,
            length_ns: Sampling::SHORTEST,
            period_ns: Sampling::SHORTEST,
        })
    }

    /// Returns the late seconds of all runs.
    fn sampled(&self) -> SampledRuns {
        let planned = self.sample().length_ns;
        let measured = self.runs.iter().filter_map(|run| run.measured_ns);
        let measured = measured.map(|length| length.min(planned));
        let shortest = measured.clone().min().unwrap_or(planned);
        let mut sampled = SampledRuns::new(shortest, measured.max().unwrap_or(planned));
        for run in &self.runs {
            match (run.late_seconds, run.late_seconds_at_most) {
                (Some(least), Some(most)) => sampled.add(least, most),
                _ => sampled.miss(),
            }
        }
        sampled
    }

    fn pending(&self) -> u64 {
        self.runs.iter().filter(|run| run.pending).count() as u64
    }

    fn claim(&self) -> Claim {
        let asked = &self.asked;
        let allowed = asked.max_late_seconds_per_day.unwrap_or_default();
        let (sample, sampled) = (self.sample(), self.sampled());
        let is_open = !self.refused.is_empty();
        let decision = match sampled.decide(allowed, sample.period_ns, ERROR) {
            _ if is_open => Decision::Open,
            // Runs that are still to come may all be late.
            Decision::Held if self.pending() > 0 => Decision::Open,
            other => other,
        };
        let outcome = match decision {
            Decision::Held => Outcome::Held,
            Decision::Broken => Outcome::Broken,
            Decision::Open => Outcome::NotProven,
        };
        let at_least = sampled.per_day_at_least(ERROR);
        let at_least = at_least.filter(|least| *least > allowed && !is_open);
        let at_most = sampled.per_day_at_most(ERROR);
        let at_most = at_most.filter(|_| !is_open && self.pending() == 0);
        let value = if outcome == Outcome::Broken {
            at_least
        } else {
            at_most
        };
        let side = if outcome == Outcome::Broken {
            "at least"
        } else {
            "at most"
        };
        Claim {
            name: format!("series {}", self.series),
            question: Question::Machine,
            outcome,
            decides: true,
            quantity: self.quantity(),
            required: format!("at most {}", number(allowed)),
            bound: value.map(|bound| format!("{side} {}", number(bound))),
            measured: Some(match outcome {
                Outcome::Broken => "more than allowed for the whole period".to_owned(),
                _ => "without a bound".to_owned(),
            }),
            value,
            limit: allowed,
            unit: ClaimUnit::SecondsPerDay,
            confidence: Some(1.0 - ERROR),
            condition: Some(self.condition(&sampled)),
            evidence: self.evidence(&sampled),
            lacking: match outcome {
                Outcome::NotProven => self.lacking(&sampled, allowed),
                _ => Vec::new(),
            },
        }
    }

    fn quantity(&self) -> String {
        let under = match (self.asked.jobs, self.loads.is_empty()) {
            // The application is measured as it runs, so its load is not known.
            (true, _) => String::new(),
            (false, true) => " without load".to_owned(),
            (false, false) => format!(" under this load ({})", self.loads.join(", ")),
        };
        let (budget, unit) = (self.asked.budget_ns, self.asked.unit());
        match self.asked.misses {
            None => format!("{unit} a day ({} over {budget}){under}", self.units().1),
            Some(misses) => format!("{unit} a day (over {budget}, more than {misses}){under}"),
        }
    }

    /// Returns the names of one and of several counted reactions.
    pub const fn units(&self) -> (&'static str, &'static str) {
        if self.asked.jobs {
            ("job", "jobs")
        } else {
            ("period", "periods")
        }
    }

    /// Returns what the statement is about. The runs were at random times, so it needs no
    /// assumption about the rest of the day. Only a rare disturbance can be missed by all runs.
    fn condition(&self, sampled: &SampledRuns) -> String {
        let period = self.sample().period_ns.as_secs_f64();
        let date = |time: Timestamp| time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC");
        format!(
            "in the {} from {} to {}, except for a disturbance that takes less than {} of them",
            length(period),
            date(self.from),
            date(self.until),
            length(period * sampled.unseen_share(ERROR))
        )
    }

    fn evidence(&self, sampled: &SampledRuns) -> String {
        let [least, most] = sampled.late();
        let late = match most {
            most if most > least => {
                format!(
                    "{} to {} {}",
                    grouped(least),
                    grouped(most),
                    self.asked.unit()
                )
            }
            _ => {
                let several = self.asked.unit();
                counted(least, several.strip_suffix('s').unwrap_or(several), several)
            }
        };
        let sum = |of: fn(&SampledSlot) -> Option<u64>| -> u64 {
            (self.runs.iter().filter_map(of)).fold(0, u64::saturating_add)
        };
        let mut text = format!(
            "{late} in {} of {} runs of {} at random times, {} of {} late",
            sampled.measured(),
            self.runs.len(),
            length(self.sample().length_ns.as_secs_f64()),
            grouped(sum(|run| run.late)),
            counted(sum(|run| run.periods), self.units().0, self.units().1),
        );
        let worst = self.runs.iter().filter_map(|run| run.worst_window).max();
        if let (Some(misses), Some(worst)) = (self.asked.misses, worst) {
            text.push_str(&format!(
                ", at most {} late in {} consecutive periods",
                grouped(worst),
                grouped(misses.periods().into())
            ));
        }
        let missing = sampled.missing() - self.pending();
        if missing > 0 {
            text.push_str(&format!(
                ", {} counted as late",
                counted(missing, "missing run", "missing runs")
            ));
        }
        text
    }

    fn lacking(&self, sampled: &SampledRuns, allowed: f64) -> Vec<String> {
        let mut all = self.refused.clone();
        let pending = self.pending();
        if pending > 0 {
            all.push(format!(
                "{} not due yet: the period ends at {}",
                counted(pending, "run is", "runs are"),
                self.until
            ));
        }
        let missing = sampled.missing() - pending;
        let first = (self.runs.iter()).find_map(|run| Some((run.number, run.lacking.as_ref()?)));
        if let (true, Some((number, why))) = (missing > 0, first) {
            all.push(format!(
                "{} missing and counted as late in each second, the first is run {number}: {why}",
                counted(missing, "run is", "runs are")
            ));
        }
        if self.runs.len() < SampledRuns::LEAST {
            all.push(format!(
                "{} planned, at least {} needed",
                counted(self.runs.len() as u64, "run is", "runs are"),
                SampledRuns::LEAST
            ));
        } else if pending == 0 && sampled.measured() < SampledRuns::LEAST {
            all.push(format!(
                "{} measured, at least {} needed",
                counted(sampled.measured() as u64, "run was", "runs were"),
                SampledRuns::LEAST
            ));
        }
        all.push(match sampled.needed(allowed, ERROR) {
            Some(runs) => format!(
                "to prove at most {} a day, {} runs of {} without {} are needed",
                number(allowed),
                grouped(runs),
                length(self.sample().length_ns.as_secs_f64()),
                self.asked.unit()
            ),
            None => "no number of runs proves that no second is ever late".to_owned(),
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LateRun;
    use crate::testing::week;

    const MINUTE: Nanos = Nanos::from_secs(60);

    #[test]
    fn clean_week_is_held_with_its_condition() {
        let held = week(100.0, |_| Some(0));
        assert_eq!(
            held.sentence,
            "held: at most 72 late seconds a day (periods over 100 µs) without load (95% confidence, \
             in the 7 days from 2026-11-02 09:30 UTC to 2026-11-09 09:30 UTC, except for a \
             disturbance that takes less than 8 h 11 min of them); required: at most 100; 0 late \
             seconds in 60 of 60 runs of 60 s at random times, 0 of 3,600,000 periods late"
        );
        let open = week(10.0, |_| Some(0));
        assert_eq!(open.outcome, Outcome::NotProven);
        assert!(
            open.sentence.contains("432 runs of 60 s"),
            "{}",
            open.sentence
        );
        let broken = week(100.0, |number| Some(number % 5));
        assert_eq!(broken.outcome, Outcome::Broken, "{}", broken.sentence);
        assert!(broken.sentence.contains("at least"), "{}", broken.sentence);
    }

    #[test]
    fn missing_runs_are_named_and_count_as_late() {
        let missing = week(100.0, |number| (number != 4).then_some(0));
        assert_eq!(missing.outcome, Outcome::NotProven);
        for part in [
            "59 of 60 runs",
            "1 missing run counted as late",
            "the first is run 5: missed: the machine was suspended",
        ] {
            assert!(missing.sentence.contains(part), "{}", missing.sentence);
        }
        // The bound includes the missing run, so it can still prove a high limit.
        let high = week(20_000.0, |number| (number != 4).then_some(0));
        assert_eq!(high.outcome, Outcome::Held, "{}", high.sentence);
        assert!(high.claims[0].value > Some(1_440.0));
    }

    /// A limit of windows is in the quantity, and the worst window in the evidence.
    #[test]
    fn windows_are_named_in_the_claim() {
        let mut held = week(100.0, |_| Some(0));
        held.asked.misses = "2/100".parse().ok();
        held.runs[7].worst_window = Some(2);
        held.judge();
        for part in [
            "held: at most 72 violated seconds a day (over 100 µs, more than 2/100) without load",
            "0 violated seconds in 60 of 60 runs",
            "at most 2 late in 100 consecutive periods",
        ] {
            assert!(held.sentence.contains(part), "{}", held.sentence);
        }
    }

    #[test]
    fn unfinished_period_is_never_held() {
        let mut half = week(80_000.0, |_| Some(0));
        for run in &mut half.runs[30..] {
            *run = SampledSlot {
                pending: true,
                ..SampledSlot::new(run.number, run.due)
            };
        }
        half.judge();
        assert_eq!(half.outcome, Outcome::NotProven);
        assert_eq!(half.claims[0].bound, None);
        assert!(half.sentence.contains("30 runs are not due yet"));
        // But it can be broken.
        half.asked.max_late_seconds_per_day = Some(10.0);
        half.runs[0].fill(Ok(LateRun {
            at_least: 60,
            at_most: 60,
            worst_window: None,
            late: 60_000,
            periods: 60_000,
            measured_ns: MINUTE,
        }));
        half.runs[1].late_seconds = Some(11);
        half.runs[1].late_seconds_at_most = Some(11);
        half.judge();
        assert_eq!(half.outcome, Outcome::Broken, "{}", half.sentence);
    }

    #[test]
    fn changed_machine_proves_nothing() {
        let mut changed = week(100.0, |_| Some(0));
        changed.refused = vec!["the kernel changed from 6.1 to 6.12 before run 9".to_owned()];
        changed.judge();
        assert_eq!(changed.outcome, Outcome::NotProven);
        assert_eq!(changed.claims[0].bound, None);
        assert!(changed.sentence.contains("from 6.1 to 6.12 before run 9"));
        let late = week(100.0, |_| Some(60));
        assert_eq!(late.outcome, Outcome::Broken);
    }
}
