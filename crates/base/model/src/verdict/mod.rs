//! Verdicts on requirements, and the confidence of the figures.
//!
//! The verdict answers two separate questions. *Was the requirement met in this run?* is a fact
//! about the measurement, without statistics. *Will the machine meet it?* is a statement about the
//! machine with a confidence, which is valid if the machine behaves all day as it did during the
//! measurement.

mod blocks;
mod claim;
mod drift;
mod grounds;
mod judge;
mod judgement;
mod length;
mod loop_requirement;
mod machine;
mod rate;
mod requirement;
mod sampling;

pub use claim::{Claim, ClaimUnit, Question};
pub use judgement::{JudgedBy, Judgement};
pub use loop_requirement::LoopRequirement;
pub use rate::{
    Decision, Doubt, ERROR, LateSeconds, Looks, Rate, SampledRuns, TIMES_AS_LONG, percent,
};
pub use requirement::{Limit, Metric, MetricError, Requirement};
pub use sampling::{Sampling, SamplingError};

use serde::{Deserialize, Serialize};

pub(crate) use claim::like_these;
pub(crate) use drift::{Late, follows};
pub(crate) use grounds::Grounds;
pub(crate) use length::length;

use crate::{Nanos, ThreadRecord, grouped};

/// Whether the requirement was met, and the confidence of the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The result in one word.
    pub outcome: Outcome,
    /// The result in one sentence.
    pub sentence: String,
    /// Each limit, judged on the thread with the worst result.
    pub limits: Vec<LimitResult>,
    /// The answers, each with its question, bound, confidence, condition and evidence. Empty in
    /// recordings of older versions, and without a requirement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// Upper bound on how often the largest latency is exceeded. Null if the measuring time or the
    /// largest latency is unknown.
    #[serde(default)]
    pub bound: Option<Bound>,
}

/// The result in one word, about the run or about the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// In this run, each limit was met on each thread.
    Met,
    /// In this run, at least one limit was exceeded.
    Exceeded,
    /// In this run, no limit is known to be exceeded, but not every limit can be decided.
    NotDecidable,
    /// The machine holds each limit.
    Held,
    /// The machine breaks at least one limit. `missed` in schema 1.
    #[serde(alias = "missed")]
    Broken,
    /// Neither *held* nor *broken* is proven for the machine. `unknown` in schema 1.
    #[serde(alias = "unknown")]
    NotProven,
    /// There was no limit to check.
    NoRequirement,
}

impl Outcome {
    /// All outcomes, with the words to display.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Met, "met"),
        (Self::Exceeded, "exceeded"),
        (Self::NotDecidable, "not decidable"),
        (Self::Held, "held"),
        (Self::Broken, "broken"),
        (Self::NotProven, "not proven"),
        (Self::NoRequirement, "no requirement"),
    ];

    /// Returns the word to display.
    pub fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(outcome, _)| *outcome == self);
        found.map_or("", |(_, word)| word)
    }

    /// Returns whether the outcome is good: met or held.
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Met | Self::Held)
    }

    /// Returns whether the outcome is bad: exceeded or broken.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Exceeded | Self::Broken)
    }

    /// Returns whether the outcome is open: not decidable or not proven.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::NotDecidable | Self::NotProven)
    }

    /// Combines the results of all limits into one outcome.
    fn new(limits: &[LimitResult], is_of_machine: bool) -> Self {
        let hard = limits.iter().filter(|result| !result.is_warn_level());
        let any = |held: Option<bool>| hard.clone().any(|result| result.held == held);
        match (hard.clone().count() == 0, is_of_machine) {
            (true, _) => Self::NoRequirement,
            // A limit that is known to be exceeded remains exceeded, even if other facts are
            // unknown.
            (_, false) if any(Some(false)) => Self::Exceeded,
            (_, false) if any(None) => Self::NotDecidable,
            (_, false) => Self::Met,
            (_, true) if any(Some(false)) => Self::Broken,
            (_, true) if any(None) => Self::NotProven,
            (_, true) => Self::Held,
        }
    }
}

