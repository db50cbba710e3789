//! Removes instances that were left behind in tracefs by programs that were killed.

use std::thread;
use std::time::Duration;

use crate::flight::{FlightName, remove};
use crate::name::Name;
use crate::osnoise::NoiseName;
use crate::{TraceError, Tracefs};

/// Time after which a new instance is locked. Its owner creates the folder, and then locks it.
const UNTIL_HELD: Duration = Duration::from_millis(100);

impl Tracefs {
    /// Removes the instances that were left behind by programs that were killed, stops their
    /// tracers and restores their settings. `alive` returns whether the process with this ID and,
    /// if known, this start time is still running. An instance that is locked by a living process
    /// is never removed, because process IDs are meaningless in another PID namespace. Returns the
    /// names of the removed instances.
    ///
    /// If `tracing_thresh` was 0 in a killed session, the threshold of the tracer's previous run is
    /// unknown. It is set to the kernel's default, 10 us.
    ///
    /// # Errors
    /// Returns an error if some instances could not be restored or removed. The other instances are
    /// removed.
    pub fn clear_left_behind(
        &self,
        alive: impl Fn(u32, Option<u64>) -> bool,
    ) -> Result<Vec<String>, TraceError> {
        let path = self.instances();
        let names = match self.files().names(&path) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(TraceError::Instance {
                    what: "list",
                    path,
                    source,
                });
            }
        };
        let mut removed = Vec::new();
        let mut failed = None;
        for text in names {
            let folder = path.join(&text);
            let is_held = || self.is_held(&folder);
            let is_held_soon = || {
                thread::sleep(UNTIL_HELD);
                is_held()
            };
            let alive = |pid, start| alive(pid, start) || is_held() || is_held_soon();
            let done = match (Name::parse(&text), FlightName::parse(&text)) {
                (Some(name), _) if !alive(name.pid, name.start) => {
                    crate::hwlat::restore(self, &folder, &name.before, None)
                }
                // The removal fails if another program is reading the instance. In that case, the
                // owner is still running.
                (_, Some(name)) if !alive(name.owner.pid, Some(name.owner.start)) => {
                    remove(self, &folder)
                }
                _ => match NoiseName::parse(&text) {
                    Some(name) if !alive(name.owner.pid, Some(name.owner.start)) => {
                        crate::osnoise::restore(self, &folder, &name.before)
                    }
                    _ => continue,
                },
            };
            match done {
                Ok(()) => removed.push(text),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(removed),
        }
    }
}
