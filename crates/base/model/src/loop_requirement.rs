//! The requirements of a periodic loop.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{EPISODE_GAP, Nanos};

/// The requirements of a periodic loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRequirement {
    /// Its period.
    pub period_ns: Nanos,
    /// Maximum delay of a period after its due time. A period that begins later is a miss.
    pub budget_ns: Nanos,
    /// Number of episodes of misses that the loop tolerates per day.
    pub max_misses_per_day: f64,
    /// Longest pause within an episode. Misses with no longer pause between them belong to the same
    /// episode.
    #[serde(default = "episode_gap")]
    pub episode_gap_ns: Nanos,
}

fn episode_gap() -> Nanos {
    EPISODE_GAP
}
