//! Kernel tracers, as used by a probe, and the handle that they share.

mod hwlat;
mod noise;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_host::Host;
use punctual_model::ProcessId;
use punctual_probes::TracerError;
use punctual_trace::{Files, RealFiles, TraceError, Tracefs};

pub(crate) use hwlat::KernelTracer;
pub(crate) use noise::{KernelNoise, TimerlatStacks};

/// A running tracer that can be stopped.
pub(crate) trait Running {
    /// Stops the tracer, and restores its settings.
    fn stop(&mut self) -> Result<(), TraceError>;
}

/// Settings of a tracer that could not be restored when it ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}; the next punctual command tries again")]
pub(crate) struct StopError(#[source] TraceError);

/// A tracer of this machine. Its settings are restored when it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct TracerHandle<T> {
    host: Host,
    files: Arc<dyn Files>,
    running: Mutex<Option<T>>,
}

impl<T: Running> TracerHandle<T> {
    pub(crate) fn new(host: Host) -> Self {
        Self::with_files(host, Arc::new(RealFiles))
    }

    pub(crate) fn with_files(host: Host, files: Arc<dyn Files>) -> Self {
        Self {
            host,
            files,
            running: Mutex::new(None),
        }
    }

    /// Returns the owner of the trace instance: this process.
    pub(crate) fn owner(&self) -> ProcessId {
        self.host.own_process()
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn tracefs(&self) -> Result<Tracefs, TracerError> {
        Tracefs::find_with(self.host.root(), Arc::clone(&self.files)).map_err(TracerError::refused)
    }

    /// Starts the tracer; fails if it was already started.
    pub(crate) fn begin(
        &self,
        start: impl FnOnce(&Tracefs) -> Result<T, TraceError>,
    ) -> Result<(), TracerError> {
        let tracefs = self.tracefs()?;
        let mut running = self.lock();
        if running.is_some() {
            return Err(TracerError::AlreadyStarted);
        }
        *running = Some(start(&tracefs).map_err(TracerError::refused)?);
        Ok(())
    }

    /// Calls `question` with the running tracer.
    pub(crate) fn ask<R>(
        &self,
        question: impl FnOnce(&mut T) -> Result<R, TraceError>,
    ) -> Result<R, TracerError> {
        let mut running = self.lock();
        let running = running.as_mut().ok_or(TracerError::NotStarted)?;
        question(running).map_err(TracerError::refused)
    }

    /// Stops the tracer if it runs.
    ///
    /// # Errors
    /// Returns an error, for the reader of the recording, if settings could not be restored.
    pub(crate) fn stop(&self) -> Result<(), StopError> {
        let Some(mut running) = self.lock().take() else {
            return Ok(());
        };
        running.stop().map_err(StopError)
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        // A panic does no harm, because the state is in tracefs.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops tracers that a killed program left running, and restores their settings. Returns the trace
/// instances that were removed. If tracefs is not accessible, this program could not have left
/// anything behind, and could not undo it either.
///
/// # Errors
/// Returns an error if a setting could not be restored.
pub fn recover_tracer(host: &Host) -> Result<Vec<PathBuf>, TraceError> {
    recover(host, Arc::new(RealFiles))
}

pub(crate) fn recover(host: &Host, files: Arc<dyn Files>) -> Result<Vec<PathBuf>, TraceError> {
    let Ok(tracefs) = Tracefs::find_with(host.root(), files) else {
        return Ok(Vec::new());
    };
    // Called before anything is started, so instances with our PID belong to an earlier process.
    let alive = |pid, start: Option<u64>| {
        let now = host.process_start(pid);
        let same = start.is_none() || start == now;
        pid != std::process::id() && now.is_some() && same
    };
    let removed = tracefs.clear_left_behind(alive)?;
    let instances = tracefs.path().join("instances");
    Ok(removed.iter().map(|name| instances.join(name)).collect())
}
