//! The boots of an experiment whose unit is the boot.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;

/// How an experiment chooses what the machine boots, and what came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Boots {
    /// What chooses the kernel's command line.
    pub loader: BootLoader,
    /// Why no boot loader chooses; null where one does.
    pub by_hand: Option<String>,
    /// The kernel's command line of the boot in which the experiment began.
    pub usual: String,
    /// Each boot that was asked for, in order.
    pub attempts: Vec<BootAttempt>,
}

/// What chooses the kernel's command line for one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BootLoader {
    /// GRUB 2, by its environment block.
    Grub,
    /// systemd-boot, by `bootctl set-oneshot`.
    SystemdBoot,
    /// The user, by printed steps.
    ByHand,
}

impl BootLoader {
    /// The name on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grub => "GRUB",
            Self::SystemdBoot => "systemd-boot",
            Self::ByHand => "by hand",
        }
    }
}

/// One boot that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BootAttempt {
    /// The round that it belongs to, from 0.
    pub round: u32,
    /// The arm, as its place in the plan.
    pub arm: u32,
    /// When it was asked for.
    pub requested: Timestamp,
    /// The boot (`/proc/sys/kernel/random/boot_id`) in which it was asked for.
    pub requested_in: String,
    /// The boot that came up; null before.
    pub boot: Option<String>,
    /// The kernel's command line of that boot; null before.
    pub command_line: Option<String>,
    /// What became of it.
    pub outcome: BootOutcome,
}

/// What became of a boot that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BootOutcome {
    /// The machine has not rebooted since.
    Requested,
    /// It came up as asked for; its block is not complete.
    Measuring,
    /// Its block is one of the experiment.
    Measured,
    /// The kernel's command line was another one: not counted.
    OtherParameters,
    /// It came up as asked for and ended before its block was complete: not counted.
    Lost,
}

impl BootOutcome {
    /// The words on screen.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Requested => "not rebooted yet",
            Self::Measuring => "being measured",
            Self::Measured => "measured",
            Self::OtherParameters => "came up with other parameters",
            Self::Lost => "ended before its block was complete",
        }
    }
}

/// A file that was written, and what to put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenFile {
    /// Its path.
    pub path: String,
    /// Its text before; null where there was none.
    pub before: Option<String>,
    /// Its text as written.
    pub after: String,
    /// Whether its folder was made for it.
    pub made_folder: bool,
}
