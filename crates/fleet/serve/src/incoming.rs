//! The checks of a delivery that a server makes before it uses the store. The module is public for
//! tests with hostile input.

use punctual_model::{Recording, RecordingId, WakeWindow};
use punctual_push::protocol::Membership;

use crate::NotTaken;
use crate::api::{read_beside, read_recording, unpack};
use crate::problem::Problem;

/// Returns a recording that can be stored under this ID, with its JSON. `most` limits the size of
/// the decompressed body.
///
/// # Errors
/// Returns why the body is rejected.
pub fn recording(
    id: RecordingId,
    packed: &[u8],
    most: usize,
) -> Result<(Vec<u8>, Recording), NotTaken> {
    let body = unpack(packed, most).map_err(not_taken)?;
    let recording = read_recording(id, &body)?;
    Ok((body, recording))
}

/// Returns the wake-up windows from a body with data other than recordings.
///
/// # Errors
/// Returns why the body is rejected.
pub fn windows(packed: &[u8], most: usize) -> Result<Vec<WakeWindow>, NotTaken> {
    let beside = read_beside(packed, most).map_err(not_taken)?;
    Ok(beside.windows)
}

fn not_taken(problem: Problem) -> NotTaken {
    NotTaken::Body(problem.message)
}

/// Returns whether the header of a delivery names a series.
pub fn is_series(header: &str) -> bool {
    Membership::read(header).is_ok()
}
