//! Where a recording comes from that punctual did not measure itself.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;

/// Where a recording comes from that punctual did not measure itself, and what
/// its source could not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The format it was read from: `cyclictest-hist`.
    pub format: String,
    /// The program that measured, with its version as far as the file names it:
    /// `cyclictest of rt-tests 2.10`.
    pub tool: String,
    /// The file, as it was named; `-` for the standard input.
    pub file: String,
    /// What the source cannot tell. The recording's own fields for these hold
    /// nothing (zero, empty), and that is not to be taken for a figure.
    pub unknown: BTreeSet<Unknown>,
}

/// What a source may be unable to tell.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// When it was measured: `started` is the time of the import.
    Started,
    /// How long it lasted.
    Duration,
    /// How many wake-ups were due, and how many of them passed without a
    /// sample.
    Missed,
    /// Whether samples were discarded at the start.
    WarmUp,
    /// When each sample was due: `expected` of kept samples only numbers them.
    Times,
    /// The policy and priority of the measuring threads.
    Scheduling,
    /// The CPUs on which was measured.
    Cpus,
    /// What disturbed the machine on purpose.
    Load,
    /// What else happened on the CPUs.
    Interference,
    /// What the measurement itself cost.
    Observer,
}

impl Unknown {
    /// Each with its words on screen.
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

    /// Its words on screen.
    pub fn words(self) -> &'static str {
        let known = Self::ALL.iter().find(|(unknown, _)| *unknown == self);
        known.map_or("", |(_, words)| words)
    }
}
