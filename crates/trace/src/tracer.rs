//! What the sessions of the kernel's tracers share: the names of files, and an
//! instance's folder made and removed.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::{TraceError, Tracefs};

// Of an instance.
pub(crate) const CURRENT: &str = "current_tracer";
pub(crate) const ON: &str = "tracing_on";
pub(crate) const CLOCK: &str = "trace_clock";

/// Of the whole kernel; several tracers read it.
pub(crate) const THRESHOLD: &str = "tracing_thresh";

/// The clock of the reports: CLOCK_MONOTONIC. It is set before the first change
/// of what is the whole kernel's, and so marks an instance for which there is
/// something to put back.
pub(crate) const MONO: &str = "mono";

impl Tracefs {
    /// Makes the folder of an instance, and with it the instance. What it returns
    /// holds it: see [`is_held`](Self::is_held).
    pub(crate) fn make_instance(&self, folder: &Path) -> Result<Option<OwnedFd>, TraceError> {
        let made = self.files().make_folder(folder);
        made.map_err(|source| TraceError::Instance {
            what: "make",
            path: folder.to_owned(),
            source,
        })?;
        Ok(self.hold(folder))
    }

    /// Holds the folder of an instance; without that it is known by its process alone.
    pub(crate) fn hold(&self, folder: &Path) -> Option<OwnedFd> {
        self.files().hold(folder).ok().flatten()
    }

    /// Whether a living process holds an instance. The number of a process says
    /// nothing in another pid namespace.
    pub(crate) fn is_held(&self, folder: &Path) -> bool {
        matches!(self.files().hold(folder), Ok(None))
    }

    /// Removes the folder of an instance, and with it the instance.
    pub(crate) fn remove_instance(&self, folder: &Path) -> Result<(), TraceError> {
        self.files()
            .remove_folder(folder)
            .map_err(|source| TraceError::Instance {
                what: "remove",
                path: folder.to_owned(),
                source,
            })
    }

    /// Gives the instance its tracer; `busy` is the error where another program
    /// has it.
    pub(crate) fn take_tracer(
        &self,
        folder: &Path,
        tracer: &str,
        busy: TraceError,
    ) -> Result<(), TraceError> {
        match self.write(&folder.join(CURRENT), tracer) {
            Err(TraceError::Write { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {
                Err(busy)
            }
            other => other,
        }
    }
}

/// What a start that failed with `error` says, after what it had begun was
/// ended with `ended`.
pub(crate) fn not_started(
    error: TraceError,
    ended: Result<(), TraceError>,
    folder: &Path,
) -> TraceError {
    match ended {
        Ok(()) => error,
        Err(second) => TraceError::NotRestored {
            path: folder.to_owned(),
            errors: vec![error, second],
        },
    }
}
