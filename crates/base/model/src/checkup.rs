//! A check-up of a machine: whether it is fit for a periodic loop.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{
    AuditedHost, Finding, LoopRequirement, MeasuredOn, Nanos, Outcome, ShareKind, TailRemark,
};

/// The version of [`Checkup`] as JSON. It rises when a reader of the older form would
/// misread the newer; fields that are added do not raise it.
///
/// 2: episodes are late periods without a pause longer than
/// [`EPISODE_GAP`](crate::EPISODE_GAP) or what was asked for, no longer as many as an estimate
/// says; their bounds may be null.
pub const CHECKUP_SCHEMA: u32 = 2;

/// Whether a machine is fit for a loop, and what stands in the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkup {
    /// [`CHECKUP_SCHEMA`].
    pub schema: u32,
    /// The program that checked.
    pub program: String,
    /// The answer in one word: that of the worst condition.
    pub outcome: Outcome,
    /// The answer in one sentence.
    pub sentence: String,
    /// What the loop needs.
    pub asked: LoopRequirement,
    /// When it began.
    pub started: Timestamp,
    /// Which machine.
    pub host: AuditedHost,
    /// Where and when it was measured; absent in check-ups of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Each condition that was measured.
    pub conditions: Vec<Condition>,
    /// What took the time of the late periods that were explained, by falling time.
    pub causes: Vec<RemediedCause>,
    /// What firmware, hypervisor and interrupts took from a spinning thread; null where
    /// that was not measured.
    pub hardware: Option<HardwareGaps>,
    /// Findings of the audit: those that bear on a measured cause first, then the
    /// others by severity.
    pub findings: Vec<Finding>,
    /// What the verdict lacks, each in one sentence.
    pub lacking: Vec<String>,
    /// Commands to run next, the most useful first.
    pub next: Vec<String>,
    /// The recordings it was made of; empty where none is kept.
    pub recordings: Vec<String>,
}

impl Condition {
    /// The reason why a condition proves nothing where a thread had no real-time priority.
    pub const NOT_REAL_TIME: &str = "measured without a real-time priority, which the loop needs";
}

/// One condition of a check-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// Its name: `idle`, `loaded`.
    pub name: String,
    /// The loads that ran.
    pub loads: Vec<String>,
    /// For how long each CPU was measured.
    pub measured_ns: Nanos,
    /// Periods that came due, of all CPUs.
    pub periods: u64,
    /// Those that began later than the budget, or were missed.
    pub late: u64,
    /// Episodes: late periods of all CPUs with no pause longer than the episode gap
    /// between them.
    pub episodes: u64,
    /// How much episodes cluster: variance by mean of their counts in blocks of time, at
    /// the worst length of blocks (upper 90% limit). The bounds are widened by it.
    #[serde(default)]
    pub dispersion: Option<f64>,
    /// With 95% confidence at most so many episodes a day, if the day is like the time
    /// measured; null where nothing was measured, or the rate changes more slowly than
    /// that time can show.
    pub per_day_at_most: Option<f64>,
    /// With 95% confidence at least so many, likewise.
    pub per_day_at_least: Option<f64>,
    /// The largest latency; null without a sample.
    pub max_ns: Option<Nanos>,
    /// p99 of the due periods; null where they do not support it.
    pub p99_ns: Option<Nanos>,
    /// Whether all threads had a real-time policy: without, nothing is broken or held.
    pub real_time: bool,
    /// Whether it holds.
    pub outcome: Outcome,
    /// Why it is not proven, each in one sentence.
    pub lacking: Vec<String>,
    /// How long it would have to be measured in all to be proven, if nothing more
    /// happens; null where time alone does not help.
    pub needs_ns: Option<Nanos>,
    /// What the tail would reach in a longer time; absent where it may not be carried on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailRemark>,
    /// Why the tail may not be carried on; absent where it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_tail: Option<String>,
}

/// A cause of late periods, with what bears on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemediedCause {
    /// What kind of thing it is.
    pub kind: ShareKind,
    /// Which one.
    pub who: String,
    /// Late periods in which it had a share.
    pub count: u64,
    /// Its shares together.
    pub total_ns: Nanos,
    /// Its largest share.
    pub worst_ns: Nanos,
    /// Checks that bear on it and found something, or could not be judged.
    pub checks: Vec<String>,
    /// What helps.
    pub advice: String,
}

/// What was taken from a spinning thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareGaps {
    /// How long it was looked for.
    pub measured_ns: Nanos,
    /// Gaps that were found.
    pub gaps: u64,
    /// The longest; null without any.
    pub max_ns: Option<Nanos>,
}
