//! The cursor in the list of recordings, a value of the parameter `after`.

use jiff::Timestamp;
use punctual_model::RecordingId;
use punctual_store::Listed;
use uuid::Uuid;

use crate::problem::Problem;

/// Returns the cursor of a recording as text.
pub(crate) fn cursor_after(listed: &Listed) -> String {
    let summary = &listed.summary;
    format!("{}.{}", summary.started.as_nanosecond(), summary.id)
}

/// Parses a cursor.
pub(crate) fn parse_cursor(text: &str) -> Result<(Timestamp, RecordingId), Problem> {
    let parsed = || {
        let (ns, id) = text.split_once('.')?;
        let started = Timestamp::from_nanosecond(ns.parse().ok()?).ok()?;
        Some((started, RecordingId(Uuid::try_parse(id).ok()?)))
    };
    parsed().ok_or_else(|| {
        let message = "the value of 'after' is not a value of 'next' from an earlier page";
        Problem::bad_request(message)
    })
}
