//! The head of the tools' JSON files.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_formats::{JsonHead, write_rt_tests_json};
use punctual_model::HostFacts;
use serde::Serialize;

use crate::{CompatError, ToolContext};

/// Returns the content of the file: a head that is based on the context, followed by `body`.
///
/// # Errors
/// There are no errors in practice, because the data is written to memory.
pub(crate) fn file<B: Serialize>(
    context: &ToolContext<'_>,
    host: &HostFacts,
    return_code: u8,
    body: &B,
) -> Result<Vec<u8>, CompatError> {
    let head = JsonHead {
        command_line: &context.command_line(),
        start_time: date(context.started),
        end_time: date(Timestamp::now()),
        return_code: return_code.into(),
        host,
    };
    let mut bytes = Vec::new();
    write_rt_tests_json(&head, body, &mut bytes)?;
    Ok(bytes)
}

/// Formats a date as in RFC 2822, in local time.
fn date(moment: Timestamp) -> String {
    // This is called only at the end of a run, because many folders must be read to find the time
    // zone.
    let moment = moment.to_zoned(TimeZone::system());
    moment.strftime("%a, %d %b %Y %H:%M:%S %z").to_string()
}
