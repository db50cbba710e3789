//! Watching all wake-ups of the machine.

use punctual_host::Host;
use punctual_model::Wakeups;
use punctual_trace::{Owner, Tracefs, WakeupWatch, WatchAsk, WatchError};

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
    /// No BPF programs: count from trace events, as it is done where the kernel
    /// takes none.
    pub no_bpf: bool,
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
    /// How often [`keep_up`](Self::keep_up) is to be called, at least.
    pub const KEEP_UP: std::time::Duration = WakeupWatch::KEEP_UP;

    /// Starts to count: with programs in the kernel, or, where it takes none,
    /// from its trace events.
    ///
    /// # Errors
    /// A kernel that lets this user do neither.
    pub fn start(request: &WakeupRequest, host: &Host) -> Result<Self, SessionError> {
        let ask = WatchAsk {
            by_comm: request.by_comm,
            real_time_only: request.real_time_only,
            pid_max: host.pid_max().unwrap_or(USUAL_PID_MAX),
            worst: request.worst,
        };
        let why = match request.no_bpf {
            true => "BPF programs were not asked for (--no-bpf)".to_owned(),
            false => match WakeupWatch::by_programs(ask) {
                Ok(watch) => return Ok(Self { watch }),
                Err(error) => error.to_string(),
            },
        };
        let pid = std::process::id();
        let owner = Owner {
            pid,
            start: host.process_start(pid).unwrap_or_default(),
        };
        let watch = Tracefs::find(host.root())
            .and_then(|tracefs| WakeupWatch::by_events(&tracefs, owner, ask, why.clone()))
            .map_err(|events| match request.no_bpf {
                true => WatchError::Events(events),
                false => WatchError::Neither {
                    programs: why,
                    events,
                },
            })?;
        Ok(Self { watch })
    }

    /// Why trace events are counted and no programs count in the kernel; `None`:
    /// they do.
    pub fn why_not_programs(&self) -> Option<&str> {
        self.watch.why_not_programs()
    }

    /// Takes out what the kernel has written meanwhile.
    ///
    /// # Errors
    /// What could not be read.
    pub fn keep_up(&mut self) -> Result<(), SessionError> {
        Ok(self.watch.keep_up()?)
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// What could not be read.
    pub fn read(&mut self) -> Result<Wakeups, SessionError> {
        Ok(self.watch.read()?)
    }

    /// Ends it.
    ///
    /// # Errors
    /// What the kernel does not let go of; the next command tries again.
    pub fn stop(self) -> Result<(), SessionError> {
        Ok(self.watch.stop()?)
    }
}
