//! Stops a recorder from another thread, at once.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use punctual_model::Nanos;

use super::clock::monotonic;

/// Stops a recorder, once, from any thread: what led to this moment is then
/// written over by nothing. One system call; its file is open from the start.
pub struct Brake {
    /// `tracing_on` of the instance; `None` once the recorder lets go of it: the
    /// kernel removes no instance that has open files.
    on: Mutex<Option<Box<dyn Write + Send>>>,
    pulled: OnceLock<Nanos>,
}

impl Brake {
    pub(super) fn new(on: Option<Box<dyn Write + Send>>) -> Self {
        Self {
            on: Mutex::new(on),
            pulled: OnceLock::new(),
        }
    }

    /// Stops the recorder now. Later calls, and those after its end, do nothing.
    ///
    /// # Errors
    /// Those of write(2): then it goes on.
    pub fn pull(&self) -> io::Result<()> {
        // Read before: whatever comes from then on may be missing.
        let now = monotonic();
        let mut on = self.lock();
        let Some(file) = on.as_mut().filter(|_| self.pulled.get().is_none()) else {
            return Ok(());
        };
        file.write_all(b"0")?;
        self.pulled.get_or_init(|| now);
        Ok(())
    }

    /// When it was stopped, on CLOCK_MONOTONIC: of what happened later nothing is
    /// told.
    pub fn pulled(&self) -> Option<Nanos> {
        self.pulled.get().copied()
    }

    pub(super) fn close(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Write + Send>>> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brake")
            .field("pulled", &self.pulled)
            .finish_non_exhaustive()
    }
}
