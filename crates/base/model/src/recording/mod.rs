//! One stored measurement.

mod line;
mod measured_on;
mod origin;
mod upgrade;

pub use line::RecordingLine;
pub use measured_on::MeasuredOn;
pub use origin::{Origin, Unknown};

use std::fmt;

use jiff::Timestamp;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    Accounting, Chart, CpuSet, Due, Explanation, Histogram, HostFacts, Interference, Judgement,
    LoadRecord, Nanos, ProbeRun, RecordingId, Requirement, Scheduling, Series, SignedNanos,
    StoredAudit, Suspension, Table, ThreadRecord, TopSample, Verdict,
};

/// The version of the JSON form. The number is increased when a key is renamed or removed, or when
/// its meaning changes. `upgrade.rs` converts earlier forms, and the tests keep a file of each.
///
/// Version 2: the verdict judges due periods instead of samples. Its outcomes are `held`, `broken`,
/// `not_proven` and `no_requirement`, and `exceedance_bound` became `bound`.
///
/// Version 3: the result of a requirement in the run is `met`, `exceeded` or `not_decidable`.
/// `held`, `broken` and `not_proven` describe the machine and are used if a statement about it was
/// requested.
///
/// Version 4: causes are data (`blame.shares[].cause`).
///
/// Version 5: `worst` became `top_samples`. Causes of earlier versions are left out.
pub const SCHEMA_VERSION: u32 = 5;

/// One measurement with all its circumstances and results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The version of this JSON form ([`SCHEMA_VERSION`]).
    pub schema: u32,
    /// ID of the recording.
    pub id: RecordingId,
    /// A name that the user chose.
    #[serde(default)]
    pub label: Option<String>,
    /// The tool or file of an imported recording. Absent if punctual measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// How the measurement ended.
    pub completion: Completion,
    /// The probe and its parameters.
    pub probe: ProbeRun,
    /// The machine.
    pub host: HostFacts,
    /// Settings that `punctual tune` had applied when the run began, by profile and CPUs, or
    /// [`Recording::NO_TUNE`]. Null if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<String>,
    /// Result of an audit before the run. Absent without an audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<StoredAudit>,
    /// Loads that ran during the measurement. Empty if there were none.
    pub load: Vec<LoadRecord>,
    /// The requirement to check.
    pub requirement: Requirement,
    /// The verdict on the requirement. A recording that is part of a check-up, an experiment or a
    /// search has the verdict of the whole.
    pub verdict: Verdict,
    /// The verdict of the check-up, experiment or search that includes this recording. Absent if
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// The verdict of a check-up, experiment or search that a received recording came with. The
    /// recording alone does not prove it, so it decides nothing. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_judgement: Option<Judgement>,
    /// Start of the measurement.
    pub started: Timestamp,
    /// Length of the measurement, including the warm-up.
    pub duration_ns: Nanos,
    /// Results of each measuring thread.
    #[serde(deserialize_with = "some_threads")]
    pub threads: Vec<ThreadRecord>,
    /// Latency over time.
    pub series: Series,
    /// The samples themselves, if requested. They are stored separately from the recording.
    #[serde(default)]
    pub samples: Option<SamplesKept>,
    /// The largest samples of all threads, in descending order.
    pub top_samples: Vec<TopSample>,
    /// The explanation of the outliers, if requested.
    #[serde(default)]
    pub explanation: Option<Explanation>,
    /// Results of the probe other than latencies.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Times at which the process was stopped or the machine was suspended. Absent if neither was
    /// detected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspensions: Vec<Suspension>,
    /// Other activity on the measured CPUs.
    pub interference: Interference,
    /// Overhead of the measurement itself.
    pub observer: Observer,
    /// Warnings for the reader: missing rights, settings that were refused, loads that ended early.
    pub warnings: Vec<String>,
}

/// The warning of a recording that was imported from a file without its samples.
pub const IMPORTED_WITHOUT_SAMPLES: &str = "the imported file has no samples";

/// Words in the warning about a setting that changed during a run.
pub const SETTING_CHANGED: &str = "changed during the run";

/// Words in the warning about a measuring thread that was moved.
pub const THREAD_MOVED: &str = "was taken off its CPU";

