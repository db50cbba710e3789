//! The origin of a recording that punctual did not measure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The origin of an imported recording, and the facts that its source does not contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The file format: `cyclictest-hist`.
    pub format: String,
    /// The program that made the measurement, with its version if the file contains it: `cyclictest
    /// of rt-tests 2.10`.
    pub tool: String,
    /// The file, as the user named it. `-` for standard input.
    pub file: String,
    /// Facts that the source does not contain. The fields of the recording for these facts are zero
    /// or empty and must not be taken for values.
    pub unknown: BTreeSet<Unknown>,
}

/// A fact that a source may not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// Start of the measurement. `started` is the time of the import.
    Started,
    /// Length of the measurement.
    Duration,
    /// Number of due wake-ups, and how many of them have no sample.
    Missed,
    /// Whether samples were discarded at the start.
    WarmUp,
    /// Due time of each sample. Without it, `expected` is only a sequence number in stored samples.
    Times,
    /// The policy and priority of the measuring threads.
    Scheduling,
    /// The measured CPUs.
    Cpus,
    /// Loads during the measurement.
    Load,
    /// Other activity on the CPUs.
    Interference,
    /// Overhead of the measurement.
    Observer,
}

impl Unknown {
    /// Each fact with the words to display.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Started, "when it was measured"),
        (Self::Duration, "how long it lasted"),
        (Self::Missed, "missed periods"),
        (Self::WarmUp, "samples discarded at the start"),
        (Self::Times, "when each sample was due"),
        (Self::Scheduling, "policy and priority"),
        (Self::Cpus, "the CPUs"),
        (Self::Load, "load"),
        (Self::Interference, "interference"),
        (Self::Observer, "the measurement's own cost"),
    ];

    /// Returns the words to display.
    pub fn words(self) -> &'static str {
        let known = Self::ALL.iter().find(|(unknown, _)| *unknown == self);
        known.map_or("", |(_, words)| words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unknown_fact_has_words() {
        for (unknown, words) in Unknown::ALL {
            assert_eq!(unknown.words(), words);
            assert!(!words.is_empty());
        }
        let last = Unknown::ALL[Unknown::ALL.len() - 1].0;
        assert_eq!(last as usize + 1, Unknown::ALL.len(), "all are listed");
    }
}
