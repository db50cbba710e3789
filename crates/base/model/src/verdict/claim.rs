//! Claims: the answers of a verdict, with everything that a reader needs to judge them.

use serde::{Deserialize, Serialize};

use super::{LimitResult, Outcome, percent};
use crate::{Metric, Nanos, ThreadRecord, counted, grouped};

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
pub(crate) fn like_these(measured: Nanos) -> String {
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
