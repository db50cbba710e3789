//! Parsers of values that several verbs take.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use punctual_model::Nanos;

use crate::verb::Invalid;

/// Parses a time: a day, a date and time, or an age such as `24h`.
///
/// # Errors
/// Returns an error for other texts.
pub fn since(text: &str) -> Result<Timestamp, Invalid> {
    let text = text.trim();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(time) = text.parse::<DateTime>() {
        return Ok(time.to_zoned(TimeZone::UTC)?.timestamp());
    }
    let ago = text.strip_suffix("ago").unwrap_or(text).trim();
    let ago = (ago.parse::<Nanos>().ok())
        .and_then(|ago| Timestamp::now().checked_sub(Duration::from(ago)).ok());
    ago.ok_or_else(|| {
        format!("'{text}' is not a time: use 2026-11-03, 2026-11-03T08:15:00Z, or 24h").into()
    })
}
