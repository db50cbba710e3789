//! The runs of a series over time: levels, change points, spikes, and what changed on the
//! machine between them.
//!
//! Runs are kept apart by load and class of CPUs ([`Run`]). Of each such group three
//! series are followed: how many due periods exceed a threshold (the tail), and p50 and
//! p99 (the body). [`judge`] is a pure function: the same runs give the same trend.

mod facts;
mod followings;
mod judge;
mod near;
mod runs;
mod sentence;
#[cfg(test)]
mod tests;
mod thresholds;

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual_model::{CpuClass, MeasuredOn, Nanos, RecordingId, grouped};
use serde::{Deserialize, Serialize};

use crate::JsonSchema;

pub use facts::{FINDING, FactsDiffer, OPTION, difference, facts_differ, facts_of, measured_how};
pub use judge::judge;
pub use runs::{Rows, Run, Setup, runs_of};

/// The version of the JSON form of a trend.
pub const TREND_SCHEMA: u32 = 1;

/// What is asked of a trend.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The name of the series.
    pub series: String,
    /// What it is limited to.
    pub asked: Asked,
    /// Slots that did not run.
    pub holes: Vec<Hole>,
    /// What people noted.
    pub notes: Vec<Note>,
    /// What people said about earlier change points.
    pub acknowledged: Vec<Acknowledgement>,
}

/// What a trend is limited to; what was not asked for is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Only runs of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Only runs from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Count the due periods above this latency alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<Nanos>,
}

/// The trend of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// The version of this form.
    pub schema: u32,
    /// The name of the series.
    pub series: String,
    /// What it was limited to.
    #[serde(default)]
    pub asked: Asked,
    /// The first run.
    pub from: Option<Timestamp>,
    /// The last run.
    pub to: Option<Timestamp>,
    /// Where the newest run was measured; absent where that was not looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// What it comes to.
    pub verdict: TrendVerdict,
    /// The same as a sentence.
    pub sentence: String,
    /// The groups of runs, by load and class of CPUs.
    pub groups: Vec<Group>,
    /// Differences of the host facts from one run to the next, in order of time.
    pub facts: Vec<FactChange>,
    /// Slots that did not run.
    pub holes: Vec<Hole>,
    /// What people noted.
    pub notes: Vec<Note>,
    /// What people said about change points, also about those that are not found any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acknowledged: Vec<Acknowledgement>,
}

/// What a trend comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrendVerdict {
    /// No group has enough runs to be judged.
    NotJudged,
    /// No worsening stands, or each is acknowledged.
    NoWorsening,
    /// No step to the worse stands, but a figure gets worse slowly.
    Drifting,
    /// A worsening stands that nobody has acknowledged.
    Worse,
}

/// The runs of one load and class of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// The load: `idle`, `cpu+disk`.
    pub load: String,
    /// The class of CPUs.
    pub cpus: CpuClass,
    /// Whether there were enough runs to look for change points.
    pub judged: bool,
    /// Due periods above this are counted for each run; null where it could not be chosen.
    pub threshold_ns: Option<Nanos>,
    /// The tail is followed above each of these, rising.
    #[serde(default)]
    pub thresholds_ns: Vec<Nanos>,
    /// The largest latency that the requirement of the newest run allows.
    pub limit_ns: Option<Nanos>,
    /// Each run, the oldest first.
    pub runs: Vec<RunFigures>,
    /// Change points in order of time.
    pub changes: Vec<ChangePoint>,
    /// Figures that move slowly in one direction since their last change point.
    #[serde(default)]
    pub drifts: Vec<Drifting>,
    /// Runs that stand out alone, as places in `runs`.
    pub spikes: Vec<Spike>,
}

