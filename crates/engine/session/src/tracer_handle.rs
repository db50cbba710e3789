//! A handle of a tracer of the kernel, for a probe: what all of them share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_host::Host;
use punctual_model::ProcessId;
use punctual_probes::TracerError;
use punctual_trace::{Files, RealFiles, TraceError, Tracefs};

/// A tracer that runs, and can be ended.
pub(crate) trait Running {
    /// Ends it, and puts its settings back.
    fn stop(&mut self) -> Result<(), TraceError>;
}

/// Settings of a tracer that could not be put back when it ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}; the next command of punctual tries again")]
pub(crate) struct StopError(#[source] TraceError);

/// A tracer of this machine. Stopped or dropped, its settings are as they were.
#[derive(Debug)]
pub(crate) struct TracerHandle<T> {
    host: Host,
    files: Arc<dyn Files>,
    running: Mutex<Option<T>>,
}

impl<T: Running> TracerHandle<T> {
    pub(crate) fn new(host: Host) -> Self {
        Self::with(host, Arc::new(RealFiles))
    }

    pub(crate) fn with(host: Host, files: Arc<dyn Files>) -> Self {
        Self {
            host,
            files,
            running: Mutex::new(None),
        }
    }

    /// Whose its trace instance is: this process's.
    pub(crate) fn owner(&self) -> ProcessId {
        self.host.own_process()
    }

    pub(crate) fn tracefs(&self) -> Result<Tracefs, TracerError> {
        Tracefs::find_with(self.host.root(), Arc::clone(&self.files)).map_err(TracerError::refused)
    }

    /// Starts it, once.
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

    /// Asks the one that runs.
    pub(crate) fn ask<R>(
        &self,
        question: impl FnOnce(&mut T) -> Result<R, TraceError>,
    ) -> Result<R, TracerError> {
        let mut running = self.lock();
        let running = running.as_mut().ok_or(TracerError::NotStarted)?;
        question(running).map_err(TracerError::refused)
    }

    /// Ends it, if it runs.
    ///
    /// # Errors
    /// What could not be put back, for the reader of the recording.
    pub(crate) fn stop(&self) -> Result<(), StopError> {
        let Some(mut running) = self.lock().take() else {
            return Ok(());
        };
        running.stop().map_err(StopError)
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        // What stands in tracefs is the truth, also after a panic.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends tracers where a killed program left them running, and puts their
/// settings back. Returns the trace instances that were removed. Where there is
/// no tracefs, or it may not be looked at, there is nothing that this program
/// could have left or could undo.
///
/// # Errors
/// What could not be put back.
pub fn recover_tracer(host: &Host) -> Result<Vec<PathBuf>, TraceError> {
    recover(host, Arc::new(RealFiles))
}

pub(crate) fn recover(host: &Host, files: Arc<dyn Files>) -> Result<Vec<PathBuf>, TraceError> {
    let Ok(tracefs) = Tracefs::find_with(host.root(), files) else {
        return Ok(Vec::new());
    };
    // Called before anything is started: what bears our number was another's.
    let alive = |pid, start: Option<u64>| {
        let now = host.process_start(pid);
        let same = start.is_none() || start == now;
        pid != std::process::id() && now.is_some() && same
    };
    let removed = tracefs.clear_left_behind(alive)?;
    let instances = tracefs.path().join("instances");
    Ok(removed.iter().map(|name| instances.join(name)).collect())
}