/// One limit and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitResult {
    /// The limit.
    pub limit: Limit,
    /// The worst value among all threads. Null if a thread measured nothing.
    pub measured: Option<u64>,
    /// The thread with the worst value, as an index into `threads`.
    pub thread: Option<u32>,
    /// Whether the limit was met in this run, or whether the machine holds it, depending on the
    /// requirement. Null if unknown.
    pub held: Option<bool>,
    /// Number of due periods of the thread with the worst value: samples and missed ones.
    #[serde(default)]
    pub periods: Option<u64>,
    /// Reason why the result is open, and what would decide it. Null if it is decided.
    #[serde(default)]
    pub lacking: Option<String>,
    /// Number of periods of that thread that are known to exceed the limit. Present only for limits
    /// on latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<u64>,
}

/// Upper bound on how often a latency is exceeded. It counts seconds instead of samples, because
/// late periods that follow each other closely have a common cause ([`LateSeconds`]). No latency
/// exceeded it in the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The largest observed latency.
    pub exceeded_ns: Nanos,
    /// Upper bound of the number of seconds per day with a latency above it. Null in recordings of
    /// older versions.
    #[serde(default)]
    pub late_seconds_per_day: Option<f64>,
    /// Upper bound of the number of episodes per day, in recordings of older versions. An episode
    /// was a series of late periods without a pause longer than 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episodes_per_day: Option<f64>,
    /// Confidence of the bound, 0 to 1.
    pub confidence: f64,
    /// The time without a larger latency, as far as known.
    pub measured_ns: Nanos,
    /// The thread that the bound describes, if the threads measure different things.
    #[serde(default)]
    pub thread: Option<String>,
    /// Reason why the run cannot support the bound: its tail changed during the run. Absent if it
    /// can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// The phase that the bound describes, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// A shorter run says nothing about a day: even without a late period, each second of
/// the day may be late.
const SHORTEST: Nanos = Nanos::from_secs(3);

impl Bound {
    /// Returns the bound for a largest latency over a measuring time, with `unknown` periods that
    /// may have exceeded it.
    fn new(exceeded: Nanos, measured: Nanos, unknown: u64, thread: Option<String>) -> Option<Self> {
        let rate = Rate::plain(unknown, measured);
        Some(Self {
            exceeded_ns: exceeded,
            late_seconds_per_day: Some(rounded_up(rate.per_day(rate.at_most(ERROR))?.min(DAY))),
            episodes_per_day: None,
            confidence: 1.0 - ERROR,
            measured_ns: measured,
            thread,
            doubt: None,
            phase: None,
        })
    }

    /// Returns the bound as a sentence:
    /// `at most 4,314 seconds a day have a latency above 41.2 µs (95%, if the rest of the day is
    /// like these 60.0 s)`. If each second of the day may be late, reports why.
    pub fn sentence(&self) -> String {
        if self.measured_ns < SHORTEST {
            return format!(
                "too short for a bound: {} measured, but 3 s are needed",
                self.measured_ns
            );
        }
        if self.late_seconds_per_day >= Some(DAY) {
            return "no bound: too many periods are of unknown latency".to_owned();
        }
        if let Some(doubt) = &self.doubt {
            return format!("no bound: {doubt}");
        }
        let on = match &self.thread {
            None => String::new(),
            Some(thread) => format!(" on {thread}"),
        };
        let like = match &self.phase {
            None => String::new(),
            Some(phase) => format!(" of phase {phase}"),
        };
        let what = match (self.late_seconds_per_day, self.episodes_per_day) {
            (Some(seconds), _) => format!("{} seconds a day have a latency above", number(seconds)),
            (None, Some(episodes)) => format!("{} episodes a day exceed", number(episodes)),
            (None, None) => return "no bound is known".to_owned(),
        };
        format!(
            "at most {what} {}{on} ({}, if the rest of the day is like these {}{like})",
            self.exceeded_ns,
            percent(self.confidence),
            self.measured_ns,
        )
    }
}

/// Seconds in a day.
const DAY: f64 = 86_400.0;

/// Rounds up to four decimal places, so that the number in JSON is exactly the same.
fn rounded_up(rate: f64) -> f64 {
    (rate * 1e4).ceil() / 1e4
}

/// Returns `4,314` or `0.5`, rounded up.
pub(crate) fn number(per_day: f64) -> String {
    match per_day {
        rate if rate >= 10.0 => grouped(rate.ceil() as u64),
        rate if rate >= 0.1 => format!("{:.1}", (rate * 10.0).ceil() / 10.0),
        rate => format!("{:.4}", rounded_up(rate)),
    }
}

