//! The settings of hwlat, which are changed for a session and restored at its end, or by the next
//! program if the session was killed.

use std::path::Path;

use crate::name::HwlatSettings;
use crate::tracer::{CLOCK, CURRENT, MONO, ON, THRESHOLD};
use crate::{TraceError, Tracefs};

/// The tracer's name.
pub const HWLAT: &str = "hwlat";

// Files with kernel-wide settings.
const MODE: &str = "hwlat_detector/mode";
const WINDOW: &str = "hwlat_detector/window";
const WIDTH: &str = "hwlat_detector/width";

/// The threshold that the tracer uses for its first run after a boot (`DEFAULT_LAT_THRESHOLD` in
/// `kernel/trace/trace_hwlat.c`).
const USUAL_THRESHOLD_US: u64 = 10;

/// Restores the settings `before`, ends the tracer of the instance `folder` and removes the
/// instance. Only settings that differ are written, so this can be called again after a failure.
/// `used_us` is the tracer's own threshold, if known.
pub(crate) fn restore(
    tracefs: &Tracefs,
    folder: &Path,
    before: &HwlatSettings,
    used_us: Option<u64>,
) -> Result<(), TraceError> {
    // A session selects the tracer first. If the tracer is not selected, no setting has been
    // changed.
    if tracefs.text(&folder.join(CURRENT))? == HWLAT {
        end_tracer(tracefs, folder, before, used_us).map_err(|errors| kept(folder, errors))?;
    }
    // Set the mode after the tracer has ended: changing the mode of an active tracer restarts it,
    // and if the mode is per-cpu, it then spins on every CPU with interrupts disabled.
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

/// Stops the spinning and restores the window, the width and the tracer's own threshold. If all
/// these steps succeed, deselects the tracer.
fn end_tracer(
    tracefs: &Tracefs,
    folder: &Path,
    before: &HwlatSettings,
    used_us: Option<u64>,
) -> Result<(), Vec<TraceError>> {
    // If this fails, the spinning ends when the tracer is deselected.
    let _ = tracefs.write(&folder.join(ON), "0");
    let used = used_us.unwrap_or(match before.threshold_us {
        0 => USUAL_THRESHOLD_US,
        threshold => threshold,
    });
    let steps = [
        put_duty(tracefs, before.window_us, before.width_us),
        // When the tracer ends, it stores the current threshold for its next run, and restores the
        // threshold that was set before it started.
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

/// Returns whether the clock of the instance has been changed. A session changes it before it
/// changes any kernel-wide setting.
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

/// Sets the mode if the kernel has several modes and a different one is active.
pub(super) fn put_mode(tracefs: &Tracefs, mode: Option<&str>) -> Result<(), TraceError> {
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

/// Sets the window and the width in an order in which the width is always less than the window,
/// because the kernel requires this.
pub(super) fn put_duty(tracefs: &Tracefs, window_us: u64, width_us: u64) -> Result<(), TraceError> {
    let window = tracefs.file(WINDOW);
    let width = tracefs.file(WIDTH);
    if window_us > tracefs.number(&width)? {
        tracefs.put_number(&window, window_us)?;
        tracefs.put_number(&width, width_us)
    } else {
        tracefs.put_number(&width, width_us)?;
        tracefs.put_number(&window, window_us)
    }
}
