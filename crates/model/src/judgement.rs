//! The verdict of several measurements together, as each of them keeps it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{CpuSet, LoopRequirement, Outcome, Recording, RecordingId};

/// The verdict of a check-up, an experiment or a search for settings that a recording is a
/// part of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// What judged.
    pub by: JudgedBy,
    /// The experiment; null of a check-up.
    pub experiment: Option<RecordingId>,
    /// The answer in one word; `no_requirement` where that of another recording of the same
    /// check-up is the verdict, or of an effect that is shown.
    pub outcome: Outcome,
    /// The answer in one sentence.
    pub sentence: String,
    /// What a check-up was asked; null of others.
    pub asked: Option<LoopRequirement>,
}

/// What judges several measurements together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgedBy {
    /// `punctual check`.
    Check,
    /// `punctual experiment`.
    Experiment,
    /// `punctual improve`.
    Improve,
}

impl JudgedBy {
    /// The verb.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Experiment => "experiment",
            Self::Improve => "improve",
        }
    }
}

/// Where and when a result was measured: without it a report is no evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredOn {
    /// The machine's name; null where it is not known.
    pub hostname: Option<String>,
    /// Its kernel's release.
    pub kernel: Option<String>,
    /// Its processor.
    pub processor: Option<String>,
    /// As in the recordings made on it.
    pub fingerprint: String,
    /// The CPUs that were measured.
    pub cpus: CpuSet,
    /// When the first measurement began.
    pub started: Timestamp,
}

impl MeasuredOn {
    /// Of a recording.
    pub fn of(recording: &Recording) -> Self {
        let host = &recording.host;
        let cpus = recording.threads.iter().filter_map(|thread| thread.cpu);
        Self {
            hostname: host.hostname.get().cloned(),
            kernel: host.kernel.release.get().cloned(),
            processor: host.processor.model.get().cloned(),
            fingerprint: host.fingerprint.clone(),
            cpus: cpus.collect(),
            started: recording.started,
        }
    }

    /// `box1, kernel 6.12.8-rt, Intel Core i7, CPUs 2-3`.
    pub fn line(&self) -> String {
        let kernel = match &self.kernel {
            Some(kernel) => format!("kernel {kernel}"),
            None => "kernel unknown".to_owned(),
        };
        let name = self.hostname.clone();
        let mut parts = vec![name.unwrap_or_else(|| "unknown host".to_owned()), kernel];
        parts.extend(self.processor.clone());
        parts.push(match self.cpus.len() {
            0 => "CPUs unknown".to_owned(),
            1 => format!("CPU {}", self.cpus),
            _ => format!("CPUs {}", self.cpus),
        });
        parts.join(", ")
    }

    /// `2026-11-25 20:01 UTC`.
    pub fn date(&self) -> String {
        self.started.strftime("%F %H:%M UTC").to_string()
    }
}

impl Recording {
    /// Makes the verdict of what it is a part of its own.
    pub fn be_judged(&mut self, judgement: Judgement) {
        self.judgement = Some(judgement);
        self.verdict = self.judge();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict stays, also where a recording is judged anew.
    #[test]
    fn a_recording_keeps_the_verdict_of_what_it_is_a_part_of() {
        let mut one = crate::testing::recording(1, 2);
        one.requirement.limits.clear();
        one.be_judged(Judgement {
            by: JudgedBy::Check,
            experiment: None,
            outcome: Outcome::Broken,
            sentence: "broken: 3 episodes".to_owned(),
            asked: None,
        });
        let json = serde_json::to_string(&one).unwrap();
        let mut read = Recording::from_json(&json).unwrap();
        assert_eq!(read, one);
        read.verdict = read.judge();
        assert_eq!(read.verdict.outcome, Outcome::Broken);
        assert_eq!(read.verdict.sentence, "broken: 3 episodes");
        let on = MeasuredOn::of(&read);
        assert!(on.line().contains("kernel"), "{}", on.line());
    }
}
