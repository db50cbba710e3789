//! What killed programs left behind in tracefs.

use crate::flight::{FlightName, remove};
use crate::name::Name;
use crate::osnoise::NoiseName;
use crate::{TraceError, Tracefs};

impl Tracefs {
    /// Removes the instances that killed programs left behind, with the tracer
    /// that still spins in them, and puts their settings back. `alive` says
    /// whether the process of that number still runs, and was started then, where
    /// that is known. What a living process holds stays, whatever that says: in
    /// another pid namespace a number says nothing. Returns the names of what was
    /// removed.
    ///
    /// One thing is not known of a killed session where `tracing_thresh` was 0:
    /// which threshold the tracer had used before. It gets the kernel's own,
    /// 10 us.
    ///
    /// # Errors
    /// What could not be put back or removed; the others are.
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
            let alive = |pid, start| alive(pid, start) || self.is_held(&folder);
            let done = match (Name::parse(&text), FlightName::parse(&text)) {
                (Some(name), _) if !alive(name.pid, name.start) => {
                    crate::hwlat::restore(self, &folder, &name.before, None)
                }
                // One that is still read cannot be removed: then it lives.
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
