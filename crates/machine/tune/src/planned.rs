//! What a plan holds: settings with what each is and is to be.

use punctual_model::{CpuSet, Risk, Setting};
use serde::Serialize;

use crate::JsonSchema;
use crate::boot::BootArgument;

/// One setting of a plan.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Step {
    /// `name`, or `name@instance`, as a person names it.
    #[serde(rename = "setting")]
    pub label: String,
    /// Its name.
    #[serde(rename = "knob", serialize_with = "name_of")]
    #[schemars(with = "String")]
    pub setting: &'static Setting,
    /// Which of several; empty where there is one only.
    pub instance: String,
    /// What it is, as the kernel words it.
    pub current: String,
    /// What it is to be, as it is written.
    pub target: String,
    /// Whether that is something else.
    pub changes: bool,
    /// How bad it can be.
    pub risk: Risk,
    /// What it can cost or break.
    pub caution: &'static str,
    /// Whether it was asked for as one of several, so that one which the kernel
    /// refuses does not speak against the others.
    #[serde(skip)]
    pub(crate) broad: bool,
    /// Whether a profile asks for it, and not a setting named by itself.
    #[serde(skip)]
    pub(crate) wish: bool,
}

fn name_of<S: serde::Serializer>(setting: &Setting, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(setting.name)
}

/// Something that was asked for and will not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The setting.
    pub setting: String,
    /// Why.
    pub reason: String,
}

/// What would be changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Plan {
    /// The profile's name, or the settings.
    pub label: String,
    /// The CPUs that it is for.
    pub cpus: Option<CpuSet>,
    /// The settings, in the order in which they are changed.
    pub steps: Vec<Step>,
    /// What is not on this machine, or cannot be changed on it.
    pub left_out: Vec<LeftOut>,
    /// What belongs on the kernel's command line.
    pub boot: Vec<BootArgument>,
    /// How it gets there.
    pub boot_instructions: Vec<String>,
    /// What the reader must know.
    pub remarks: Vec<String>,
}

impl Plan {
    /// The settings that are not as they are to be.
    pub fn changes(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.changes)
    }
}
