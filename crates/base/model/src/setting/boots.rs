//! The boots of an experiment whose experimental unit is the boot.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How an experiment controls the boots of the machine, and which boots have happened so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boots {
    /// How the kernel command line is selected.
    pub loader: BootLoader,
    /// Reason why no boot loader can select it. Null if one can.
    pub by_hand: Option<String>,
    /// The kernel command line at the start of the experiment.
    pub usual: String,
    /// Each requested boot, in order.
    pub attempts: Vec<BootAttempt>,
}

/// A method of selecting the kernel command line for one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootLoader {
    /// GRUB 2, through its environment block.
    Grub,
    /// systemd-boot, through `bootctl set-oneshot`.
    SystemdBoot,
    /// The user, who follows printed steps.
    ByHand,
}

impl BootLoader {
    /// Returns the name to display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grub => "GRUB",
            Self::SystemdBoot => "systemd-boot",
            Self::ByHand => "by hand",
        }
    }
}

/// One requested boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootAttempt {
    /// The round that it belongs to, starting at 0.
    pub round: u32,
    /// The arm, as an index into the plan.
    pub arm: u32,
    /// Time of the request.
    pub requested: Timestamp,
    /// The boot during which this boot was requested (`/proc/sys/kernel/random/boot_id`).
    pub requested_in: String,
    /// ID of the boot that followed the request. Null until the machine reboots.
    pub boot: Option<String>,
    /// The kernel command line of that boot. Null until the machine reboots.
    pub command_line: Option<String>,
    /// The outcome.
    pub outcome: BootOutcome,
}

/// The outcome of a requested boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootOutcome {
    /// The machine has not rebooted since the request.
    Requested,
    /// The machine booted as requested. The block is not complete yet.
    Measuring,
    /// The block that was measured in this boot is part of the experiment.
    Measured,
    /// The kernel command line differed from the request. The boot is not counted.
    OtherParameters,
    /// The machine booted as requested, but the boot ended before the block was complete. It is not
    /// counted.
    Lost,
}

impl BootOutcome {
    /// Returns the words to display.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Requested => "not rebooted yet",
            Self::Measuring => "being measured",
            Self::Measured => "measured",
            Self::OtherParameters => "booted with other parameters",
            Self::Lost => "ended before its block was complete",
        }
    }
}

/// A file that was written, and its previous content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its path.
    pub path: String,
    /// Its previous content. Null if the file did not exist.
    pub before: Option<String>,
    /// Its new content.
    pub after: String,
    /// Whether the directory of the file was created for it.
    pub made_folder: bool,
}
