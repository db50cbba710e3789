//! Errors of experiments.

use punctual_session::SessionError;
use punctual_store::StoreError;
use punctual_tune::TuneError;

/// The reason why an experiment cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// An invalid probe parameter or load.
    #[error("{0}")]
    Parameter(String),
    /// The plan could not show anything.
    #[error("{0}")]
    Plan(String),
    /// The compared values are the same.
    #[error("{arm} is already in effect: there is nothing to compare")]
    Equal {
        /// The arm.
        arm: String,
    },
    /// The setting takes effect only when the machine is booted.
    #[error(
        "{setting} takes effect only when the machine or a service starts: an experiment within \
         one boot cannot test it"
    )]
    NeedsBoot {
        /// The setting.
        setting: String,
    },
    /// A setting was changed by another program or by a user during a block.
    #[error(
        "another program changed {setting} to '{found}' during a block: end that program, then run \
         `punctual experiment resume`"
    )]
    ChangedMeanwhile {
        /// The setting.
        setting: String,
        /// The current value of the setting.
        found: String,
    },
    /// A command of an arm failed.
    #[error("the command '{command}' failed ({how}){output}")]
    Command {
        /// The command.
        command: String,
        /// How the command ended.
        how: String,
        /// The command's output; it starts with ": " or is empty.
        output: String,
    },
    /// A block without a usable measurement of the application.
    #[error("{0}: the block is void, and the experiment ends")]
    Block(String),
    /// The kernel throttles the machine because of its temperature.
    #[error(
        "thermal zone {zone} has reached its limit ({at} of {limit} °C): let the machine cool \
         down, then run `punctual experiment resume`"
    )]
    Hot {
        /// The thermal zone.
        zone: String,
        /// The temperature of the zone, in degrees Celsius.
        at: i64,
        /// The temperature at which the kernel starts throttling, in degrees Celsius.
        limit: i64,
    },
    /// A boot that cannot be counted.
    #[error("{0}: not counted")]
    NoBoot(String),
    /// An error of a boot entry.
    #[error(transparent)]
    Boot(#[from] punctual_tune::boot_loader::BootError),
    /// An experiment that this user did not start on this machine.
    #[error(
        "experiment {id} can only be shown, because this user did not start it on this machine, or \
         its plan has changed since: start a new experiment to measure"
    )]
    Foreign {
        /// The short ID of the experiment.
        id: String,
    },
    /// An error concerning the entry of an experiment that this user started on this machine.
    #[error(transparent)]
    Entry(#[from] punctual_files::FileError),
    /// Another measurement is running on this machine.
    #[error(
        "another process is measuring {what}, and the two measurements would disturb each other: \
         wait until it has ended, or give --share-cpus"
    )]
    Shared {
        /// The other measurement.
        what: String,
    },
    /// The user stopped the experiment.
    #[error("stopped")]
    Stopped,
    /// An error of a setting.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// An error of a measurement.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}
