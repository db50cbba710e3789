//! Watching all wake-ups of the machine.

use punctual_host::Host;
use punctual_model::Wakeups;
use punctual_trace::{WakeupWatch, WatchAsk};

use crate::SessionError;

/// What is to be watched.
#[derive(Clone, Copy, Debug)]
pub struct WakeupRequest {
    /// Rows by name, beside those by CPU and class.
    pub by_comm: bool,
    /// Only threads of real-time classes.
    pub real_time_only: bool,
    /// How many of the longest waits are told.
    pub worst: usize,
}

/// The largest number of a thread where the kernel does not say its own: its
/// usual limit (kernel: include/linux/threads.h).
const USUAL_PID_MAX: u32 = 4 << 20;

/// Wake-ups are counted until this is dropped.
#[derive(Debug)]
pub struct WakeupSession {
    watch: WakeupWatch,
}

impl WakeupSession {
    /// Starts to count.
    ///
    /// # Errors
    /// A kernel that does not let this user.
    pub fn start(request: &WakeupRequest, host: &Host) -> Result<Self, SessionError> {
        let ask = WatchAsk {
            by_comm: request.by_comm,
            real_time_only: request.real_time_only,
            pid_max: host.pid_max().unwrap_or(USUAL_PID_MAX),
            worst: request.worst,
        };
        let watch = WakeupWatch::start(ask)?;
        Ok(Self { watch })
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// What could not be read.
    pub fn read(&self) -> Result<Wakeups, SessionError> {
        Ok(self.watch.read()?)
    }
}
