//! What a run of a probe is asked to do: parameters, loads, the measured control group.

mod control_group;
mod load_record;
mod parameter;
mod probe_run;

pub use control_group::{CpuQuota, GroupFacts};
pub use load_record::{Achieved, LoadRecord};
pub use parameter::{ArgumentError, Arguments, Parameter, ParameterKind, ParameterValue, Typed};
pub use probe_run::{Chart, ProbeRun};
