//! Changes settings of the machine, records the changes in a journal, and undoes them exactly.
//!
//! **For:** changing settings so that they can always be restored. A [`Plan`] lists the changes;
//! [`apply`] makes all of them or none, and they stay until [`revert`]; [`Status`] reports whether
//! they are still in force. A measurement that needs a setting changes it for the duration of the
//! measurement ([`Journal::apply`], [`Journal::revert_all`]). The old value is on disk before a
//! change is made, and the change is read back afterwards. [`recover`] undoes the incomplete
//! changes of a program that was killed. This is the only crate that writes to /proc and /sys.
//!
//! **Knows:** the path, the values and the risk of each setting (one entry each in
//! [`punctual_model::SETTINGS`]), profiles of settings ([`PROFILES`]), the host (its root path, its
//! boot, its processes), scheduling policies.
//!
//! **Must not know:** whether the machine is well configured (the crate `checks` judges that),
//! probes, recordings, terminals.
//!
//! Each change is written to the journal before it is made. The journal may therefore contain a
//! change that was never made, for which there is nothing to restore. In the opposite order, a
//! change could be made without being recorded anywhere.
//!
//! There are two journals ([`Locations`]). If a measurement did not undo its changes, the next
//! command does. The changes that a user applied stay, even across reboots if they are in a file on
//! disk. A record marks the end of an apply. If this record is missing, the changes are part of an
//! incomplete plan and are undone as well.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
mod accessors;
mod apply;
mod boot;
mod boot_files;
pub mod boot_loader;
mod cmdline;
mod context;
mod default_path;
#[cfg(test)]
mod device_tests;
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
#[cfg(test)]
mod profile_tests;
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
#[cfg(test)]
mod status_tests;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testing_kernel;
#[cfg(test)]
mod testing_resctrl;
#[cfg(test)]
mod tests;
mod throttle;
#[cfg(test)]
mod trees;
mod tuned;
mod undo;
mod validity;
#[cfg(test)]
mod wish_tests;

pub use accessors::{HOLD_VERB, deeper_idle_states, hold_latency};
pub use apply::{Applied, Locations, Options, Refusals, apply, revert};
pub use boot::BootArgument;
pub use cmdline::{
    Changes, CmdlineEdit, CmdlineError, CmdlineFile, CmdlineNext, CmdlineRevert, CmdlineState,
    CmdlineWritten, FileEdit, Unclear, cmdline_state, revert as revert_cmdline,
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
pub use tuned::{NotImported, TunedExport, TunedImport};