/// How a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// It ran for the requested time.
    Finished,
    /// A sample crossed the break threshold, and the run stopped there as requested.
    Break,
    /// The user stopped it (Ctrl-C). Everything measured up to then is stored.
    Stopped,
    /// The program was killed or the machine went down; at most the last interval is missing. Or
    /// measuring threads got no CPU time and had to be ended.
    Interrupted,
    /// It is still running.
    Running,
}

impl Completion {
    /// Returns the word to display, which is also used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Break => "break",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
            Self::Running => "running",
        }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The number of samples stored with a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplesKept {
    /// Number of stored samples.
    pub count: u64,
    /// Samples that are in the histograms but were not stored, because the buffer between the
    /// measuring thread and the writer was full.
    pub dropped: u64,
    /// Their compressed size.
    pub bytes: u64,
}

/// One sample: the due time of the wake-up, and its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Due time of the wake-up, on CLOCK_MONOTONIC.
    pub expected: Nanos,
    /// Actual minus expected wake-up time.
    pub latency: SignedNanos,
}

/// Overhead of the measurement itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observer {
    /// Cost of one reading of the clock: the median on the slowest measured CPU.
    pub clock_read_ns: Nanos,
    /// Cost of one iteration of the measuring loop without its wait: the median on the slowest
    /// measured CPU.
    pub loop_ns: Nanos,
    /// Peak memory use of the program (ru_maxrss).
    pub peak_memory_bytes: u64,
    /// CPU time of the whole program during the run, including measuring threads.
    pub cpu_time_ns: Nanos,
}

/// Error while reading the JSON of a recording.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A later version of the program wrote it.
    #[error(
        "the recording has schema {found}, but this program reads only schemas up to \
         {SCHEMA_VERSION}: use a newer punctual"
    )]
    Newer {
        /// Its schema version.
        found: u64,
    },
    /// An earlier version of the program wrote it, in a form that can no longer be read.
    #[error(
        "the recording has schema {found}, and this program cannot read all of it ({error}): read \
         it with the version of punctual that wrote it"
    )]
    Older {
        /// Its schema version.
        found: u64,
        /// The first part that cannot be read.
        error: serde_json::Error,
    },
    /// The text is not a recording.
    #[error("not a recording: {0}")]
    NotARecording(#[from] serde_json::Error),
}

/// Reads the threads of a recording, up to the largest possible number. The number is limited
/// because each thread takes 36 kB of memory, even if its JSON is short.
fn some_threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ThreadRecord>, D::Error> {
    struct Threads;
    impl<'de> Visitor<'de> for Threads {
        type Value = Vec<ThreadRecord>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {} threads", Recording::MAX_THREADS)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut threads = Vec::new();
            while let Some(thread) = list.next_element()? {
                threads.push(thread);
                if threads.len() > Recording::MAX_THREADS {
                    return Err(A::Error::invalid_length(threads.len(), &self));
                }
            }
            Ok(threads)
        }
    }
    deserializer.deserialize_seq(Threads)
}

impl Recording {
    /// Value of [`tune`](Self::tune) if no tuning was applied.
    pub const NO_TUNE: &str = "none";

    /// Maximum number of measuring threads in a recording: the largest number of CPUs that a kernel
    /// supports, and more than `--threads` accepts.
    pub const MAX_THREADS: usize = CpuSet::MAX_CPU as usize + 1;

    /// Creates a recording that begins now, without any results.
    pub fn new(
        probe: ProbeRun,
        host: HostFacts,
        requirement: Requirement,
        threads: Vec<ThreadRecord>,
    ) -> Self {
        Self {
            schema: SCHEMA_VERSION,
            id: RecordingId::new(),
            label: None,
            origin: None,
            completion: Completion::Running,
            probe,
            host,
            tune: None,
            audit: None,
            load: Vec::new(),
            verdict: requirement.judge(&threads),
            judgement: None,
            sender_judgement: None,
            requirement,
            started: Timestamp::now(),
            duration_ns: Nanos::ZERO,
            threads,
            series: Series::default(),
            samples: None,
            top_samples: Vec::new(),
            explanation: None,
            tables: Vec::new(),
            suspensions: Vec::new(),
            interference: Interference::default(),
            observer: Observer::default(),
            warnings: Vec::new(),
        }
    }