impl LimitResult {
    /// Returns whether this is a warn level, which never changes the outcome.
    pub fn is_warn_level(&self) -> bool {
        self.limit.metric == Metric::Warn
    }

    /// Returns whether a latency is known to be above the warn level.
    pub fn is_reached_warn_level(&self) -> bool {
        self.is_warn_level() && self.held == Some(false)
    }

    /// Returns the result in words: `max is 100 µs on CPU 1, limit 99 µs`.
    pub fn sentence(&self, threads: &[ThreadRecord]) -> String {
        let Self {
            limit,
            measured,
            lacking,
            ..
        } = self;
        let (value, at_most) = limit.metric.show_apart(*measured, limit.at_most);
        let thread = self.thread.and_then(|place| threads.get(place as usize));
        let place = thread.map_or_else(String::new, |thread| format!(" on {}", thread.title()));
        let what = self.quantity(thread);
        let mut text = match (limit.metric, measured, self.held) {
            (Metric::Break, Some(_), Some(false)) => {
                return format!("{value}{place} exceeds the break value {at_most}");
            }
            (Metric::Break, _, Some(true)) => return format!("break value {at_most} not exceeded"),
            (Metric::Warn, Some(_), _) => format!("max is {value}{place}, warn level {at_most}"),
            (metric, Some(measured), _) => {
                let least = thread.is_some_and(|thread| is_at_least(metric, *measured, thread));
                let is = if least { "is at least" } else { "is" };
                format!("{what} {is} {value}{place}, limit {at_most}")
            }
            (_, None, _) => format!("{what} could not be measured{place}, limit {at_most}"),
        };
        if let Some(lacking) = lacking {
            text.push_str(&format!(" ({lacking})"));
        }
        text
    }
}

impl LimitResult {
    /// Returns the name of the limited quantity: `p99`, or `p99 of due periods` if periods were
    /// missed.
    fn quantity(&self, thread: Option<&ThreadRecord>) -> String {
        match self.limit.metric {
            Metric::Percentile(_) if thread.is_some_and(|t| t.accounting.missed > 0) => {
                format!("{} of due periods", self.limit.metric)
            }
            metric => metric.to_string(),
        }
    }
}

/// Returns whether a value is only a lower bound, because it comes from periods that still had no
/// wake-up at the end of the run.
fn is_at_least(metric: Metric, value: u64, thread: &ThreadRecord) -> bool {
    if thread.open.is_none() {
        return false;
    }
    let due = thread.due();
    match metric {
        Metric::Max | Metric::Warn => due.open_at_least() >= Some(Nanos(value)),
        Metric::Percentile(percent) => (due.quantile(percent / 100.0))
            .is_some_and(|bounds| bounds.at_most != Some(bounds.at_least)),
        Metric::Missed | Metric::Misses { .. } | Metric::Break => false,
    }
}

impl Verdict {
    /// Withdraws a positive result and gives `void` as the reason.
    pub(crate) fn make_void(&mut self, void: String) {
        for limit in &mut self.limits {
            if limit.held == Some(true) {
                (limit.held, limit.lacking) = (None, Some(void.clone()));
            }
        }
        for claim in self.claims.iter_mut().filter(|claim| claim.decides) {
            claim.make_void(&void);
        }
        self.sentence = if self.outcome.is_bad() {
            format!("{}; {void}", self.sentence)
        } else {
            void
        };
        self.outcome = match self.outcome {
            Outcome::Met => Outcome::NotDecidable,
            Outcome::Held => Outcome::NotProven,
            other => other,
        };
    }

    /// Returns the confidence of the maximum in words, or `None` if it is unknown, or if the verdict
    /// contains the bound of a check-up.
    pub fn confidence(&self) -> Option<String> {
        let mut claims = self.claims.iter();
        let is_bounded = claims.any(|claim| claim.unit == ClaimUnit::SecondsPerDay);
        let bound = self.bound.as_ref().filter(|_| !is_bounded);
        bound.map(Bound::sentence)
    }
}

#[cfg(test)]
mod sentence_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_questions;
