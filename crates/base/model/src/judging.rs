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
