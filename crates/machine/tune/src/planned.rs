//! The contents of a plan: settings with their current and new values.

use punctual_model::{CpuSet, Risk, Setting};
use serde::Serialize;

use crate::boot::BootArgument;

/// One setting of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// `name`, or `name@instance`, as a user writes it.
    #[serde(rename = "setting")]
    pub label: String,
    /// Name of the setting.
    #[serde(serialize_with = "name_of")]
    pub setting: &'static Setting,
    /// Name of the instance; empty if there is only one.
    pub instance: String,
    /// Current value, as the kernel formats it.
    pub current: String,
    /// New value, as it is written.
    pub target: String,
    /// Whether the two values differ.
    pub changes: bool,
    /// Severity of the risk.
    pub risk: Risk,
    /// Possible cost or damage of the change.
    pub caution: &'static str,
    /// Whether this is one of several instances of a request, so that the others are still applied
    /// if the kernel refuses this one.
    #[serde(skip)]
    pub(crate) broad: bool,
    /// Whether the setting comes from a profile and was not named explicitly.
    #[serde(skip)]
    pub(crate) wish: bool,
}

fn name_of<S: serde::Serializer>(setting: &Setting, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(setting.name)
}

/// A requested setting that will not be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The setting.
    pub setting: String,
    /// The reason.
    pub reason: String,
}

/// A list of changes to make.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Name of the profile. If there is no profile, the list of settings.
    pub label: String,
    /// CPUs that the plan is for.
    pub cpus: Option<CpuSet>,
    /// Settings, in the order in which they are changed.
    pub steps: Vec<Step>,
    /// Settings that this machine does not have or cannot change.
    pub left_out: Vec<LeftOut>,
    /// Parameters for the kernel's command line.
    pub boot: Vec<BootArgument>,
    /// Instructions for adding these parameters.
    pub boot_instructions: Vec<String>,
    /// Notes for the reader.
    pub remarks: Vec<String>,
}

punctual_model::to_json!(Plan);

impl Plan {
    /// Returns the settings whose values would change.
    pub fn changes(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.changes)
    }
}
