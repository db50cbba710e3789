//! What a periodic loop needs of the machine.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{EPISODE_GAP, Nanos};

/// What a periodic loop needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRequirement {
    /// Its period.
    pub period_ns: Nanos,
    /// A period that begins later than this is a miss.
    pub budget_ns: Nanos,
    /// Episodes of misses a day that it survives.
    pub max_misses_per_day: f64,
    /// Misses with no pause longer than this between them are one episode.
    #[serde(default = "episode_gap")]
    pub episode_gap_ns: Nanos,
}

fn episode_gap() -> Nanos {
    EPISODE_GAP
}
