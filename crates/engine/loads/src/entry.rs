//! The description of a load, and the trait that each load implements.

use punctual_model::{Achieved, ArgumentError, Arguments, CpuSetError, Nanos, Parameter};

/// The description of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// Effect on the machine, as a phrase for the list of loads.
    pub summary: &'static str,
    /// Parameters on the command line.
    pub parameters: &'static [Parameter],
    /// The parameter that takes the whole text after the colon (`command:'make -j8'`), if any.
    pub bare: Option<&'static str>,
    /// Program that must be installed, if any.
    pub needs: Option<&'static str>,
    /// Whether the load consists of threads or processes.
    pub kind: LoadKind,
    /// Creates the load with these arguments.
    pub build: fn(&Arguments) -> Box<dyn Load>,
}

/// The kind of tasks that a load consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// Threads of the calling process, unless started in a
    /// [subprocess](crate::LoadRequest::subprocess).
    Threads,
    /// Separate processes.
    Processes,
}

/// A load that disturbs the machine.
pub trait Load: Send {
    /// Starts the load on these CPUs (at least one).
    ///
    /// # Errors
    /// Returns an error if a resource is not available. In that case, no part of the load is left
    /// running.
    fn start(&mut self, cpus: &[u32]) -> Result<(), LoadError>;

    /// Returns how the load ended, if it ended before [`Self::stop`] was called.
    fn ended_early(&mut self) -> Option<Ended>;

    /// Returns the CPU time used so far, if known. After [`Self::stop`], this is the total.
    fn cpu_time(&mut self) -> Option<Nanos>;

    /// Returns the work done; empty if unknown. Call this after [`Self::stop`].
    fn achieved(&mut self) -> Vec<Achieved>;

    /// Stops the load, and returns when all its tasks have ended.
    fn stop(&mut self);
}

/// Describes how a load ended before it was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Description, without a full stop at its end.
    pub how: String,
    /// Whether the load failed, that is, ended with an exit status other than 0, by a signal or
    /// with an error.
    pub failed: bool,
    /// The last lines of its stderr; empty if there are none.
    pub stderr: String,
}

impl Ended {
    /// Creates a failure without output.
    pub(crate) fn failure(how: impl Into<String>) -> Self {
        Self {
            how: how.into(),
            failed: true,
            stderr: String::new(),
        }
    }
}

/// Why a load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No load has this name.
    #[error("unknown load '{name}': choose one of {known}, or none")]
    NoSuchLoad {
        /// The requested name.
        name: String,
        /// Names of the existing loads.
        known: String,
    },
    /// An invalid parameter.
    #[error("load {load}: {source}")]
    Argument {
        /// The load.
        load: &'static str,
        /// The reason.
        source: ArgumentError,
    },
    /// Invalid CPUs.
    #[error("load {load}: {source}")]
    Cpus {
        /// The load.
        load: &'static str,
        /// The reason.
        source: CpuSetError,
    },
    /// A program that the load needs is not installed.
    #[error("load {load}: {program} is not in PATH: install it")]
    NotInstalled {
        /// The load.
        load: &'static str,
        /// The program.
        program: &'static str,
    },
    /// This machine lacks the device that the load uses.
    #[error("load {load}: this machine has no {what}")]
    NoDevice {
        /// The load.
        load: &'static str,
        /// The device, and where it was searched for.
        what: String,
    },
    /// The request does not fit this machine.
    #[error("load {load}: {why}")]
    Unfit {
        /// The load.
        load: &'static str,
        /// The reason, and the remedy.
        why: String,
    },
    /// The load could not be started.
    #[error("load {load}: {what}: {source}")]
    Start {
        /// The load.
        load: &'static str,
        /// The failed step.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
}

impl LoadError {
    pub(crate) fn start(
        load: &'static str,
        what: impl Into<String>,
        source: std::io::Error,
    ) -> Self {
        Self::Start {
            load,
            what: what.into(),
            source,
        }
    }
}