    /// Reads the JSON form. A recording with an earlier schema is converted and gets a new verdict.
    ///
    /// # Errors
    /// Fails if the schema is newer, or the text is not a recording.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let mut recording = Self::from_part_json(text)?;
        recording.bring_up_to_date();
        Ok(recording)
    }

    /// Reads the JSON form of a recording whose threads or rows are stored elsewhere. Call
    /// [`bring_up_to_date`](Self::bring_up_to_date) once the recording is complete.
    ///
    /// # Errors
    /// Returns the errors of [`from_json`](Self::from_json).
    pub fn from_part_json(text: &str) -> Result<Self, ReadError> {
        /// Read only the version, because the program does not know the rest of a newer form.
        #[derive(Deserialize)]
        struct Version {
            #[serde(default)]
            schema: u64,
        }
        let Version { schema: found } = serde_json::from_str(text)?;
        if found > SCHEMA_VERSION.into() {
            return Err(ReadError::Newer { found });
        }
        if !(1..SCHEMA_VERSION.into()).contains(&found) {
            return Ok(serde_json::from_str(text)?);
        }
        let mut older = serde_json::from_str(text)?;
        upgrade::upgrade(found, &mut older);
        serde_json::from_value(older).map_err(|error| ReadError::Older { found, error })
    }

    /// Converts a recording with an earlier schema to the current one. The verdict can change,
    /// because it now judges due periods instead of samples.
    pub fn bring_up_to_date(&mut self) {
        if self.schema < SCHEMA_VERSION {
            self.schema = SCHEMA_VERSION;
            self.verdict = self.judge();
        }
    }

    /// Returns the latencies of all threads together.
    pub fn all_latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        for thread in &self.threads {
            all.merge(&thread.histogram);
        }
        all
    }

    /// Returns the due periods of all threads together.
    pub fn all_due(&self) -> Due {
        let mut all = Due::default();
        for thread in &self.threads {
            all.merge(&thread.due());
        }
        all
    }

    /// Returns whether the figures of all threads may be combined. They may not if each thread
    /// measures a different mechanism, because a mean over two kinds of locks describes neither of
    /// them.
    pub fn threads_are_alike(&self) -> bool {
        self.probe.alike && self.probe.chart != Chart::Bars
    }

    /// Returns the sample accounting of all threads together.
    pub fn accounting(&self) -> Accounting {
        let mut all = Accounting::default();
        for thread in &self.threads {
            all.add(&thread.accounting);
        }
        all
    }

    /// Returns whether the recording contains this fact. Always true for recordings made by
    /// punctual. For an import, this depends on the content of the file.
    pub fn knows(&self, what: Unknown) -> bool {
        let origin = self.origin.as_ref();
        origin.is_none_or(|origin| !origin.unknown.contains(&what))
    }

    /// Returns the value of a probe parameter that is a duration.
    pub fn duration_parameter(&self, name: &str) -> Option<Nanos> {
        self.probe.parameters.get(name)?.as_u64().map(Nanos)
    }

    /// Returns the step to which the stored samples are rounded down; `None` if unknown.
    pub fn sample_resolution(&self) -> Option<Nanos> {
        self.duration_parameter("sample_resolution_ns")
    }

    /// Returns probe and parameters in one line: `timer, interval 1.00 ms, fifo 95, CPUs 0-1`. For
    /// an import, the tool that measured: `timer (cyclictest of rt-tests 2.10)`.
    pub fn headline(&self) -> String {
        if let Some(watched) = self.probe.watched() {
            return format!("{} of {watched}", self.probe.name);
        }
        if let Some(application) = self.probe.application() {
            return format!("jobs of {application}");
        }
        let mut parts = vec![match &self.origin {
            None => self.probe.name.clone(),
            Some(origin) => format!("{} ({})", self.probe.name, origin.tool),
        }];
        if let Some(interval) = self.duration_parameter("interval_ns") {
            parts.push(format!("interval {interval}"));
        }
        if let Some(thread) = self.threads.first()
            && thread.scheduling != Scheduling::UNKNOWN
        {
            parts.push(thread.scheduling.to_string());
        }
        let cpus: crate::CpuSet = self.threads.iter().filter_map(|t| t.cpu).collect();
        match cpus.len() {
            0 => {}
            1 => parts.push(format!("CPU {cpus}")),
            _ => parts.push(format!("CPUs {cpus}")),
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_watched_heads_the_recording() {
        let mut recording = crate::testing::recording(1, 2);
        recording.probe.name = ProbeRun::OBSERVED.to_owned();
        let mut set = |name: &str, value: &str| {
            let parameters = &mut recording.probe.parameters;
            parameters.insert(name.to_owned(), value.into());
            recording.headline()
        };
        // Recordings have this form if they were made before comms were stored.
        assert_eq!(set("targets", "pid 1234"), "threads of pid 1234");
        let named = set(ProbeRun::WATCHED, "motion (pid 1234)");
        assert_eq!(named, "threads of motion (pid 1234)");
    }

    #[test]
    fn a_newer_schema_is_named() {
        let error = Recording::from_json(r#"{"schema": 99}"#).unwrap_err();
        assert!(error.to_string().contains("schema 99"), "{error}");
        assert!(Recording::from_json("[]").is_err());
    }

    #[test]
    fn file_of_each_schema_is_read() {
        for (schema, text) in [
            (1, include_str!("../../tests/fixtures/recording-1.json")),
            (2, include_str!("../../tests/fixtures/recording-2.json")),
            (3, include_str!("../../tests/fixtures/recording-3.json")),
            (4, include_str!("../../tests/fixtures/recording-4.json")),
            (5, include_str!("../../tests/fixtures/recording-5.json")),
        ] {
            let json: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(json["schema"], schema);
            let read = Recording::from_json(text).unwrap();
            assert_eq!(read.schema, SCHEMA_VERSION);
            assert_eq!(read.threads.len(), 2, "schema {schema}");
            assert!(!read.top_samples.is_empty(), "schema {schema}");
            assert!(read.accounting().recorded > 0, "schema {schema}");
            assert_eq!(read.verdict, read.judge(), "schema {schema}");
            let lost = |read: &Recording| {
                let lost = |text: &String| text.contains("they are left out");
                read.warnings.iter().any(lost)
            };
            assert!(!lost(&read), "schema {schema} had no causes");
            if schema < 5 {
                let mut json = json;
                json["worst"][0]["blame"] = serde_json::json!({"sentence": "late"});
                let read = Recording::from_json(&json.to_string()).unwrap();
                assert!(lost(&read), "schema {schema} had a cause");
            }
        }
        let kept = std::fs::read_dir("tests/fixtures").unwrap().flatten();
        let kept = kept.filter(|file| {
            let name = file.file_name();
            name.to_string_lossy().starts_with("recording-")
        });
        assert_eq!(
            kept.count(),
            SCHEMA_VERSION as usize,
            "keep a file of each schema"
        );
    }

    #[test]
    fn unreadable_older_schema_is_named() {
        let mut recording = crate::testing::recording(1, 1);
        recording.schema = 3;
        let mut json = serde_json::to_value(recording).unwrap();
        Recording::from_json(&json.to_string()).unwrap();
        json["threads"] = "none".into();
        let error = Recording::from_json(&json.to_string()).unwrap_err();
        assert!(
            matches!(error, ReadError::Older { found: 3, .. }),
            "{error}"
        );
        json["schema"] = SCHEMA_VERSION.into();
        let error = Recording::from_json(&json.to_string()).unwrap_err();
        assert!(matches!(error, ReadError::NotARecording(_)), "{error}");
    }

    #[test]
    fn too_many_threads_are_refused() {
        let mut json = serde_json::to_value(crate::testing::recording(1, 1)).unwrap();
        let thread = json["threads"][0].clone();
        json["threads"] = vec![thread; Recording::MAX_THREADS + 1].into();
        let error = Recording::from_json(&json.to_string()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("expected at most 8192 threads"), "{text}");
    }
}
