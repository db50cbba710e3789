//! The verdict of several measurements together, as stored in each of them.

use serde::{Deserialize, Serialize};

use crate::{Claim, LoopRequirement, Outcome, RecordingId};

/// The verdict of a check-up, experiment or search, stored in each of its recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The subcommand that made the verdict.
    pub by: JudgedBy,
    /// The experiment. Null for a check-up.
    pub experiment: Option<RecordingId>,
    /// The result in one word. It is `no_requirement` if another recording of the same check-up
    /// contains the verdict, or if the result is a proven effect.
    pub outcome: Outcome,
    /// The result in one sentence.
    pub sentence: String,
    /// The requirement of a check-up. Null for others.
    pub asked: Option<LoopRequirement>,
    /// The answers of a check-up, one for each condition. Empty in recordings of older versions and
    /// for others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// The subcommand that judges several measurements together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Returns the name of the subcommand.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Experiment => "experiment",
            Self::Improve => "improve",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MeasuredOn, Recording};

    /// Judging the recording again does not change the verdict.
    #[test]
    fn recording_keeps_verdict_of_its_whole() {
        let mut one = crate::testing::recording(1, 2);
        one.requirement.limits.clear();
        one.be_judged(Judgement {
            by: JudgedBy::Check,
            experiment: None,
            outcome: Outcome::Broken,
            sentence: "broken: 3 episodes".to_owned(),
            asked: None,
            claims: Vec::new(),
        });
        let json = serde_json::to_string(&one).unwrap();
        let mut read = Recording::from_json(&json).unwrap();
        assert_eq!(read, one);
        read.verdict = read.judge();
        assert_eq!(read.verdict.outcome, Outcome::Broken);
        assert_eq!(read.verdict.sentence, "broken: 3 episodes");
        let on = MeasuredOn::from_recording(&read);
        assert!(on.line().contains("kernel"), "{}", on.line());
    }
}
