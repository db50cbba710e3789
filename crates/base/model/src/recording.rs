//! One measurement, kept.

mod grounds;

use std::fmt;

use jiff::Timestamp;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::schema::JsonSchema;
use crate::{
    Accounting, Chart, CpuSet, Due, Explanation, Histogram, HostFacts, Interference, Judgement,
    KeptAudit, LoadRecord, Nanos, Origin, ProbeRun, RecordingId, Requirement, Scheduling, Series,
    SignedNanos, Suspension, Table, ThreadRecord, Unknown, Verdict, WorstSample,
};

/// The version of the JSON form. Keys are only ever added; a number that rises
/// says that something changed its meaning.
///
/// 2: the verdict judges due periods, not samples; its outcomes are `held`,
/// `broken`, `not_proven` and `no_requirement`, and `exceedance_bound` became
/// `bound`.
///
/// 3: what a requirement came to in the run is `met`, `exceeded` or `not_decidable`;
/// `held`, `broken` and `not_proven` are said of the machine, where that was asked for.
pub const SCHEMA_VERSION: u32 = 3;

/// One measurement with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// The version of this form ([`SCHEMA_VERSION`]).
    pub schema: u32,
    /// Which recording it is.
    pub id: RecordingId,
    /// A name given by the user.
    #[serde(default)]
    pub label: Option<String>,
    /// Where it comes from; absent where punctual measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Whether the measurement came to its end.
    pub completion: Completion,
    /// What was measured, and how.
    pub probe: ProbeRun,
    /// The machine.
    pub host: HostFacts,
    /// What `punctual tune` had set on the machine when the run began, by profile
    /// and CPUs, or [`Recording::NO_TUNE`]; null where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<String>,
    /// What an audit found before the run; absent where none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<KeptAudit>,
    /// What disturbed it on purpose; empty: nothing did.
    pub load: Vec<LoadRecord>,
    /// What it had to hold.
    pub requirement: Requirement,
    /// Whether it did; of a part of a check-up, an experiment or a search: their verdict.
    pub verdict: Verdict,
    /// The verdict of the check-up, experiment or search that it is a part of; absent of
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// When the measurement began.
    pub started: Timestamp,
    /// How long it lasted, warm-up included.
    pub duration_ns: Nanos,
    /// What each measuring thread measured.
    #[serde(deserialize_with = "some_threads")]
    pub threads: Vec<ThreadRecord>,
    /// Latency over time.
    pub series: Series,
    /// The samples themselves, where they were asked for; they are kept beside
    /// the recording.
    #[serde(default)]
    pub samples: Option<SamplesKept>,
    /// The worst samples of all threads, the worst first.
    pub worst: Vec<WorstSample>,
    /// What was found out about the outliers, where it was asked for.
    #[serde(default)]
    pub explanation: Option<Explanation>,
    /// What the probe found beside latencies.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// When the process was stopped or the machine was suspended; absent: neither
    /// was seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspensions: Vec<Suspension>,
    /// What else happened on the CPUs.
    pub interference: Interference,
    /// What the measurement itself cost.
    pub observer: Observer,
    /// What the reader must know: rights that were lacking, settings that were
    /// refused, loads that died.
    pub warnings: Vec<String>,
}

/// Whether a measurement came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// It ran for as long as was asked.
    Finished,
    /// A sample crossed the break value, and the run stopped there as asked.
    Break,
    /// The user stopped it (Ctrl-C); all that was measured is there.
    Stopped,
    /// The program was killed or the machine went down; what is missing is at
    /// most the last interval.
    Interrupted,
    /// It still runs.
    Running,
}

impl Completion {
    /// The word on screen and in JSON.
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

/// How many samples were kept beside a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SamplesKept {
    /// Samples that were kept.
    pub count: u64,
    /// Samples that are in the histograms but were not kept, because the
    /// hand-over from the measuring thread was full.
    pub dropped: u64,
    /// What they take, compressed.
    pub bytes: u64,
}

/// One sample: when the thread should have woken, and how late it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The expected wake-up on CLOCK_MONOTONIC.
    pub expected: Nanos,
    /// Actual minus expected.
    pub latency: SignedNanos,
}

/// What the measurement itself cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Observer {
    /// One reading of the clock: the median, on the slowest measured CPU.
    pub clock_read_ns: Nanos,
    /// One turn of the measuring loop without its wait: the median, on the
    /// slowest measured CPU.
    pub loop_ns: Nanos,
    /// The largest memory of the program (ru_maxrss).
    pub peak_memory_bytes: u64,
    /// CPU time of the whole program during the run, measuring threads
    /// included.
    pub cpu_time_ns: Nanos,
}

