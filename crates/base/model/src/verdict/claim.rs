//! Claims: the answers of a verdict, with everything that a reader needs to judge them.

use serde::{Deserialize, Serialize};

use super::judge::length;
use super::{LimitResult, Outcome, number, percent};
use crate::{Condition, ERROR, LoopRequirement, Metric, Nanos, ThreadRecord, counted, grouped};

/// The answer to one question about a run or a machine. Each output format shows all its parts, so
/// that no part is lost on the way to a certificate or to a continuous integration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Name of the test case: `p99.9 at most 50.0 µs`, `loaded`.
    pub name: String,
    /// What was asked.
    pub question: Question,
    /// The answer in one word.
    pub outcome: Outcome,
    /// Whether the verdict depends on it. If not, it is only information, such as a condition that
    /// was measured for comparison, or a warn level.
    pub decides: bool,
    /// The quantity: `p99.9`, `late seconds a day (periods over 100 µs)`.
    pub quantity: String,
    /// What is required of the quantity: `at most 10`.
    pub required: String,
    /// The bound of the quantity: `at most 4,314`. Null if there is none.
    pub bound: Option<String>,
    /// The measured value: `31.2 µs on CPU 1`. Null if unknown.
    pub measured: Option<String>,
    /// The bound, or else the measured value, as a number in `unit`. Null if unknown.
    pub value: Option<f64>,
    /// The required limit in `unit`.
    pub limit: f64,
    /// Unit of `value` and `limit`.
    pub unit: ClaimUnit,
    /// Confidence of a statement about the machine, 0 to 1. Null for a fact about the run.
    pub confidence: Option<f64>,
    /// Condition under which the statement is valid. Null for a fact about the run.
    pub condition: Option<String>,
    /// The data that it is based on: `0 late seconds in 60.0 s`.
    pub evidence: String,
    /// Reasons why the answer is open, and what would decide it, each in one sentence.
    pub lacking: Vec<String>,
}

/// The question that a claim answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Was the requirement met in this run?
    Run,
    /// Will the machine meet the requirement?
    Machine,
}

/// The unit of the number of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Periods.
    Periods,
    /// Late or violated seconds per day.
    SecondsPerDay,
}

impl Question {
    /// Returns the words for display.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Run => "this run",
            Self::Machine => "the machine",
        }
    }
}

impl Claim {
    /// Returns all parts in one line: `held: at most 4,314 late seconds a day (periods over 100 µs)
    /// without load (95% confidence, if the rest of the day is like these 60.0 s); required: at
    /// most 5,000; 0 late seconds in 60.0 s`.
    pub fn sentence(&self) -> String {
        let in_run = match (self.question, self.outcome) {
            (Question::Run, Outcome::Met | Outcome::Exceeded) => " in this run",
            (Question::Run, _) => " from this run",
            (Question::Machine, _) => "",
        };
        format!("{}{in_run}: {}", self.outcome.word(), self.statement())
    }

    /// Returns the sentence without the outcome.
    pub fn statement(&self) -> String {
        let mut text = match (&self.bound, &self.measured) {
            (Some(bound), _) => format!("{bound} {}", self.quantity),
            (None, Some(measured)) => format!("{} {measured}", self.quantity),
            (None, None) => format!("{} unknown", self.quantity),
        };
        if let (Some(confidence), Some(condition)) = (self.confidence, &self.condition) {
            text.push_str(&format!(
                " ({} confidence, {condition})",
                percent(confidence)
            ));
        }
        text.push_str(&format!("; required: {}; {}", self.required, self.evidence));
        for why in &self.lacking {
            text.push_str(&format!("; {why}"));
        }
        text
    }

    /// Withdraws a good answer.
    pub(super) fn make_void(&mut self, void: &str) {
        self.outcome = match self.outcome {
            Outcome::Met => Outcome::NotDecidable,
            Outcome::Held => Outcome::NotProven,
            other => other,
        };
        self.lacking.push(void.to_owned());
    }
}

/// Returns the condition of a statement about a day.
pub(super) fn like_these(measured: Nanos) -> String {
    format!("if the rest of the day is like these {measured}")
}

impl LimitResult {
    /// Returns the result as a claim. `confidence` is that of the requirement, and `measured` the
    /// measuring time of the thread with the worst value.
    pub(super) fn claim(
        &self,
        confidence: Option<f64>,
        measured: Option<Nanos>,
        threads: &[ThreadRecord],
    ) -> Claim {
        let (metric, at_most) = (self.limit.metric, self.limit.at_most);
        let confidence = confidence.filter(|_| !self.is_warn_level());
        let question = confidence.map_or(Question::Run, |_| Question::Machine);
        let (value, limit) = metric.show_apart(self.measured, at_most);
        let thread = self.thread.and_then(|place| threads.get(place as usize));
        let place = thread.map_or_else(String::new, |thread| format!(" on {}", thread.title()));
        let periods = self.periods.unwrap_or_default();
        let mut evidence = counted(periods, "due period", "due periods");
        if let Some(above) = self.above {
            evidence.push_str(&format!(", {} above the limit", grouped(above)));
        }
        Claim {
            name: match metric {
                Metric::Warn => format!("max below warn level {limit}"),
                _ => format!("{metric} at most {limit}"),
            },
            question,
            outcome: question.outcome(self.held),
            decides: !self.is_warn_level(),
            quantity: match metric {
                Metric::Warn | Metric::Break => "max".to_owned(),
                _ => self.quantity(thread),
            },
            required: format!("at most {limit}"),
            bound: None,
            measured: self.measured.map(|_| format!("{value}{place}")),
            value: self.measured.map(|value| value as f64),
            limit: at_most as f64,
            unit: match metric {
                Metric::Missed | Metric::Misses { .. } => ClaimUnit::Periods,
                _ => ClaimUnit::Nanoseconds,
            },
            confidence,
            condition: confidence.and(measured).map(like_these),
            evidence,
            lacking: self.lacking.iter().cloned().collect(),
        }
    }
}