/// One run of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFigures {
    /// The recording.
    pub recording: RecordingId,
    /// When it began.
    pub started: Timestamp,
    /// Periods that came due.
    pub due: u64,
    /// Due periods above the threshold, as far as known; null without threshold.
    pub above: Option<u64>,
    /// Missed periods of unknown latency: not counted above the threshold.
    pub unknown: u64,
    /// 50% of the due periods were not later.
    pub p50_ns: Option<Nanos>,
    /// 99% of the due periods were not later.
    pub p99_ns: Option<Nanos>,
    /// The largest latency.
    pub max_ns: Option<Nanos>,
    /// Whether the run came to its end.
    pub complete: bool,
}

/// What was followed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Followed {
    /// Due periods above the threshold, by due periods.
    Tail,
    /// p99 of a run.
    P99,
    /// p50 of a run.
    P50,
}

impl Followed {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::P99 => "p99",
            Self::P50 => "p50",
        }
    }
}

/// A step of a group to another level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// The name by which it is acknowledged.
    pub id: String,
    /// What changed its level.
    pub followed: Followed,
    /// Of the tail: due periods above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<Nanos>,
    /// The first run of the new level, as a place in `runs`.
    pub run: usize,
    /// Its recording.
    pub recording: RecordingId,
    /// When it began.
    pub at: Timestamp,
    /// With about 95% confidence the first run of the new level began from here,
    pub earliest: Timestamp,
    /// to here.
    pub latest: Timestamp,
    /// The old level: due periods above the threshold per million; ns of p50, p99.
    pub before: f64,
    /// The new level.
    pub after: f64,
    /// New level by old level.
    pub ratio: f64,
    /// Lower end of the interval of the ratio, 95%.
    pub low: f64,
    /// Upper end; null: unbounded.
    pub high: Option<f64>,
    /// The median of the runs' maxima before.
    pub max_before_ns: Option<Nanos>,
    /// And after.
    pub max_after_ns: Option<Nanos>,
    /// The probability of such a step where there is none, although levels wander.
    pub p: f64,
    /// Whether the new level is worse.
    pub worse: bool,
    /// Whether it still stands: the newest level is not back at the old one.
    pub stands: bool,
    /// Facts that changed near it, the nearest first.
    pub facts: Vec<NearFact>,
    /// So many runs before and after were looked at for such facts; null where no fact is
    /// known on both sides.
    #[serde(default)]
    pub facts_within_runs: Option<usize>,
    /// Who acknowledged it, and why; null: nobody.
    pub acknowledged: Option<Acknowledgement>,
}

/// A figure that moves slowly in one direction: a straight line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drifting {
    /// What moves.
    pub followed: Followed,
    /// Of the tail: due periods above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<Nanos>,
    /// The first run of the line, as a place in `runs`; it ends at the last.
    pub run: usize,
    /// When it began.
    pub from: Timestamp,
    /// The level at its start: due periods above the threshold per million; ns of p50, p99.
    pub before: f64,
    /// The level at its end.
    pub after: f64,
    /// The end by the start; null where there is nothing at the start.
    pub ratio: Option<f64>,
    /// Lower end of the interval of that ratio, 95%.
    pub low: f64,
    /// Upper end; null: unbounded.
    pub high: Option<f64>,
    /// The probability of such a line where there is none, although levels wander.
    pub p: f64,
    /// Whether it gets worse.
    pub worse: bool,
}

/// A fact that changed near a change point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearFact {
    /// The fact and its values.
    #[serde(flatten)]
    pub difference: FactDifference,
    /// How many runs after the change point it changed; negative: before, 0: exactly there.
    #[serde(default)]
    pub runs_away: i64,
    /// How often it changed within the runs that were looked at.
    #[serde(default)]
    pub times: usize,
}

/// A run that stands out alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spike {
    /// Its place in `runs`.
    pub run: usize,
    /// The recording.
    pub recording: RecordingId,
    /// When it began.
    pub at: Timestamp,
    /// Its largest latency.
    pub max_ns: Option<Nanos>,
    /// The median maximum of its segment.
    pub usual_max_ns: Option<Nanos>,
    /// Its due periods above the threshold.
    pub above: Option<u64>,
    /// Whether its maximum stands out.
    pub by_max: bool,
    /// Whether its count of late periods stands out.
    pub by_count: bool,
}

