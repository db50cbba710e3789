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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_form_is_the_end_of_the_long_one() {
        let id = RecordingId(uuid::Uuid::from_u128(
            0x019a_4d1c_7b3a_7000_8000_1234_5678_9abc,
        ));
        assert_eq!(id.to_string(), "019a4d1c-7b3a-7000-8000-123456789abc");
        assert_eq!(id.short(), "56789abc");
        assert_ne!(RecordingId::new(), RecordingId::new());
        assert_ne!(RecordingId::default(), RecordingId::default());
    }
}
