//! A plan of measurements over years: its series, their slots, and what people say of
//! the results.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{LateWakeup, Nanos, RecordingId, WaitHistogram};

/// An entry of a plan as it was from one moment on. An entry that changes is a new
/// epoch of its series: its runs are not compared with those of before unmarked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesEpoch {
    /// The machine: a hash of its machine-id(5), or its name.
    pub machine: String,
    /// The machine's name; null where it is not known.
    pub host: Option<String>,
    /// The name of the series.
    pub name: String,
    /// Counts from 1.
    pub epoch: u32,
    /// What is measured, as JSON: probe, parameters, phases, limit of explanations.
    pub definition: String,
    /// When the epoch began.
    pub begun: Timestamp,
}

/// Why a slot is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotCause {
    /// A time of day of the plan.
    At,
    /// An interval of the plan.
    Every,
    /// The machine booted.
    Boot,
    /// The kernel is another one than in the last run.
    KernelChange,
    /// A user asked for one run.
    Once,
    /// Another tool's file was imported.
    Import,
    /// A window of watching all wake-ups.
    Watch,
}

/// What became of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// It is being measured.
    Running,
    /// It gave a recording that came to its end.
    Recorded,
    /// It was stopped, or its program was killed; the recording holds what was
    /// measured until then.
    Interrupted,
    /// The measurement failed.
    Failed,
    /// It was not begun: rights, another measurement on a CPU, no space.
    Refused,
    /// Nothing ran when it was due: machine off, suspended, service stopped.
    Missed,
}

macro_rules! words {
    ($type:ident, $($variant:ident => $word:literal),+ $(,)?) => {
        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word on screen, in JSON and in the store.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

words!(SlotCause,
    At => "at", Every => "every", Boot => "boot", KernelChange => "kernel_change",
    Once => "once", Import => "import", Watch => "watch",
);
words!(SlotState,
    Running => "running", Recorded => "recorded", Interrupted => "interrupted",
    Failed => "failed", Refused => "refused", Missed => "missed",
);

/// One due time of a series, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slot {
    /// The machine of the series.
    pub machine: String,
    /// The name of the series.
    pub series: String,
    /// The epoch of the series.
    pub epoch: u32,
    /// When it was due; with series and epoch its identity.
    pub due: Timestamp,
    /// Why it was due.
    pub cause: SlotCause,
    /// What became of it.
    pub state: SlotState,
    /// Why it did not come to its end; null for one that did.
    pub reason: Option<String>,
    /// The recording, which may have been deleted since.
    pub recording: Option<RecordingId>,
}

/// The CPUs that figures of a run are taken together of.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CpuClass {
    /// CPUs that the scheduler balances.
    General,
    /// CPUs of `isolcpus`.
    Isolated,
    /// Threads that are bound to no CPU.
    Unbound,
}

words!(CpuClass, General => "general", Isolated => "isolated", Unbound => "unbound");

/// All wake-ups of a machine in one window of a continuous watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WakeWindow {
    /// The machine, as in [`SeriesEpoch::machine`].
    pub machine: String,
    /// When it began.
    pub start: Timestamp,
    /// How long it lasted.
    pub length_ns: Nanos,
    /// Waits of deadline and real-time threads.
    pub real_time: WaitHistogram,
    /// Waits of all other threads.
    pub ordinary: WaitHistogram,
    /// The longest waits, the longest first, with the thread that waited and the one
    /// that had the CPU.
    pub worst: Vec<LateWakeup>,
    /// Wake-ups that are in no histogram.
    pub lost: u64,
}

/// What a user wrote of a recording or of a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// Its identity.
    pub id: RecordingId,
    /// The recording, where it is about one.
    pub recording: Option<RecordingId>,
    /// The series, where it is about one.
    pub series: Option<String>,
    /// In a collector the machine, by the name under which it delivers, where it is about
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The moment it is about.
    pub at: Timestamp,
    /// What was written.
    pub text: String,
    /// Who wrote it.
    pub author: String,
    /// When it was written.
    pub written: Timestamp,
}

/// What was decided of a change point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeDecision {
    /// It is known and accepted.
    Acknowledged,
    /// It counts again.
    Reopened,
}

words!(ChangeDecision, Acknowledged => "acknowledged", Reopened => "reopened");

/// A decision on a change point; the latest of a change counts, earlier ones stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeMark {
    /// Its identity.
    pub id: RecordingId,
    /// The series.
    pub series: String,
    /// What is followed, in the words of the trend: phase, class of CPUs, figure.
    pub figure: String,
    /// The first run after the change.
    pub recording: RecordingId,
    /// What was decided.
    pub decision: ChangeDecision,
    /// Who decided.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}
