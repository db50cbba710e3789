//! Judges a recording: by its own data, or by the data that a check-up adds.

use crate::verdict::{Grounds, Late, follows};
use crate::{
    Accounting, Claim, Completion, Condition, Judgement, LoopRequirement, Nanos, Outcome,
    PowerPoint, Recording, Unknown, Verdict,
};

/// Name of the probe that takes a sample in each interval.
const TIMER: &str = "timer";

/// Sentence of a run that proves nothing alone.
const ONE_OF_MANY: &str =
    "one run of a sampled series: punctual check --series judges its runs together";

impl Recording {
    /// Judges the measurement by its requirement and break threshold. A recording that is part of a
    /// check-up, an experiment or a search gets the verdict of the whole.
    pub fn judge(&self) -> Verdict {
        let unfinished = "not proven: the check-up has not ended";
        match (&self.judgement, &self.requirement.periodic) {
            (Some(judgement), _) => {
                let own = self.judge_alone();
                Verdict {
                    outcome: judgement.outcome,
                    sentence: judgement.sentence.clone(),
                    claims: judgement.claims.iter().cloned().chain(own.claims).collect(),
                    ..own
                }
            }
            // A received recording keeps the verdict of its check-up as a statement of its sender.
            (None, Some(asked))
                if self.sender_judgement.is_none() && self.needs_check_up(asked) =>
            {
                Verdict {
                    outcome: Outcome::NotProven,
                    sentence: unfinished.to_owned(),
                    ..self.judge_alone()
                }
            }
            (None, _) => self.judge_data(),
        }
    }

    /// Judges the measurement by its data alone, whether or not it is part of a check-up, an
    /// experiment or a search.
    pub fn judge_data(&self) -> Verdict {
        let own = self.judge_alone();
        match &self.requirement.periodic {
            // The runs of a sampled series are judged together.
            Some(asked) if asked.sample.is_some() => match own.outcome {
                Outcome::NoRequirement => Verdict {
                    sentence: ONE_OF_MANY.to_owned(),
                    ..own
                },
                _ => own,
            },
            // The jobs of an application are judged by the recording alone.
            Some(asked) if self.has_jobs(asked) => {
                let condition = Condition::of_jobs(self, asked);
                let claim = condition.claim(asked, true);
                Verdict {
                    outcome: claim.outcome,
                    sentence: condition.sentence(&claim),
                    claims: std::iter::once(claim).chain(own.claims).collect(),
                    ..own
                }
            }
            _ => own,
        }
    }

    /// Returns whether only a check-up can judge the requirement. Without a limit of late seconds,
    /// period and budget only describe an application.
    fn needs_check_up(&self, asked: &LoopRequirement) -> bool {
        asked.sample.is_none() && !self.has_jobs(asked) && self.probe.application().is_none()
    }

    /// Returns whether the recording has the jobs that a requirement is about.
    fn has_jobs(&self, asked: &LoopRequirement) -> bool {
        let explanation = self.explanation.as_ref();
        let watched = explanation.is_some_and(|explanation| explanation.jobs.is_some());
        asked.max_late_seconds_per_day.is_some()
            && self.completion != Completion::Running
            && (asked.jobs && watched || self.probe.application().is_some())
    }

    /// Returns the answers of the verdict. Those of recordings of older versions are judged anew.
    pub fn claims(&self) -> Vec<Claim> {
        if self.verdict.claims.is_empty() && !self.verdict.limits.is_empty() {
            return self.judge().claims;
        }
        self.verdict.claims.clone()
    }

    /// Returns the requirement of the periodic loop that a check-up judged, or that is judged over
    /// the runs of a series.
    pub fn periodic(&self) -> Option<&LoopRequirement> {
        let asked = (self.judgement.as_ref()).and_then(|judgement| judgement.asked.as_ref());
        self.requirement.periodic.as_ref().or(asked)
    }

