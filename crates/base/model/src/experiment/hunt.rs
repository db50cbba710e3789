//! The result of a search for the mix of loads with the most late periods.

use serde::{Deserialize, Serialize};

use crate::{Checkup, Nanos};

/// The version of [`Hunt`] as JSON. It is increased only if a reader of the older form would misread
/// the newer one. Adding a field does not increase it.
pub const HUNT_SCHEMA: u32 = 1;

/// The result of a search for the mix of loads with the highest reproducible rate of late periods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hunt {
    /// Version of this JSON form, [`HUNT_SCHEMA`].
    pub schema: u32,
    /// Version of the program that searched.
    pub program: String,
    /// The result in one sentence.
    pub sentence: String,
    /// The confirmed mix. Null if no mix was confirmed.
    pub worst: Option<WorstMix>,
    /// Number of different mixes that were measured.
    pub tried: u32,
    /// Number of pairs of different loads that were in a mix together.
    pub load_pairs: u32,
    /// Number of pairs of different loads that exist.
    pub load_pairs_possible: u32,
    /// Duration of the search.
    pub took_ns: Nanos,
    /// Number of blocks of the search.
    pub blocks: u32,
    /// Mean length of a block.
    pub block_ns: Nanos,
    /// Mean time that a block took, with the time in which its loads start and end.
    pub block_took_ns: Nanos,
    /// Seed of the random mixes.
    pub seed: u64,
    /// Loads that the search did not use, with the reason, and pauses of the search.
    pub notes: Vec<String>,
    /// The check of the machine under this mix, with the causes of late periods. Null if no mix was
    /// confirmed, or if the search was stopped.
    pub checkup: Option<Checkup>,
}

/// A mix of loads that makes more periods late, confirmed on fresh data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorstMix {
    /// The loads, each as an argument of `--load`.
    pub loads: Vec<String>,
    /// The command that repeats it.
    pub command: String,
    /// Number of late periods in the confirmation.
    pub late: u64,
    /// Number of due periods in the confirmation.
    pub periods: u64,
    /// Number of late periods without load, measured next to it.
    pub late_without: u64,
    /// Number of due periods without load.
    pub periods_without: u64,
    /// Number of pairs of blocks, with and without the mix, in the confirmation.
    pub pairs: u32,
}
