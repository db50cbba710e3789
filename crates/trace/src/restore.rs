//! Putting hwlat's settings back: at the end of a session, and after one that
//! was killed.

use std::path::Path;

use crate::flight::{FlightName, remove};
use crate::hwlat::{HWLAT, MODE, put_duty};
use crate::name::{Name, Settings};
use crate::osnoise::NoiseName;
use crate::tracer::{CLOCK, CURRENT, MONO, ON, THRESHOLD};
use crate::{TraceError, Tracefs};

/// The threshold of the tracer's first run after a boot
/// (`DEFAULT_LAT_THRESHOLD` in `kernel/trace/trace_hwlat.c`).
const USUAL_THRESHOLD_US: u64 = 10;

impl Tracefs {
    /// Removes the instances that killed programs left behind, with the tracer
    /// that still spins in them, and puts their settings back. `alive` says
    /// whether the process of that number still runs, and was started then, where
    /// that is known. Returns the names of what was removed.
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
            let done = match (Name::parse(&text), FlightName::parse(&text)) {
                (Some(name), _) if !alive(name.pid, None) => {
                    restore(self, &folder, &name.before, None)
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

/// Puts the settings back to `before`, ends the tracer of the instance `folder`
/// and removes it. What is as it was is not written, so that it can be called
/// again. `used_us`: the threshold that the tracer came with.
pub(crate) fn restore(
    tracefs: &Tracefs,
    folder: &Path,
    before: &Settings,
    used_us: Option<u64>,
) -> Result<(), TraceError> {
    // Without the tracer nothing was changed: it is taken first.
    if tracefs.text(&folder.join(CURRENT))? == HWLAT {
        end_tracer(tracefs, folder, before, used_us).map_err(|errors| kept(folder, errors))?;
    }
    // Only now: where the tracer is in force, a change of its mode starts it
    // again, with interrupts off on every CPU if the mode is per-cpu.
    if changed(tracefs, folder)? {
        let threshold = tracefs.file(THRESHOLD);
        let steps = [
            put_mode(tracefs, before.mode.as_deref()),
            tracefs.put_number(&threshold, before.threshold_us),
        ];
        let errors: Vec<_> = steps.into_iter().filter_map(Result::err).collect();
        if !errors.is_empty() {
            return Err(kept(folder, errors));
        }
    }
    tracefs.remove_instance(folder)
}

/// Ends the spinning, puts back window, width and the tracer's own threshold,
/// and gives the tracer away; the latter only if all else is as it was.
fn end_tracer(
    tracefs: &Tracefs,
    folder: &Path,
    before: &Settings,
    used_us: Option<u64>,
) -> Result<(), Vec<TraceError>> {
    // Should that fail, giving it away ends it.
    let _ = tracefs.write(&folder.join(ON), "0");
    let used = used_us.unwrap_or(match before.threshold_us {
        0 => USUAL_THRESHOLD_US,
        threshold => threshold,
    });
    let steps = [
        put_duty(tracefs, before.window_us, before.width_us),
        // The tracer remembers the threshold it is left with for its next run,
        // and puts back what was there when it came.
        tracefs.put_number(&tracefs.file(THRESHOLD), used),
    ];
    let errors: Vec<_> = steps.into_iter().filter_map(Result::err).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    tracefs
        .write(&folder.join(CURRENT), "nop")
        .map_err(|error| vec![error])
}

/// Whether the instance bears the mark that is made before the first change of
/// what is the whole kernel's: its clock.
fn changed(tracefs: &Tracefs, folder: &Path) -> Result<bool, TraceError> {
    let clocks = tracefs.text(&folder.join(CLOCK))?;
    Ok(crate::name::in_force(&clocks).as_deref() == Some(MONO))
}

fn kept(folder: &Path, errors: Vec<TraceError>) -> TraceError {
    TraceError::NotRestored {
        path: folder.to_owned(),
        errors,
    }
}

/// Sets the mode, where the kernel has several and another is in force.
pub(crate) fn put_mode(tracefs: &Tracefs, mode: Option<&str>) -> Result<(), TraceError> {
    let Some(mode) = mode else { return Ok(()) };
    let path = tracefs.file(MODE);
    let in_force = || Ok(crate::name::in_force(&tracefs.text(&path)?));
    if in_force()?.as_deref() == Some(mode) {
        return Ok(());
    }
    tracefs.write(&path, mode)?;
    match in_force()? {
        Some(found) if found == mode => Ok(()),
        found => Err(TraceError::NotVerified {
            path,
            value: mode.to_owned(),
            found: found.unwrap_or_default(),
        }),
    }
}
