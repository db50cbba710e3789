//! The ID of a recording.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The ID of a recording: a UUID of version 7, so that IDs sort by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordingId(pub Uuid);

impl RecordingId {
    /// Creates a new ID with the current time.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Returns the last eight digits, which are random and short enough to type. The first digits
    /// of a UUIDv7 encode the time and are the same for all recordings of a day.
    pub fn short(&self) -> String {
        let text = self.0.simple().to_string();
        text[text.len() - 8..].to_owned()
    }
}

impl Default for RecordingId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RecordingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
