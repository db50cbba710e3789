//! Measurements over years: series, slots, and decisions about results.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{FromJson, LateWakeup, LoopRequirement, Nanos, RecordingId, WaitHistogram, from_json};

/// One version of an entry of a plan. A changed entry starts a new epoch of its series, and
/// comparisons between epochs are marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesEpoch {
    /// The machine: a hash of its machine-id(5), or its name.
    pub machine: String,
    /// Host name. Null if unknown.
    pub host: Option<String>,
    /// The name of the series.
    pub name: String,
    /// Number of the epoch, starting at 1.
    pub epoch: u32,
    /// The measurement as JSON: probe, parameters, phases, limit of explanations.
    pub definition: String,
    /// Start of the epoch.
    pub begun: Timestamp,
}

/// The part of a definition that the runs of a series are judged by.
#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    periodic: Option<LoopRequirement>,
}

from_json!(Definition);

impl SeriesEpoch {
    /// Returns the requirement of a sampled series. `None` for any other series.
    pub fn periodic(&self) -> Option<LoopRequirement> {
        let definition = Definition::from_json(self.definition.as_bytes()).ok()?;
        definition.periodic.filter(|asked| asked.sample.is_some())
    }

    /// Returns the seed of the random times of the runs (64-bit FNV-1a). It depends only on stored
    /// fields, so the times of a series can be computed again.
    pub fn seed(&self) -> u64 {
        let begun = self.begun.as_nanosecond().to_le_bytes();
        let epoch = self.epoch.to_le_bytes();
        let parts = [
            self.machine.as_bytes(),
            self.name.as_bytes(),
            &epoch,
            &begun,
        ];
        let bytes = parts.into_iter().flatten();
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Reason why a slot is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotCause {
    /// The plan contains this time of day.
    At,
    /// An interval of the plan has passed.
    Every,
    /// A random time in a part of the sampled period.
    Sample,
    /// The machine booted.
    Boot,
    /// The kernel differs from that of the last run.
    KernelChange,
    /// A user requested one run.
    Once,
    /// Another tool's file was imported.
    Import,
    /// A continuous watch covers all wake-ups in this time window.
    Watch,
}

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// The measurement is running.
    Running,
    /// The recording is complete.
    Recorded,
    /// The measurement was stopped, or its program was killed. The recording contains everything up
    /// to then.
    Interrupted,
    /// The measurement failed.
    Failed,
    /// The measurement did not start: missing rights, another measurement on a CPU, no disk space.
    Refused,
    /// Nothing ran at the due time: machine off, machine suspended, or service stopped.
    Missed,
}

macro_rules! words {
    ($type:ident, $($variant:ident => $word:literal),+ $(,)?) => {
        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word to display, which is also used in JSON and in the store.
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
    At => "at", Every => "every", Sample => "sample", Boot => "boot", KernelChange => "kernel_change",
    Once => "once", Import => "import", Watch => "watch",
);
words!(SlotState,
    Running => "running", Recorded => "recorded", Interrupted => "interrupted",
    Failed => "failed", Refused => "refused", Missed => "missed",
);

/// One due time of a series, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The machine of the series.
    pub machine: String,
    /// The name of the series.
    pub series: String,
    /// The epoch of the series.
    pub epoch: u32,
    /// Its due time. Together with series and epoch it identifies the slot.
    pub due: Timestamp,
    /// Reason why the slot was due.
    pub cause: SlotCause,
    /// Its state.
    pub state: SlotState,
    /// Reason why the slot is not complete. Null if it is complete.
    pub reason: Option<String>,
    /// ID of the recording, which may have been deleted since.
    pub recording: Option<RecordingId>,
}

/// A class of CPUs whose figures are combined in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuClass {
    /// CPUs on which the scheduler balances load.
    General,
    /// CPUs of `isolcpus`.
    Isolated,
    /// Threads that are not bound to a CPU.
    Unbound,
}

words!(CpuClass, General => "general", Isolated => "isolated", Unbound => "unbound");

/// All wake-ups of a machine in one time window of a continuous watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeWindow {
    /// The machine, as in [`SeriesEpoch::machine`].
    pub machine: String,
    /// Start of the window.
    pub start: Timestamp,
    /// Length of the window.
    pub length_ns: Nanos,
    /// Waits of deadline and real-time threads.
    pub real_time: WaitHistogram,
    /// Waits of all other threads.
    pub ordinary: WaitHistogram,
    /// The longest waits in descending order, each with the thread that waited and the thread that
    /// had the CPU.
    pub longest: Vec<LateWakeup>,
    /// Number of wake-ups that no histogram includes.
    pub lost: u64,
}