    /// Applies the verdict of the check-up, experiment or search that includes the recording.
    pub fn be_judged(&mut self, judgement: Judgement) {
        self.judgement = Some(judgement);
        self.verdict = self.judge();
    }

    /// Judges a received recording by its data and ignores the verdict of its sender. The verdict
    /// of a check-up, experiment or search is based on more than this recording. It is kept as the
    /// statement of the sender, which decides nothing.
    pub fn judge_anew(&mut self) {
        if let Some(judgement) = self.judgement.take() {
            self.sender_judgement = Some(judgement);
        }
        self.verdict = self.judge();
    }

    /// Judges this recording by itself, without the verdict of a check-up, experiment or search. A
    /// measurement during a failed load meets no requirement.
    fn judge_alone(&self) -> Verdict {
        let mut verdict = self.judge_measured();
        let failed = self.load.iter().filter(|load| load.failed);
        let named = failed.map(|load| match &load.phase {
            Some(phase) => format!("load {} failed in phase {phase}", load.name),
            None => format!("load {} failed", load.name),
        });
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            verdict.make_void(format!("void: {}", named.join(", ")));
        }
        verdict
    }

    fn judge_measured(&self) -> Verdict {
        let crossed = self.completion == Completion::Break;
        self.requirement.judge_by(&Grounds {
            threads: &self.threads,
            measured: (0..self.threads.len())
                .map(|place| self.measured_for(place))
                .collect(),
            series: Some(&self.series),
            quantity: Some(self.probe.quantity()),
            missed_unknown: !self.knows(Unknown::Missed) || self.probe.not_counted().is_some(),
            alike: self.threads_are_alike(),
            break_value: (self.duration_parameter("break_ns")).map(|limit| (limit, crossed)),
            suspensions: &self.suspensions,
            largest: &self.top_samples,
            readings: self.readings(),
            phases: self.phases(),
        })
    }

    /// Returns the measuring time of a thread without its warm-up. `None` if unknown.
    fn measured_for(&self, place: usize) -> Option<Nanos> {
        let Accounting {
            expected,
            recorded,
            missed,
            ..
        } = self.threads.get(place)?.accounting;
        let due = recorded.saturating_add(missed);
        if self.probe.name == TIMER
            && let Some(interval) = self.duration_parameter("interval_ns")
        {
            return Some(Nanos(interval.0.saturating_mul(due)));
        }
        if !self.knows(Unknown::Duration) {
            return None;
        }
        let length = match self.phases().len() {
            0 | 1 => self.duration_ns,
            // The phases may have different lengths, so use the rows of the thread in the time
            // series.
            _ => self.rows_of(place)?,
        };
        let mut share = due as f64 / expected.max(due).max(1) as f64;
        // A spinning probe spins only during a part of each window.
        if let (Some(width), Some(window)) = (
            self.duration_parameter("width_ns"),
            self.duration_parameter("window_ns"),
        ) {
            share *= (width.0 as f64 / window.0.max(1) as f64).min(1.0);
        }
        Some(Nanos((length.0 as f64 * share) as u64))
    }

    /// Returns the reason why late seconds, by their number since `start`, say nothing about the rest
    /// of the day: they follow a drift of the temperature or the frequency during `length`. `unit` is
    /// their name. `None` without such readings.
    pub fn drift_of_seconds(
        &self,
        seconds: impl Iterator<Item = u64>,
        (start, length): (Nanos, Nanos),
        dispersion: f64,
        unit: &str,
    ) -> Option<String> {
        let late = seconds.map(|number| Late {
            at: start + Nanos::from_secs(number),
            count: 1,
        });
        let late: Vec<Late> = late.collect();
        follows(self.readings(), &late, (start, length), dispersion, unit)
    }

    /// Returns the readings of temperature and frequency during the run.
    fn readings(&self) -> &[PowerPoint] {
        let power = self.interference.power.as_ref();
        power.map_or(&[], |power| power.points.as_slice())
    }

    /// Returns the names of the run's phases.
    fn phases(&self) -> Vec<&str> {
        let list = self.probe.parameters.get("phases");
        let list = list.and_then(|list| list.as_array());
        list.map_or_else(Vec::new, |list| {
            list.iter().filter_map(|name| name.as_str()).collect()
        })
    }

    /// Returns the time from the first row of a thread in the time series to its last.
    fn rows_of(&self, place: usize) -> Option<Nanos> {
        let rows = self
            .series
            .rows
            .iter()
            .filter(|row| row.thread as usize == place);
        let starts = rows.map(|row| row.start_ns);
        let (first, last) = (starts.clone().min()?, starts.max()?);
        Some(last - first + self.series.interval_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::testing::{recording, week};
    use crate::{JudgedBy, LimitResult, Origin, RecordingId};

    fn asked() -> LoopRequirement {
        LoopRequirement {
            sample: None,
            ..week(10.0, |_| Some(0)).asked
        }
    }

    fn judgement(outcome: Outcome, asked: Option<LoopRequirement>) -> Judgement {
        Judgement {
            by: JudgedBy::Check,
            experiment: Some(RecordingId::new()),
            outcome,
            sentence: "said by the check-up".to_owned(),
            asked,
            claims: Vec::new(),
        }
    }

    #[test]
    fn verdict_of_a_check_up_replaces_that_of_the_data() {
        let mut run = recording(1, 2);
        let alone = run.judge();
        assert_eq!(alone.outcome, Outcome::Met, "{}", alone.sentence);
        run.be_judged(judgement(Outcome::Broken, None));
        assert_eq!(run.verdict.outcome, Outcome::Broken);
        assert_eq!(run.verdict.sentence, "said by the check-up");
        // The facts about the run stay.
        assert_eq!(
            (&run.verdict.limits, &run.verdict.bound),
            (&alone.limits, &alone.bound)
        );
        assert_eq!(run.verdict.claims, alone.claims);
        let mut more = judgement(Outcome::Held, None);
        more.claims = vec![alone.claims[0].clone(); 2];
        run.be_judged(more);
        assert_eq!(run.verdict.claims.len(), 2 + alone.claims.len());

        // Another machine's judgement is only its statement.
        run.judge_anew();
        assert_eq!(run.verdict, alone);
        assert_eq!(
            run.sender_judgement.as_ref().unwrap().outcome,
            Outcome::Held
        );
        run.judge_anew();
        assert!(run.sender_judgement.is_some(), "it is kept");
    }

    #[test]
    fn periodic_requirement_waits_for_its_check_up() {
        let mut run = recording(1, 2);
        run.requirement.periodic = Some(asked());
        let open = run.judge();
        assert_eq!(open.outcome, Outcome::NotProven);
        assert_eq!(open.sentence, "not proven: the check-up has not ended");
        assert_eq!(run.judge_data().outcome, Outcome::Met);
        run.sender_judgement = Some(judgement(Outcome::Held, None));
        assert_eq!(run.judge().outcome, Outcome::Met, "a received recording");

        // A run of a sampled series is judged with the others, but its own limits count.
        run.sender_judgement = None;
        run.requirement.periodic = Some(week(10.0, |_| Some(0)).asked);
        assert_eq!(run.judge().outcome, Outcome::Met);
        run.requirement.limits.clear();
        let one = run.judge();
        assert_eq!(
            (one.outcome, one.sentence.as_str()),
            (Outcome::NoRequirement, ONE_OF_MANY)
        );
        // Without any requirement, there is nothing to judge.
        run.requirement.periodic = None;
        assert_ne!(run.judge().sentence, ONE_OF_MANY);
    }

    #[test]
    fn requirement_of_the_recording_is_preferred_to_that_of_the_judgement() {
        let mut run = recording(1, 1);
        assert_eq!(run.periodic(), None);
        let other = LoopRequirement {
            budget_ns: Nanos(7),
            ..asked()
        };
        run.judgement = Some(judgement(Outcome::Held, Some(other.clone())));
        assert_eq!(run.periodic(), Some(&other));
        run.requirement.periodic = Some(asked());
        assert_eq!(run.periodic(), Some(&asked()));
    }

    #[test]
    fn claims_of_older_recordings_are_made_from_their_limits() {
        let mut run = recording(1, 2);
        let claims = run.verdict.claims.clone();
        assert!(!claims.is_empty());
        assert_eq!(run.claims(), claims);
        run.verdict.claims.clear();
        assert_eq!(run.claims(), claims);
        run.verdict.limits.clear();
        assert_eq!(run.claims(), []);
        run.verdict.claims = vec![claims[0].clone(); 3];
        run.verdict.limits = Vec::<LimitResult>::new();
        assert_eq!(run.claims().len(), 3, "stored claims are not made again");
    }

    #[test]
    fn failed_load_voids_a_good_verdict() {
        let mut run = recording(1, 2);
        run.load[0].failed = true;
        let void = run.judge();
        assert_eq!(void.outcome, Outcome::NotDecidable);
        assert_eq!(void.sentence, "void: load command failed");
        run.load.push(run.load[0].clone());
        run.load[1].phase = Some("disk".to_owned());
        run.load[1].name = "io".to_owned();
        let text = "void: load command failed, load io failed in phase disk";
        assert_eq!(run.judge().sentence, text);
        run.requirement.limits[0].at_most = 1;
        let bad = run.judge();
        assert_eq!(bad.outcome, Outcome::Exceeded);
        assert!(
            bad.sentence.ends_with(&format!("; {text}")),
            "{}",
            bad.sentence
        );
    }

    #[test]
    fn measured_time_is_without_warm_up() {
        let mut run = recording(2, 3);
        // Three seconds of 1 ms periods, three of them missed on CPU 0; a second of warm-up.
        assert_eq!(run.measured_for(0), Some(Nanos::from_millis(3_003)));
        assert_eq!(run.measured_for(1), Some(Nanos::from_millis(3_000)));
        assert_eq!(run.measured_for(2), None);
        let second = |ns: u64| Some(Nanos(ns));
        // Other probes have no period: a share of the run, here 3,000 of 4,000 wake-ups in 4 s.
        run.probe.name = "spin".to_owned();
        assert_eq!(run.measured_for(1), second(3_000_000_000));
        run.threads[1].accounting.expected = 0;
        assert_eq!(run.measured_for(1), second(4_000_000_000));
        for (name, value) in [("width_ns", 250), ("window_ns", 1_000)] {
            run.probe.parameters.insert(name.to_owned(), value.into());
        }
        assert_eq!(run.measured_for(1), second(1_000_000_000));
        run.probe
            .parameters
            .insert("width_ns".to_owned(), 9_000.into());
        assert_eq!(run.measured_for(1), second(4_000_000_000));
        run.probe.parameters.remove("width_ns");
        // With several phases, the rows of the thread show its time.
        let phases = serde_json::json!(["idle", "disk"]);
        run.probe.parameters.insert("phases".to_owned(), phases);
        assert_eq!(run.measured_for(1), second(3_000_000_000));
        run.series.rows.retain(|row| row.thread == 0);
        assert_eq!(run.measured_for(1), None);
        run.probe
            .parameters
            .insert("phases".to_owned(), serde_json::json!(["idle"]));
        assert_eq!(run.measured_for(1), second(4_000_000_000));
        run.origin = Some(Origin {
            format: String::new(),
            tool: String::new(),
            file: String::new(),
            unknown: [Unknown::Duration].into(),
        });
        assert_eq!(run.measured_for(1), None);
        run.probe.name = TIMER.to_owned();
        assert_eq!(
            run.measured_for(1),
            second(3_000_000_000),
            "the periods show it"
        );
    }
}
