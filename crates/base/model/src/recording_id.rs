//! The identity of a recording.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::schema::JsonSchema;

/// The identity of a recording: a UUID of version 7, so that they sort by the
/// time they were made.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct RecordingId(pub Uuid);

impl RecordingId {
    /// A new one, of now.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The last eight digits: the random end of a UUIDv7, short enough to type
    /// (its beginning is the time, equal for recordings of one day).
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
