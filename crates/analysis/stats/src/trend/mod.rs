//! The runs of a series over time: levels, change points, spikes, and changes of the machine
//! between them.
//!
//! Runs are grouped by load and class of CPUs ([`Run`]). Three series are followed in each group:
//! the number of due periods above a threshold (the tail), p50 and p99 (the body). [`judge`] is a
//! pure function: the same runs give the same trend.

mod facts;
mod followings;
mod judge;
mod near;
#[cfg(test)]
mod rest_tests;
mod runs;
mod sentence;
#[cfg(test)]
mod tests;
mod thresholds;
#[cfg(test)]
mod word_tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual_model::{CpuClass, MeasuredOn, Nanos, RecordingId, grouped};
use serde::{Deserialize, Serialize};

pub use facts::{FINDING, FactsDiffer, OPTION, difference, facts_differ, facts_of, measured_how};
pub use judge::judge;
pub use runs::{Rows, Run, Setup, runs_of};

/// The version of the JSON form of a trend.
pub const TREND_SCHEMA: u32 = 1;

/// The parameters and context of a trend.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The name of the series.
    pub series: String,
    /// The selection of runs.
    pub asked: TrendQuery,
    /// Slots that did not run.
    pub holes: Vec<Hole>,
    /// Notes of users.
    pub notes: Vec<Note>,
    /// Users' acknowledgements of earlier change points.
    pub acknowledged: Vec<Acknowledgement>,
}

/// The selection of runs for a trend. Absent fields do not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrendQuery {
    /// Only runs of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Only runs from this time on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Count only the due periods above this latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<Nanos>,
}

/// The trend of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The version of this form.
    pub schema: u32,
    /// The name of the series.
    pub series: String,
    /// The selection of runs.
    #[serde(default)]
    pub asked: TrendQuery,
    /// Start of the first run.
    pub from: Option<Timestamp>,
    /// Start of the last run.
    pub to: Option<Timestamp>,
    /// Circumstances of the newest run. Absent if they were not looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// The verdict.
    pub verdict: TrendVerdict,
    /// The verdict as a sentence.
    pub sentence: String,
    /// The groups of runs, by load and class of CPUs.
    pub groups: Vec<Group>,
    /// Differences of the host facts from one run to the next, in chronological order.
    pub facts: Vec<FactChange>,
    /// Slots that did not run.
    pub holes: Vec<Hole>,
    /// Notes of users.
    pub notes: Vec<Note>,
    /// Users' acknowledgements of change points, including those that are no longer found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acknowledged: Vec<Acknowledgement>,
}

punctual_model::to_json!(Trend);

/// The verdict of a trend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrendVerdict {
    /// No group has enough runs to be judged.
    NotJudged,
    /// No regression remains, or all remaining ones are acknowledged.
    NoWorsening,
    /// No regression remains, but a figure is slowly getting worse.
    Drifting,
    /// A regression that is not acknowledged remains.
    Worse,
}

/// The runs of one load and class of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The load: `idle`, `cpu+disk`.
    pub load: String,
    /// The class of CPUs.
    pub cpus: CpuClass,
    /// Whether there were enough runs to look for change points.
    pub judged: bool,
    /// Due periods above this are counted for each run. Null if no threshold could be chosen.
    pub threshold_ns: Option<Nanos>,
    /// The thresholds of the tail, in ascending order.
    #[serde(default)]
    pub thresholds_ns: Vec<Nanos>,
    /// The largest latency that the requirement of the newest run allows.
    pub limit_ns: Option<Nanos>,
    /// The runs, the oldest first.
    pub runs: Vec<RunFigures>,
    /// Change points in chronological order.
    pub changes: Vec<ChangePoint>,
    /// Figures that have been moving slowly in one direction since their last change point.
    #[serde(default)]
    pub drifts: Vec<Drifting>,
    /// Single runs that stand out, as indexes into `runs`.
    pub spikes: Vec<Spike>,
}

