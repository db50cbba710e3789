//! What was measured, and how.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;

/// The picture that shows a probe's figures best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Chart {
    /// Samples by latency, a curve for each thread.
    #[default]
    Latency,
    /// From each CPU to each CPU: a heat map.
    Matrix,
    /// A bar for each way or kind.
    Bars,
}

/// What was measured, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeRun {
    /// The probe's name: `timer`.
    pub name: String,
    /// The picture that shows its figures best.
    #[serde(default)]
    pub chart: Chart,
    /// Whether all threads measure the same, so that their figures may be taken
    /// together.
    #[serde(default = "alike")]
    pub alike: bool,
    /// Each parameter with the value in force. Durations are integers under
    /// keys that end in `_ns`.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// The version of punctual that measured.
    pub program: String,
    /// The command line, as the program got it.
    pub command_line: Vec<String>,
}

const fn alike() -> bool {
    true
}

impl ProbeRun {
    /// The name under which waits of a running application's threads are recorded:
    /// nothing of ours measures them, and they have no period.
    pub const OBSERVED: &str = "threads";

    /// The name under which jobs of a running application's threads are recorded.
    pub const JOBS: &str = "jobs";

    /// The name under which the figures of an application are recorded, which it measured
    /// itself.
    pub const IN_APP: &str = "app";

    /// The parameter that names what was watched: `motion (pid 1234)`.
    pub const WATCHED: &str = "watched";

    /// Whose threads were watched; `None`: ours measured.
    pub fn watched(&self) -> Option<&str> {
        let named = |name| self.parameters.get(name).and_then(|value| value.as_str());
        let watched = named(Self::WATCHED).or_else(|| named("targets"));
        self.is_observed().then(|| watched.unwrap_or("unknown"))
    }

    /// The application that measured itself: `motion (pid 1234)`. `None`: ours
    /// measured, or threads were watched.
    pub fn application(&self) -> Option<&str> {
        let name = self
            .parameters
            .get(Self::WATCHED)
            .and_then(|value| value.as_str());
        (self.name == Self::IN_APP).then(|| name.unwrap_or("unknown"))
    }

    /// Whether threads were watched that are not ours.
    pub fn is_observed(&self) -> bool {
        self.name == Self::OBSERVED || self.name == Self::JOBS
    }
}