impl Question {
    fn outcome(self, held: Option<bool>) -> Outcome {
        match (self, held) {
            (Self::Run, Some(true)) => Outcome::Met,
            (Self::Run, Some(false)) => Outcome::Exceeded,
            (Self::Run, None) => Outcome::NotDecidable,
            (Self::Machine, Some(true)) => Outcome::Held,
            (Self::Machine, Some(false)) => Outcome::Broken,
            (Self::Machine, None) => Outcome::NotProven,
        }
    }
}

impl Condition {
    /// Returns the result of this condition of a check-up as a claim about the machine. `decides`
    /// is set if the verdict depends on it.
    pub fn claim(&self, asked: &LoopRequirement, decides: bool) -> Claim {
        let (events, unit) = self.counted();
        let allowed = asked.max_late_seconds_per_day.unwrap_or_default();
        let over = match asked.misses {
            None => format!("periods over {}", asked.budget_ns),
            Some(misses) => format!("over {}, more than {misses}", asked.budget_ns),
        };
        let under = if self.loads.is_empty() {
            "without load".to_owned()
        } else {
            format!("under this load ({})", self.loads.join(", "))
        };
        let measured = self.measured_ns;
        let at_least = self.per_day_at_least.filter(|least| *least > allowed);
        let bound = match self.outcome {
            Outcome::Broken => at_least.map(|bound| format!("at least {}", number(bound))),
            _ => (self.per_day_at_most).map(|bound| format!("at most {}", number(bound))),
        };
        let mut lacking = Vec::new();
        if self.outcome == Outcome::NotProven {
            lacking.extend(self.advice(allowed));
            lacking.extend(self.lacking.iter().cloned());
        }
        Claim {
            name: self.name.clone(),
            question: Question::Machine,
            outcome: self.outcome,
            decides,
            quantity: format!("{unit} a day ({over}) {under}"),
            required: format!("at most {}", number(allowed)),
            bound,
            measured: Some(match self.outcome {
                Outcome::Broken => "more than allowed for a whole day".to_owned(),
                _ => "without a bound".to_owned(),
            }),
            value: match self.outcome {
                Outcome::Broken => at_least,
                _ => self.per_day_at_most,
            },
            limit: allowed,
            unit: ClaimUnit::SecondsPerDay,
            confidence: Some(1.0 - ERROR),
            condition: Some(like_these(measured)),
            evidence: self.evidence(events, unit, asked),
            lacking,
        }
    }

    /// Returns what was counted, always with the late periods, their share and their longest
    /// series.
    fn evidence(&self, events: u64, unit: &str, asked: &LoopRequirement) -> String {
        let one = match events {
            1 => unit.strip_suffix('s').unwrap_or(unit),
            _ => unit,
        };
        let mut text = format!(
            "{} {one} in {}, {} of {} late",
            grouped(events),
            self.measured_ns,
            grouped(self.late),
            counted(self.periods, "period", "periods"),
        );
        if self.late > 0 && self.periods > 0 {
            let share = 100.0 * self.late as f64 / self.periods as f64;
            let digits = if share < 0.1 { 4 } else { 1 };
            text.push_str(&format!(" ({share:.digits$}%)"));
        }
        if let Some(series) = self.longest_series.filter(|series| *series > 0) {
            text.push_str(&format!(", longest series {}", grouped(series)));
        }
        if let (Some(windows), Some(misses)) = (self.windows, asked.misses) {
            text.push_str(&format!(
                ", at most {} late in {} consecutive periods",
                grouped(windows.worst),
                grouped(misses.periods().into())
            ));
        }
        text
    }

    /// Returns how long to measure for a proof.
    fn advice(&self, allowed: f64) -> Option<String> {
        let needs = self.needs_ns?;
        let to_prove = format!("to prove at most {} a day", number(allowed));
        let shortest = format!(
            "the shortest run that can prove it takes {} (without a late period)",
            length(needs.as_secs_f64())
        );
        let (events, unit) = self.counted();
        Some(match self.needs_likely_ns {
            Some(_) if events == 0 => format!("{to_prove}, {shortest}"),
            Some(likely) => format!(
                "{to_prove}, measure for {} (long enough in 80% of the runs of a machine like this \
                 one); {shortest}",
                length(likely.as_secs_f64())
            ),
            None => format!(
                "a machine that goes on like this has too many {unit} to prove at most {} a day; \
                 {shortest}",
                number(allowed)
            ),
        })
    }
}
