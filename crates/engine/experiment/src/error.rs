//! Errors of experiments.

use punctual_session::SessionError;
use punctual_store::StoreError;
use punctual_tune::TuneError;

/// Why an experiment cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// An invalid probe parameter or load.
    #[error("{0}")]
    Parameter(String),
    /// The plan cannot show anything.
    #[error("{0}")]
    Plan(String),
    /// The values compared are the same.
    #[error("{arm} is already in effect: there is nothing to compare")]
    Equal {
        /// The arm.
        arm: String,
    },
    /// The setting takes effect only at a start.
    #[error(
        "{setting} takes effect only when the machine or a service starts: an experiment within \
         one boot cannot test it"
    )]
    NeedsBoot {
        /// The setting.
        setting: String,
    },
    /// A setting was changed from outside during a block.
    #[error(
        "another program changed {setting} to '{found}' during a block: end that program, then run \
         `punctual experiment resume`"
    )]
    ChangedMeanwhile {
        /// The setting.
        setting: String,
        /// Its current value.
        found: String,
    },
    /// A command of an arm failed.
    #[error("the command '{command}' failed ({how}){output}")]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
        /// The command's output; it starts with ": " or is empty.
        output: String,
    },
    /// The kernel throttles the machine because of its temperature.
    #[error(
        "thermal zone {zone} has reached its limit ({at} of {limit} °C): let the machine cool \
         down, then run `punctual experiment resume`"
    )]
    Hot {
        /// The thermal zone.
        zone: String,
        /// Its temperature in degrees Celsius.
        at: i64,
        /// The temperature at which the kernel starts to throttle, in degrees Celsius.
        limit: i64,
    },
    /// A boot that cannot be counted.
    #[error("{0}: not counted")]
    NoBoot(String),
    /// An error of a boot entry.
    #[error(transparent)]
    Boot(#[from] punctual_tune::boot_loader::BootError),
    /// An experiment that was not started here.
    #[error(
        "experiment {id} can only be shown, because this user did not start it on this machine, or \
         its plan has changed since: start a new experiment to measure"
    )]
    Foreign {
        /// Its short ID.
        id: String,
    },
    /// An error of the entry of an experiment that was started here.
    #[error(transparent)]
    Entry(#[from] punctual_files::FileError),
    /// Another measurement runs on this machine.
    #[error(
        "another process is measuring {what}, and the two measurements would disturb each other: \
         wait until it has ended, or give --share-cpus"
    )]
    Shared {
        /// The other measurement.
        what: String,
    },
    /// The user stopped it.
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
