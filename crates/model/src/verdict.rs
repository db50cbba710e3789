//! Whether a machine held what it must hold, and what the figures are worth.

mod judge;

use serde::{Deserialize, Serialize};

pub(crate) use judge::Grounds;

use crate::poisson::{CONFIDENCE, poisson_upper};
use crate::schema::JsonSchema;
use crate::{Limit, Metric, Nanos, ThreadRecord, grouped};

/// Whether the requirement was held, and what the figures are worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The answer in one word.
    pub outcome: Outcome,
    /// The answer in one sentence.
    pub sentence: String,
    /// Each limit, judged on the thread where it came out worst.
    pub limits: Vec<LimitResult>,
    /// How often the largest latency may be exceeded; null where the time that
    /// was measured or the largest latency is not known.
    #[serde(default)]
    pub bound: Option<Bound>,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Each limit was held on each thread.
    Held,
    /// At least one was not. `missed` in schema 1.
    #[serde(alias = "missed")]
    Broken,
    /// There was no limit to hold.
    NoRequirement,
    /// There were limits, none is known to be broken, and what was measured does
    /// not prove that all were held. `unknown` in schema 1.
    #[serde(alias = "unknown")]
    NotProven,
}

/// One limit, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitResult {
    /// The limit.
    pub limit: Limit,
    /// The worst value of any thread; null where a thread measured nothing.
    pub measured: Option<u64>,
    /// That thread, as its place in `threads`.
    pub thread: Option<u32>,
    /// Whether it was held; null where that is not proven.
    pub held: Option<bool>,
    /// The periods of that thread that came due: samples and missed ones.
    #[serde(default)]
    pub periods: Option<u64>,
    /// Why it is not proven, and what would prove it; null where it is.
    #[serde(default)]
    pub lacking: Option<String>,
}

/// How often a latency is exceeded at most. Late periods come in episodes that
/// share a cause, so episodes are counted and not samples; in the time measured
/// there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    /// The largest latency that was seen.
    pub exceeded_ns: Nanos,
    /// At most so many episodes a day exceed it.
    pub episodes_per_day: f64,
    /// How sure that is, 0 to 1.
    pub confidence: f64,
    /// The time in which none did, or none that is known.
    pub measured_ns: Nanos,
    /// The one thread it is about, where the threads are not alike.
    #[serde(default)]
    pub thread: Option<String>,
}

/// Of less than this a bound a day says nothing to a reader: millions.
const SHORTEST: Nanos = Nanos::from_secs(1);

impl Bound {
    /// The bound for a largest latency, measured for so long, with `unknown`
    /// periods of which nobody knows whether they exceeded it.
    fn of(exceeded: Nanos, measured: Nanos, unknown: u64, thread: Option<String>) -> Option<Self> {
        const DAY: f64 = 86_400.0;
        (measured > Nanos::ZERO).then(|| Self {
            exceeded_ns: exceeded,
            episodes_per_day: rounded_up(poisson_upper(unknown) * DAY / measured.as_secs_f64()),
            confidence: CONFIDENCE,
            measured_ns: measured,
            thread,
        })
    }

    /// `at most 4,314 episodes a day exceed 41.2 µs (95% confidence, 60.0 s
    /// measured)`; of less than a second, that it is too short.
    pub fn sentence(&self) -> String {
        if self.measured_ns < SHORTEST {
            return format!(
                "too short for a bound: {} measured, 1 s needed",
                self.measured_ns
            );
        }
        let on = match &self.thread {
            None => String::new(),
            Some(thread) => format!(" on {thread}"),
        };
        format!(
            "at most {} exceed {}{on} ({:.0}% confidence, {} measured)",
            episodes(self.episodes_per_day),
            self.exceeded_ns,
            self.confidence * 100.0,
            self.measured_ns,
        )
    }
}

/// Few digits, so that JSON holds exactly the same number.
fn rounded_up(rate: f64) -> f64 {
    (rate * 1e4).ceil() / 1e4
}

/// `4,314 episodes a day`, `0.5 episodes a day`; rounded up.
fn episodes(per_day: f64) -> String {
    let number = match per_day {
        rate if rate >= 10.0 => grouped(rate.ceil() as u64),
        rate if rate >= 0.1 => format!("{:.1}", (rate * 10.0).ceil() / 10.0),
        rate => format!("{:.4}", rounded_up(rate)),
    };
    format!("{number} episodes a day")
}

impl LimitResult {
    /// What was found, in words: `max is 100 µs on CPU 1, limit 99 µs`.
    pub fn sentence(&self, threads: &[ThreadRecord]) -> String {
        let Self {
            limit,
            measured,
            lacking,
            ..
        } = self;
        let at_most = limit.metric.show(limit.at_most);
        let thread = self.thread.and_then(|place| threads.get(place as usize));
        let place = thread.map_or_else(String::new, |thread| format!(" on {}", thread.title()));
        let what = match limit.metric {
            Metric::Percentile(_) if thread.is_some_and(|t| t.accounting.missed > 0) => {
                format!("{} of due periods", limit.metric)
            }
            metric => metric.to_string(),
        };
        let mut text = match (limit.metric, measured, self.held) {
            (Metric::Break, Some(value), Some(false)) => {
                let value = limit.metric.show(*value);
                return format!("break value {at_most} crossed by {value}{place}");
            }
            (Metric::Break, _, Some(true)) => return format!("break value {at_most} not crossed"),
            (metric, Some(value), _) => {
                let least = thread.is_some_and(|thread| is_at_least(metric, *value, thread));
                let is = if least { "is at least" } else { "is" };
                let value = limit.metric.show(*value);
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

/// Whether a value is that of periods that had no wake-up at the end: it is larger.
fn is_at_least(metric: Metric, value: u64, thread: &ThreadRecord) -> bool {
    if thread.open.is_none() {
        return false;
    }
    let due = thread.due();
    match metric {
        Metric::Max => due.open_at_least() >= Some(Nanos(value)),
        Metric::Percentile(percent) => (due.quantile(percent / 100.0))
            .is_some_and(|bounds| bounds.at_most != Some(bounds.at_least)),
        Metric::Missed | Metric::Break => false,
    }
}

impl Verdict {
    /// What the maximum is worth, in words; nothing where that is not known.
    pub fn confidence(&self) -> Option<String> {
        self.bound.as_ref().map(Bound::sentence)
    }
}

#[cfg(test)]
mod tests;