/// A fact with two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactDifference {
    /// Its name: `kernel.command_line`.
    pub fact: String,
    /// The value before; null: not known.
    pub before: Option<String>,
    /// The value after; null: not known.
    pub after: Option<String>,
    /// Of a list of words, those that were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Of a list of words, those that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// Facts that changed from one run to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactChange {
    /// The first recording with the new facts.
    pub recording: RecordingId,
    /// When it began.
    pub at: Timestamp,
    /// What changed.
    pub facts: Vec<FactDifference>,
}

/// A slot that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hole {
    /// When it was due.
    pub due: Timestamp,
    /// Why it did not run.
    pub reason: String,
}

/// What somebody noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The time it is about.
    pub at: Timestamp,
    /// The recording it is about.
    pub recording: Option<RecordingId>,
    /// Who wrote it.
    pub who: String,
    /// The text.
    pub text: String,
}

/// A change point that somebody knows of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// The load of its group.
    pub load: String,
    /// The class of CPUs of its group.
    pub cpus: CpuClass,
    /// What changed.
    pub followed: Followed,
    /// Whether it was a worsening.
    pub worse: bool,
    /// The first run of the new level, as it was found then.
    pub recording: RecordingId,
    /// When it began.
    pub at: Timestamp,
    /// Who acknowledged it.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Group {
    /// `idle, isolated CPUs`.
    pub fn name(&self) -> String {
        match self.cpus {
            CpuClass::General => self.load.clone(),
            CpuClass::Isolated => format!("{}, isolated CPUs", self.load),
            CpuClass::Unbound => format!("{}, unbound threads", self.load),
        }
    }

    /// Late periods of a usual run at a level of the tail, which is per million.
    pub fn a_run(&self, level: f64) -> f64 {
        let mut due: Vec<u64> = self.runs.iter().map(|run| run.due).collect();
        due.sort_unstable();
        let usual = due.get(due.len() / 2).copied().unwrap_or(0);
        level * usual as f64 / 1e6
    }

    /// Its runs among all that were judged, the oldest first.
    pub fn pick<'a>(&self, runs: &'a [Run]) -> Vec<&'a Run> {
        let first = self.runs.first().map(|run| run.started);
        let mut own: Vec<&Run> = (runs.iter())
            .filter(|run| run.load == self.load && run.cpus == self.cpus)
            .filter(|run| first.is_some_and(|first| run.started >= first))
            .collect();
        own.sort_by_key(|run| (run.started, run.recording));
        own
    }
}

/// A count or ratio with three digits at most.
pub fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v >= 99.5 => grouped(v.round() as u64),
        v if v >= 9.95 => format!("{v:.0}"),
        v if v >= 0.995 => format!("{v:.1}"),
        v if v >= 0.01 => format!("{v:.2}"),
        _ => "<0.01".to_owned(),
    }
}

/// `late > 310 µs`, `p99`.
fn of_figure(followed: Followed, threshold: Option<Nanos>) -> String {
    match followed {
        Followed::Tail => format!("late > {}", threshold.unwrap_or_default()),
        figure => figure.name().to_owned(),
    }
}

impl Drifting {
    /// What moves: `late > 310 µs`, `p99`.
    pub fn what(&self) -> String {
        of_figure(self.followed, self.threshold_ns)
    }
}

impl ChangePoint {
    /// What changed: `late > 310 µs`, `p99`.
    pub fn what(&self) -> String {
        of_figure(self.followed, self.threshold_ns)
    }

    /// Whether it demands attention.
    pub fn is_open_worsening(&self) -> bool {
        self.worse && self.stands && self.acknowledged.is_none()
    }
}

/// Facts by name; `None` where a value is not known.
pub type Facts = BTreeMap<String, Option<String>>;