/// One run of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// The recording.
    pub recording: RecordingId,
    /// Start of the run.
    pub started: Timestamp,
    /// Number of due periods.
    pub due: u64,
    /// Due periods above the threshold, as far as known. Null without a threshold.
    pub above: Option<u64>,
    /// Missed periods of unknown latency, which are not counted above the threshold.
    pub unknown: u64,
    /// p50 of the due periods.
    pub p50_ns: Option<Nanos>,
    /// p99 of the due periods.
    pub p99_ns: Option<Nanos>,
    /// The largest latency.
    pub max_ns: Option<Nanos>,
    /// Whether the run is complete.
    pub complete: bool,
}

/// A figure that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Followed {
    /// The share of due periods above the threshold.
    Tail,
    /// p99 of a run.
    P99,
    /// p50 of a run.
    P50,
}

impl Followed {
    /// Returns the name of the figure.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::P99 => "p99",
            Self::P50 => "p50",
        }
    }
}

/// A step at which a figure of a group changes to another level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// The ID with which the change point is acknowledged.
    pub id: String,
    /// The figure whose level changed.
    pub followed: Followed,
    /// For the tail: the threshold of due periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<Nanos>,
    /// The first run of the new level, as an index into `runs`.
    pub run: usize,
    /// The recording of that run.
    pub recording: RecordingId,
    /// The start of that run.
    pub at: Timestamp,
    /// Earliest start of the first run of the new level, with about 95% confidence.
    pub earliest: Timestamp,
    /// Latest start of that run.
    pub latest: Timestamp,
    /// The old level: due periods above the threshold per million, or ns for p50 and p99.
    pub before: f64,
    /// The new level.
    pub after: f64,
    /// Ratio of the new level to the old one.
    pub ratio: f64,
    /// Lower end of the 95% confidence interval of the ratio.
    pub low: f64,
    /// Upper end. Null if unbounded.
    pub high: Option<f64>,
    /// The median of the runs' maxima before the change.
    pub max_before_ns: Option<Nanos>,
    /// The median of the runs' maxima after the change.
    pub max_after_ns: Option<Nanos>,
    /// The probability of such a step if there is no change, taking into account that levels
    /// wander.
    pub p: f64,
    /// The probability of such a step in a level that only wanders, without the lower end that the
    /// number of permutations sets to `p`.
    #[serde(default)]
    pub p_wandering: f64,
    /// Whether the new level is worse.
    pub worse: bool,
    /// Whether the change remains, which means that the newest level is not back at the old one.
    pub stands: bool,
    /// Facts that changed near the change point, the nearest first.
    pub facts: Vec<NearFact>,
    /// Number of runs before and after the change point that were searched for such facts. Null if
    /// no fact is known both before and after it.
    #[serde(default)]
    pub facts_within_runs: Option<usize>,
    /// The acknowledgement with its author and reason. Null if there is none.
    pub acknowledged: Option<Acknowledgement>,
}

punctual_model::to_json!(ChangePoint);

/// A figure that moves slowly in one direction, as a straight line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drifting {
    /// The figure.
    pub followed: Followed,
    /// For the tail: the threshold of due periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<Nanos>,
    /// The first run of the line, as an index into `runs`. The line ends at the last run.
    pub run: usize,
    /// Start of that run.
    pub from: Timestamp,
    /// The level at the start of the line: due periods above the threshold per million, or ns for
    /// p50 and p99.
    pub before: f64,
    /// The level at the end of the line.
    pub after: f64,
    /// Ratio of the end to the start. Null if the start is zero.
    pub ratio: Option<f64>,
    /// Lower end of the 95% confidence interval of that ratio.
    pub low: f64,
    /// Upper end. Null if unbounded.
    pub high: Option<f64>,
    /// The probability of such a line if there is no drift, taking into account that levels wander.
    pub p: f64,
    /// Whether the figure is getting worse.
    pub worse: bool,
    /// Whether a single step explains the runs about as well as the line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_step: bool,
}

/// A fact that changed near a change point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearFact {
    /// The fact and its values.
    #[serde(flatten)]
    pub difference: FactDifference,
    /// Distance in runs from the change point: negative before the change point, 0 exactly at it.
    #[serde(default)]
    pub runs_away: i64,
    /// Number of changes within the runs that were searched.
    #[serde(default)]
    pub times: usize,
}

