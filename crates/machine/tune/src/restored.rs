//! The results of restoring settings.

use serde::Serialize;

/// A setting that has its old value again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The setting, `name` or `name@instance`.
    pub setting: String,
    /// The restored value.
    pub value: String,
    /// How it was restored.
    pub how: How,
}

punctual_model::to_json!(Restored);

/// How a setting was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The old value was written and read back.
    Written {
        /// Value that the setting had before the old value was written.
        found: String,
        /// Whether the value found was the new value in the journal. If not, another program or
        /// user had changed the setting.
        ours: bool,
    },
    /// The setting already had the old value: the change was never made, or someone else has
    /// already undone it.
    WasThere,
    /// The machine was rebooted after the change, which undid the change. The current value was not
    /// read.
    Reboot,
    /// The object to which the setting belongs, such as a thread, no longer exists.
    Gone,
    /// The setting could not be restored, and the user requested to give it up.
    Forgotten,
}
