//! What was found out about the outliers of a run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{Blame, Jobs, Nanos, ShareKind};

/// What was found out about the outliers of a run: each that was explained,
/// and the causes of all together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The latency above which a sample is an outlier.
    pub threshold_ns: Nanos,
    /// Outliers that were reported.
    pub seen: u64,
    /// Those that could be explained; the events of the others were
    /// overwritten before they were taken out, or could not be read.
    pub explained: u64,
    /// The trace events that were recorded, as `system:event`.
    pub events: Vec<String>,
    /// Those that the kernel does not have, or were not asked for.
    pub missing_events: Vec<String>,
    /// Further events that the user asked for, as `system:event` or
    /// `system:event/filter/`.
    #[serde(default)]
    pub requested_events: Vec<String>,
    /// By how much the recorder raised the probe's median, as measured at the
    /// start; null where it was not measured.
    pub rise_ns: Option<Nanos>,
    /// How long that measurement took, before the run; null where there was
    /// none.
    #[serde(default)]
    pub rise_took_ns: Option<Nanos>,
    /// Trace events of watched threads that were overwritten before they were
    /// read.
    #[serde(default)]
    pub events_lost: u64,
    /// Waits of watched threads whose end no event told; they are in no count of
    /// the threads.
    #[serde(default)]
    pub waits_without_end: u64,
    /// The longest time from an outlier's happening to its explanation; null
    /// where none was explained while it ran.
    #[serde(default)]
    pub explained_within_ns: Option<Nanos>,
    /// The jobs of watched threads; null where no jobs were followed.
    #[serde(default)]
    pub jobs: Option<Jobs>,
    /// Explained outliers, by rising number. Not more than
    /// [`Explanation::KEPT`] are kept, the worst.
    pub outliers: Vec<Outlier>,
    /// The causes of all that were explained, by falling total.
    pub causes: Vec<Cause>,
    /// Causes that came in equal intervals.
    pub periods: Vec<Period>,
}

impl Explanation {
    /// How many outliers are kept with their events: at some 10 KiB each,
    /// compressed, a recording grows by about 2 MiB at most.
    pub const KEPT: usize = 200;
}

/// One explained outlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    /// Its number: they are counted from 1, in the order of their reports.
    pub number: u64,
    /// When the thread should have woken, on the wall clock.
    pub time: Timestamp,
    /// The same on CLOCK_MONOTONIC.
    pub monotonic_ns: Nanos,
    /// The CPU it was measured on.
    pub cpu: Option<u32>,
    /// The thread, as its place in `threads`.
    pub thread: u32,
    /// How late it was.
    pub latency_ns: Nanos,
    /// Who took the time.
    pub blame: Blame,
}

/// What one source took from all outliers together. Threads count by their
/// name, whatever their ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// What kind of thing it is.
    pub kind: ShareKind,
    /// Which one.
    pub who: String,
    /// Outliers in which it had a share.
    pub count: u64,
    /// Those in which its share was the largest.
    pub culprit_in: u64,
    /// Its shares together.
    pub total_ns: Nanos,
    /// Its largest share.
    pub worst_ns: Nanos,
    /// The number of the outlier that it is of.
    pub worst_outlier: u64,
}

/// A culprit that came in equal intervals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Period {
    /// What kind of thing it is.
    pub kind: ShareKind,
    /// Which one.
    pub who: String,
    /// The interval.
    pub period_ns: Nanos,
    /// By how much intervals differed from it, or from a multiple of it, at
    /// most; those that did not fit are left out.
    pub tolerance_ns: Nanos,
    /// Outliers that fit.
    pub count: u64,
    /// Times at which one would have fit and none was seen.
    pub missing: u64,
}