/// A recording's JSON that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is of a later program.
    #[error(
        "the recording has schema {found}, this program reads up to {SCHEMA_VERSION}: use a newer punctual"
    )]
    Newer {
        /// What it says.
        found: u64,
    },
    /// It is not a recording.
    #[error("not a recording: {0}")]
    NotARecording(#[from] serde_json::Error),
}

/// Reads the threads of a recording, and no more than there can be: each takes
/// 36 kB, however short its JSON is.
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
    /// In [`tune`](Self::tune): nothing was applied.
    pub const NO_TUNE: &str = "none";

    /// The most measuring threads that a recording is read with: as many as a
    /// kernel can have CPUs, and more than `--threads` takes.
    pub const MAX_THREADS: usize = CpuSet::MAX_CPU as usize + 1;

    /// One that begins now: nothing is measured yet, and nothing else is known.
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
            requirement,
            started: Timestamp::now(),
            duration_ns: Nanos::ZERO,
            threads,
            series: Series::default(),
            samples: None,
            worst: Vec::new(),
            explanation: None,
            tables: Vec::new(),
            suspensions: Vec::new(),
            interference: Interference::default(),
            observer: Observer::default(),
            warnings: Vec::new(),
        }
    }

    /// Reads the JSON form. A recording of an earlier schema is judged anew.
    ///
    /// # Errors
    /// A newer schema, or text that is not a recording.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let mut recording = Self::from_part_json(text)?;
        recording.bring_up_to_date();
        Ok(recording)
    }

    /// Reads the JSON form of one whose threads or rows are kept elsewhere;
    /// [`bring_up_to_date`](Self::bring_up_to_date) is for when it is complete.
    ///
    /// # Errors
    /// As for [`from_json`](Self::from_json).
    pub fn from_part_json(text: &str) -> Result<Self, ReadError> {
        /// Only the version: the rest of a newer form may be anything.
        #[derive(Deserialize)]
        struct Version {
            #[serde(default)]
            schema: u64,
        }
        match serde_json::from_str(text)? {
            Version { schema: found } if found > SCHEMA_VERSION.into() => {
                Err(ReadError::Newer { found })
            }
            _ => Ok(serde_json::from_str(text)?),
        }
    }

    /// Makes one of an earlier schema one of this: what was held by its samples
    /// may not be by the periods that came due.
    pub fn bring_up_to_date(&mut self) {
        if self.schema < SCHEMA_VERSION {
            self.schema = SCHEMA_VERSION;
            self.verdict = self.judge();
        }
    }

    /// The latencies of all threads together.
    pub fn all_latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        for thread in &self.threads {
            all.merge(&thread.histogram);
        }
        all
    }

    /// The periods of all threads that came due.
    pub fn all_due(&self) -> Due {
        let mut all = Due::default();
        for thread in &self.threads {
            all.merge(&thread.due());
        }
        all
    }

    /// Whether figures of all threads may be taken together: not where each is
    /// a way of its own, for the mean of two locks is of neither.
    pub fn lanes_are_alike(&self) -> bool {
        self.probe.alike && self.probe.chart != Chart::Bars
    }

    /// The account of all threads together.
    pub fn accounting(&self) -> Accounting {
        let mut all = Accounting::default();
        for thread in &self.threads {
            all.add(&thread.accounting);
        }
        all
    }

    /// Whether this is known: what punctual measured itself is, what was read
    /// from another tool's file is as far as that file says.
    pub fn knows(&self, what: Unknown) -> bool {
        let origin = self.origin.as_ref();
        origin.is_none_or(|origin| !origin.unknown.contains(&what))
    }

    /// A parameter of the probe that is a duration.
    pub fn duration_parameter(&self, name: &str) -> Option<Nanos> {
        self.probe.parameters.get(name)?.as_u64().map(Nanos)
    }

    /// What was measured, in a line: `timer, interval 1.00 ms, fifo 95, CPUs 0-1`;
    /// made elsewhere, with what measured: `timer (cyclictest of rt-tests 2.10)`.
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

    #[cfg(feature = "testing")]
    #[test]
    fn what_was_watched_heads_the_recording() {
        let mut recording = crate::testing::recording(1, 2);
        recording.probe.name = ProbeRun::OBSERVED.to_owned();
        let mut set = |name: &str, value: &str| {
            let parameters = &mut recording.probe.parameters;
            parameters.insert(name.to_owned(), value.into());
            recording.headline()
        };
        // As it was kept before the names were.
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

    #[cfg(feature = "testing")]
    #[test]
    fn more_threads_than_a_machine_has_are_refused() {
        let mut json = serde_json::to_value(crate::testing::recording(1, 1)).unwrap();
        let thread = json["threads"][0].clone();
        json["threads"] = vec![thread; Recording::MAX_THREADS + 1].into();
        let error = Recording::from_json(&json.to_string()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("expected at most 8192 threads"), "{text}");
    }
}