/// A single run that stands out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spike {
    /// Index of that run in `runs`.
    pub run: usize,
    /// The recording.
    pub recording: RecordingId,
    /// Start of that run.
    pub at: Timestamp,
    /// Largest latency of that run.
    pub max_ns: Option<Nanos>,
    /// The median maximum of its segment.
    pub usual_max_ns: Option<Nanos>,
    /// Number of its due periods above the threshold.
    pub above: Option<u64>,
    /// Whether its maximum stands out.
    pub by_max: bool,
    /// Whether its count of late periods stands out.
    pub by_count: bool,
}

/// A fact with two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactDifference {
    /// Name of the fact: `kernel.command_line`.
    pub fact: String,
    /// The value before. Null if unknown.
    pub before: Option<String>,
    /// The value after. Null if unknown.
    pub after: Option<String>,
    /// For a list of words: the words that were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// For a list of words: the words that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// Facts that changed from one run to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactChange {
    /// The first recording with the new values.
    pub recording: RecordingId,
    /// Start of that recording.
    pub at: Timestamp,
    /// The changes.
    pub facts: Vec<FactDifference>,
}

/// A slot that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// Due time of the slot.
    pub due: Timestamp,
    /// Reason why it did not run.
    pub reason: String,
}

/// A note by a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The time that the note is about.
    pub at: Timestamp,
    /// The recording that the note is about.
    pub recording: Option<RecordingId>,
    /// The author.
    pub who: String,
    /// The text.
    pub text: String,
}

/// A user's acknowledgement of a change point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The load of its group.
    pub load: String,
    /// The class of CPUs of its group.
    pub cpus: CpuClass,
    /// The figure that changed.
    pub followed: Followed,
    /// Whether the change was a regression.
    pub worse: bool,
    /// The first run of the new level, as found at that time.
    pub recording: RecordingId,
    /// Start of that run.
    pub at: Timestamp,
    /// The user who acknowledged it.
    pub who: String,
    /// The reason.
    pub why: String,
}

impl Group {
    /// Returns `idle, isolated CPUs`.
    pub fn name(&self) -> String {
        match self.cpus {
            CpuClass::General => self.load.clone(),
            CpuClass::Isolated => format!("{}, isolated CPUs", self.load),
            CpuClass::Unbound => format!("{}, unbound threads", self.load),
        }
    }

    /// Converts a level of the tail from late periods per million to late periods of a run with the
    /// median number of periods.
    pub fn a_run(&self, level: f64) -> f64 {
        let mut due: Vec<u64> = self.runs.iter().map(|run| run.due).collect();
        due.sort_unstable();
        let usual = due.get(due.len() / 2).copied().unwrap_or(0);
        level * usual as f64 / 1e6
    }

    /// Selects the runs of this group from all judged runs, and returns them with the oldest first.
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

/// Formats a count or ratio with at most three digits.
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

/// Returns `late > 310 µs` or `p99`.
fn of_figure(followed: Followed, threshold: Option<Nanos>) -> String {
    match followed {
        Followed::Tail => format!("late > {}", threshold.unwrap_or_default()),
        figure => figure.name().to_owned(),
    }
}

impl Trend {
    /// Returns the probability of a change point like this one in any figure of a machine that does
    /// not change.
    pub fn p_of_any(&self, change: &ChangePoint) -> f64 {
        // p50 and p99 are followed as well.
        let figures = self
            .groups
            .iter()
            .map(|group| group.thresholds_ns.len() + 2);
        change.p_wandering * figures.sum::<usize>() as f64
    }
}

impl Drifting {
    /// Returns the figure that is drifting: `late > 310 µs`, `p99`.
    pub fn what(&self) -> String {
        of_figure(self.followed, self.threshold_ns)
    }
}

impl ChangePoint {
    /// Returns the figure that changed: `late > 310 µs`, `p99`.
    pub fn what(&self) -> String {
        of_figure(self.followed, self.threshold_ns)
    }

    /// Returns whether the change point needs attention.
    pub fn is_open_worsening(&self) -> bool {
        self.worse && self.stands && self.acknowledged.is_none()
    }
}

/// Facts by name. `None` if a value is unknown.
pub type Facts = BTreeMap<String, Option<String>>;