/// A note by a user about a recording or a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// ID of the note.
    pub id: RecordingId,
    /// The recording, if the note is about one.
    pub recording: Option<RecordingId>,
    /// The series, if the note is about one.
    pub series: Option<String>,
    /// In a collector: the name under which the machine of the note delivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The time that the note is about.
    pub at: Timestamp,
    /// The text.
    pub text: String,
    /// The author.
    pub author: String,
    /// When it was written.
    pub written: Timestamp,
}

/// A decision about a change point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeDecision {
    /// The change is known and accepted.
    Acknowledged,
    /// The change is no longer accepted and is counted again.
    Reopened,
}

words!(ChangeDecision, Acknowledged => "acknowledged", Reopened => "reopened");

/// A decision about a change point. If a change has several decisions, the latest one applies.
/// Earlier ones are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeAnnotation {
    /// ID of the decision.
    pub id: RecordingId,
    /// The series.
    pub series: String,
    /// The figure that changed, as the trend names it: phase, class of CPUs, figure.
    pub figure: String,
    /// The first run after the change.
    pub recording: RecordingId,
    /// The decision.
    pub decision: ChangeDecision,
    /// Who made the decision.
    pub who: String,
    /// The reason.
    pub why: String,
    /// Time of the decision.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(definition: &str) -> SeriesEpoch {
        SeriesEpoch {
            machine: "m".to_owned(),
            host: None,
            name: "week".to_owned(),
            epoch: 2,
            definition: definition.to_owned(),
            begun: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn only_a_sampled_series_has_a_requirement() {
        let sampled = r#"{"probe": "timer", "periodic": {"period_ns": 1000000, "budget_ns": 100000,
            "sample": {"runs": 60, "length_ns": 60000000000, "period_ns": 604800000000000}}}"#;
        let asked = epoch(sampled).periodic().unwrap();
        assert_eq!(asked.budget_ns, Nanos(100_000));
        assert_eq!(asked.sample.unwrap().runs, 60);
        for other in [
            r#"{"probe": "timer"}"#,
            r#"{"periodic": null}"#,
            r#"{"periodic": {"period_ns": 1000000, "budget_ns": 100000}}"#,
            "{",
            "",
        ] {
            assert_eq!(epoch(other).periodic(), None, "{other}");
        }
    }

    /// The random times of stored series follow from the seed, so it must stay the same.
    #[test]
    fn seed_depends_on_machine_name_epoch_and_begin() {
        // FNV-1a of "m", "week", 2 as four bytes, and 0 as sixteen.
        let bytes = [b"mweek".as_slice(), &[2, 0, 0, 0], &[0; 16]].concat();
        let mut expected = 0xcbf2_9ce4_8422_2325u64;
        for byte in bytes {
            expected = (expected ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let own = epoch("{}");
        assert_eq!(own.seed(), expected);
        let changed = |change: fn(&mut SeriesEpoch)| {
            let mut changed = own.clone();
            change(&mut changed);
            changed.seed()
        };
        assert_ne!(changed(|one| one.machine = "n".to_owned()), expected);
        assert_ne!(changed(|one| one.name = "day".to_owned()), expected);
        assert_ne!(changed(|one| one.epoch = 3), expected);
        assert_ne!(changed(|one| one.begun = Timestamp::MAX), expected);
        assert_eq!(changed(|one| one.host = Some("h".to_owned())), expected);
        assert_eq!(changed(|one| one.definition = String::new()), expected);
    }

    #[test]
    fn words_are_those_of_json() {
        fn same<T: Copy + fmt::Display + Serialize>(all: &[T], name: fn(T) -> &'static str) {
            for one in all {
                let json = serde_json::to_string(one).unwrap();
                assert_eq!(json, format!("\"{one}\""));
                assert_eq!(one.to_string(), name(*one));
            }
        }
        same(SlotCause::ALL, SlotCause::name);
        same(SlotState::ALL, SlotState::name);
        same(CpuClass::ALL, CpuClass::name);
        same(ChangeDecision::ALL, ChangeDecision::name);
    }
}
