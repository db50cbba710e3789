//! Lengths of runs, in words.

use crate::grouped;

/// Returns `43 min` or `2 h 47 min`, rounded up, as advice on how long to measure.
pub(crate) fn length(seconds: f64) -> String {
    // A run is never exactly as long as requested, so allow a deviation of 0.1%.
    let seconds = (seconds * (1.0 - 1e-3)).ceil() as u64;
    let minutes = seconds.div_ceil(60);
    let hours = minutes.div_ceil(60);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{minutes} min"),
        7_200..172_800 => match minutes % 60 {
            0 => format!("{} h", minutes / 60),
            rest => format!("{} h {rest} min", minutes / 60),
        },
        _ => format!("{} days", grouped(hours.div_ceil(24))),
    }
}
