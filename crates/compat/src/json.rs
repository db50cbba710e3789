//! The head of the tools' JSON files.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_formats::{JsonHead, write_rt_tests_json};
use punctual_model::HostFacts;
use serde::Serialize;

use crate::{CompatError, Stage};

/// The file as bytes: the head from the stage, then `body`.
///
/// # Errors
/// None that memory does not know.
pub(crate) fn file<B: Serialize>(
    stage: &Stage<'_>,
    host: &HostFacts,
    return_code: u8,
    body: &B,
) -> Result<Vec<u8>, CompatError> {
    let head = JsonHead {
        command_line: &stage.command_line(),
        start_time: date(stage.started),
        end_time: date(Timestamp::now()),
        return_code: return_code.into(),
        host,
    };
    let mut bytes = Vec::new();
    write_rt_tests_json(&head, body, &mut bytes)?;
    Ok(bytes)
}

/// As RFC 2822 writes dates, in local time.
fn date(moment: Timestamp) -> String {
    // Looked up at the end of a run: finding the zone reads many folders.
    let moment = moment.to_zoned(TimeZone::system());
    moment.strftime("%a, %d %b %Y %H:%M:%S %z").to_string()
}
