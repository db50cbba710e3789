//! Formats counts, sizes and times for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_model::{LoopRequirement, Nanos, grouped};

/// Formats a count, or `-` if it is unknown.
pub(crate) fn count_or_dash(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), grouped)
}

/// Returns the text, or `-` if there is none.
pub(crate) fn text_or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// Formats a latency, or `-` if there is none.
pub(crate) fn or_dash(value: Option<Nanos>) -> String {
    value.map_or_else(|| "-".to_owned(), |ns| ns.to_string())
}

/// Formats a size: `9.0 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// Formats a size that is usually a whole number of units, such as that of a cache or a memory
/// module: `32 KiB`, `1.2 MiB`, `0`.
pub(crate) fn size(size: u64) -> String {
    match size {
        0 => "0".to_owned(),
        _ => bytes(size).replacen(".0 ", " ", 1),
    }
}

/// Returns the requirement of a periodic loop in one line.
pub(crate) fn asked_text(asked: &LoopRequirement) -> String {
    let allowed = match (asked.max_late_seconds_per_day, asked.max_misses_per_day) {
        (Some(seconds), _) => {
            let number = match seconds.fract() {
                0.0 => grouped(seconds as u64),
                _ => seconds.to_string(),
            };
            format!("at most {number} {} a day", asked.unit())
        }
        (None, Some(episodes)) => format!("at most {episodes} episodes of late periods a day"),
        (None, None) => "no limit".to_owned(),
    };
    let windows = asked.misses.map_or_else(String::new, |misses| {
        format!(
            ", at most {} late in any {} consecutive periods",
            misses.late(),
            misses.periods()
        )
    });
    let (period, budget) = (asked.period_ns, asked.budget_ns);
    match (asked.jobs, period) {
        (false, _) => {
            format!("period {period}, wake-ups at most {budget} late{windows}; {allowed}")
        }
        (true, Nanos::ZERO) => format!("jobs of at most {budget}; {allowed}"),
        (true, _) => format!("a job every {period}, of at most {budget}; {allowed}"),
    }
}

/// Formats a time with the given number of decimals: `2026-11-03 08:15:30.250 UTC`.
pub(crate) fn wall(time: Timestamp, decimals: usize) -> String {
    let zoned = time.to_zoned(TimeZone::UTC);
    let mut text = zoned.strftime("%Y-%m-%d %H:%M:%S").to_string();
    if decimals > 0 {
        let nanos = format!("{:09}", zoned.subsec_nanosecond());
        text.push('.');
        text.push_str(&nanos[..decimals.min(9)]);
    }
    text.push_str(" UTC");
    text
}

/// Formats the time of day to the millisecond: `08:15:30.250`.
pub(crate) fn time_of_day(time: Timestamp) -> String {
    let zoned = time.to_zoned(TimeZone::UTC);
    let millis = zoned.subsec_nanosecond() / 1_000_000;
    format!("{}.{millis:03}", zoned.strftime("%H:%M:%S"))
}

/// Formats a time in a trace in the same way as other tools: `1234.567890`, in seconds.
pub(crate) fn trace_time(time: Nanos) -> String {
    let micros = time.0 / 1_000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_unit_steps_up_before_1024() {
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(9_437_184), "9.0 MiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        assert_eq!(size(0), "0");
        assert_eq!(size(48 << 10), "48 KiB");
        // The size is rounded, because truncation would drop 0.2 MiB here.
        assert_eq!(size(1_280 << 10), "1.2 MiB");
        assert_eq!(size(64 << 30), "64 GiB");
    }
}
