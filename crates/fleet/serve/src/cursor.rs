//! Pages of the list of recordings, and their cursor, a value of the parameter `after`.

use jiff::Timestamp;
use punctual_model::RecordingId;
use punctual_store::{Listed, Wanted};
use uuid::Uuid;

use crate::problem::Problem;
use crate::state::App;

/// Returns a page of the list with at most `wanted.most` recordings, and the cursor of the next page
/// if there is one.
pub(crate) async fn page_of(
    app: &App,
    mut wanted: Wanted,
) -> Result<(Vec<Listed>, Option<String>), Problem> {
    let most = wanted.most;
    // Ask for one more recording, to find out whether there is a next page.
    wanted.most += 1;
    let mut found = app.stored(move |all| all.list(&wanted)).await?;
    let more = found.len() > most;
    found.truncate(most);
    let next = found.last().filter(|_| more).map(cursor_after);
    Ok((found, next))
}

/// Returns the cursor of a recording as text.
fn cursor_after(listed: &Listed) -> String {
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
