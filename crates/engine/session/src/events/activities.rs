//! Watches the interrupts, softirqs, works, timers and polls of the machine.

use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{Activities, ActivityKind};
use punctual_trace::{ActivityNames, ActivityWatch, Tracefs};

use crate::SessionError;

/// Interval of checking which CPUs are online.
const LOOK: Duration = Duration::from_millis(500);

/// Counts one kind of activity until it is dropped.
#[derive(Debug)]
pub struct ActivitySession {
    watch: ActivityWatch,
    host: Host,
    looked: Instant,
}

impl ActivitySession {
    /// Starts counting, and keeps the `longest` occurrences.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the events, or does not permit them to this
    /// user.
    pub fn start(kind: ActivityKind, longest: usize, host: &Host) -> Result<Self, SessionError> {
        let threads = host.clone();
        let symbols = host.symbols();
        let names = ActivityNames {
            thread: Box::new(move |tid| {
                let thread = threads.thread(i32::try_from(tid).ok()?)?;
                Some(thread.name)
            }),
            symbol: Box::new(move |address| symbols.name(address)),
        };
        let tracefs = Tracefs::find(host.root()).map_err(SessionError::Activities)?;
        let watch = ActivityWatch::start(&tracefs, host.own_process(), kind, longest, names)
            .map_err(SessionError::Activities)?;
        Ok(Self {
            watch,
            host: host.clone(),
            looked: Instant::now(),
        })
    }

    /// Reads the events that the kernel has written in the meantime. Call it about ten times a
    /// second, so that none are lost.
    ///
    /// # Errors
    /// Returns an error if they could not be read.
    pub fn keep_up(&mut self) -> Result<(), SessionError> {
        if self.looked.elapsed() > LOOK {
            self.looked = Instant::now();
            if let Ok(online) = self.host.online() {
                self.watch.keep_cpus(|cpu| online.contains(cpu));
            }
        }
        self.watch.keep_up().map_err(SessionError::Activities)
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// Returns an error if the events could not be read.
    pub fn read(&mut self) -> Result<Activities, SessionError> {
        self.watch.read().map_err(SessionError::Activities)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// Returns an error if the trace instance cannot be removed; the next command tries again.
    pub fn stop(self) -> Result<(), SessionError> {
        self.watch.stop().map_err(SessionError::Activities)
    }
}
