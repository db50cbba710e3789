//! What became of a setting that was to be put back.

use serde::Serialize;

use crate::JsonSchema;

/// A setting that is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Restored {
    /// The setting, `name` or `name@instance`.
    #[serde(rename = "knob")]
    pub setting: String,
    /// The value it has again.
    pub value: String,
    /// How it came to have it.
    pub how: How,
}

/// How a setting came to be as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The old value was written and read back.
    Written {
        /// The value found before.
        found: String,
        /// Whether that was the journal's; if not, someone else had changed the
        /// setting meanwhile.
        ours: bool,
    },
    /// It was there already: the change was never made, or someone has undone
    /// it.
    WasThere,
    /// The machine has been booted since; settings do not outlive that. What it
    /// is now was not looked at.
    Reboot,
    /// What it belonged to no longer exists: a thread.
    Gone,
    /// It could not be put back, and was given up on request.
    Forgotten,
}
