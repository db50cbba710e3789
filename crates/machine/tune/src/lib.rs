//! Settings of the machine: changed with a journal, undone exactly.
//!
//! **For:** changing settings so that they can be put back whatever happens.
//! A [`Plan`] says what would be changed; [`apply`] carries it out, all or
//! nothing, and keeps it until [`revert`]; [`Status`] says whether it still
//! holds. A measurement that needs a setting changes it for its own time
//! ([`Journal::apply`], [`Journal::revert_all`]). The old value is on disk
//! before a change is made, the change is read back after it, and what a killed
//! program left half done is undone by [`recover`]. The only crate that writes
//! to /proc and /sys.
//!
//! **Knows:** where each setting stands, what it takes and what it risks (one
//! entry each in [`punctual_model::SETTINGS`]), profiles of settings ([`PROFILES`]), the host (its
//! root path, its boot, its processes), scheduling policies.
//!
//! **Must not know:** whether the machine as it is is good (that is for others
//! to say), probes, recordings, terminals.
//!
//! Why this order: a journal that is written first may hold a change that
//! was never made, and then there is nothing to put back. The other way round,
//! a change could be made that nobody knows of.
//!
//! Two journals ([`Places`]): what a measurement has changed is undone by the
//! next command if need be; what a user has applied stays, also across reboots
//! where it is a file on disk. The end of an apply is a record of its own:
//! without it, the changes before it are half of a plan and are undone too.

mod access;
mod accessors;
mod apply;
mod boot;
mod boot_files;
pub mod boot_loader;
mod cmdline;
mod context;
mod default_path;
mod error;
mod every_boot;
mod frequency;
mod fs;
mod journal;
#[cfg(test)]
mod kernel_tests;
mod lock;
mod pattern;
mod plan;
#[cfg(test)]
mod plan_tests;
mod planned;
mod profile;
mod reason;
mod record;
mod recover;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod remedy_tests;
mod restored;
mod setting;
mod status;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testing_kernel;
#[cfg(test)]
mod tests;
mod throttle;
#[cfg(test)]
mod trees;
mod undo;
mod validity;

use schemars::JsonSchema;

pub use accessors::{HOLD_VERB, deeper_idle_states, hold_latency};
pub use apply::{Applied, Options, Places, Refusals, apply, revert};
pub use boot::BootArgument;
pub use cmdline::{
    Changes, CmdlineEdit, CmdlineError, CmdlineFile, CmdlineRevert, CmdlineState, CmdlineWritten,
    FileEdit, Unclear, cmdline_state, revert as revert_cmdline,
};
pub use default_path::default_path;
pub use error::{Failure, TuneError};
pub use every_boot::{
    AtBoot, Attempt, BOOT_CONFIG, BootError, BootStatus, BootTune, UnitState, Verified,
    apply_at_boot, boot_reached, boot_status, disable, enable, verify_at_boot, verify_enabled,
};
pub use journal::{Change, Journal};
pub use plan::Request;
pub use planned::{LeftOut, Plan, Step};
pub use profile::{BuiltIn, PROFILES, Profile, Wish};
pub use recover::recover;
pub use restored::{How, Restored};
pub use setting::{may_change, offered, readable, setting, value};
pub use status::{Hold, Phase, SettingStatus, Status};
