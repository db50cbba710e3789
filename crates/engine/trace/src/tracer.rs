//! Code shared by the sessions of the kernel's tracers: file names, and functions that create and
//! remove an instance's folder.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::{TraceError, Tracefs};

// Files in the folder of an instance.
pub(crate) const CURRENT: &str = "current_tracer";
pub(crate) const ON: &str = "tracing_on";
pub(crate) const CLOCK: &str = "trace_clock";

/// The file of a kernel-wide setting that several tracers use.
pub(crate) const THRESHOLD: &str = "tracing_thresh";

/// The clock of the reports: CLOCK_MONOTONIC. It is set before any kernel-wide setting is changed,
/// so it indicates that an instance has settings to restore.
pub(crate) const MONO: &str = "mono";

impl Tracefs {
    /// Creates an instance, given its folder. The returned descriptor locks the instance (see
    /// [`is_held`](Self::is_held)).
    pub(crate) fn make_instance(&self, folder: &Path) -> Result<Option<OwnedFd>, TraceError> {
        let made = self.files().make_folder(folder);
        made.map_err(|source| TraceError::Instance {
            what: "make",
            path: folder.to_owned(),
            source,
        })?;
        Ok(self.hold(folder))
    }

    /// Locks the folder of an instance. Without the lock, only the process ID in the name of the
    /// instance would show whether it is in use.
    pub(crate) fn hold(&self, folder: &Path) -> Option<OwnedFd> {
        self.files().hold(folder).ok().flatten()
    }

    /// Returns whether a living process has locked an instance. Unlike process IDs, this also works
    /// across PID namespaces.
    pub(crate) fn is_held(&self, folder: &Path) -> bool {
        matches!(self.files().hold(folder), Ok(None))
    }

    /// Removes an instance, given its folder.
    pub(crate) fn remove_instance(&self, folder: &Path) -> Result<(), TraceError> {
        self.files()
            .remove_folder(folder)
            .map_err(|source| TraceError::Instance {
                what: "remove",
                path: folder.to_owned(),
                source,
            })
    }

    /// Selects the tracer of an instance. Returns the error `busy` if another program is using the
    /// tracer.
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

/// Combines `error`, the error of a failed start, with `ended`, the result of cleaning up after it.
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
