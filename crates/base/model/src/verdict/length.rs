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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_up_in_a_readable_unit() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (1.0, "1 s"),
            (60.01, "60 s"),
            (119.0, "119 s"),
            (121.0, "3 min"),
            (180.0, "3 min"),
            (2_580.0, "43 min"),
            (7_100.0, "119 min"),
            (7_250.0, "2 h 1 min"),
            (10_020.0, "2 h 47 min"),
            (10_800.0, "3 h"),
            (172_000.0, "47 h 44 min"),
            (173_000.0, "3 days"),
            (259_200.0, "3 days"),
            (1e9, "11,563 days"),
        ] {
            assert_eq!(length(seconds), text, "{seconds}");
        }
    }
}
