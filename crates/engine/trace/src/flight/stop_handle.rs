//! A handle that stops a recorder from another thread.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use punctual_model::Nanos;

use crate::clock::monotonic;

/// Stops a recorder once, from any thread, so that events before the stop are not overwritten.
/// Stopping takes only one system call, because the file is opened in advance.
pub struct StopHandle {
    /// The file `tracing_on` of the instance. `None` after the recorder has ended, because the
    /// kernel does not remove an instance with open files.
    on: Mutex<Option<Box<dyn Write + Send>>>,
    stopped_at: OnceLock<Nanos>,
}

impl StopHandle {
    pub(super) fn new(on: Option<Box<dyn Write + Send>>) -> Self {
        Self {
            on: Mutex::new(on),
            stopped_at: OnceLock::new(),
        }
    }

    /// Stops the recorder now. Does nothing if the recorder is already stopped or has ended.
    ///
    /// # Errors
    /// Returns the errors of write(2). In that case, the recorder continues.
    pub fn stop(&self) -> io::Result<()> {
        // Read the clock before the write, because events after this time may be missing.
        let now = monotonic();
        let mut on = self.lock();
        let Some(file) = on.as_mut().filter(|_| self.stopped_at.get().is_none()) else {
            return Ok(());
        };
        file.write_all(b"0")?;
        self.stopped_at.get_or_init(|| now);
        Ok(())
    }

    /// Returns the time of the stop on CLOCK_MONOTONIC. Later events may be missing.
    pub fn stopped_at(&self) -> Option<Nanos> {
        self.stopped_at.get().copied()
    }

    pub(super) fn close(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Write + Send>>> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopHandle")
            .field("stopped_at", &self.stopped_at)
            .finish_non_exhaustive()
    }
}
