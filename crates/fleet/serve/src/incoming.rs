//! What a server reads of a delivery before it asks its store, for tests with hostile
//! input.

use punctual_model::{Recording, RecordingId, WakeWindow};

use crate::NotTaken;
use crate::api::{read_beside, read_recording, unpack};
use crate::membership::Membership;
use crate::problem::Problem;

/// A recording that could be kept under this ID, of a body that unpacks to at most `most`
/// bytes, with its JSON.
///
/// # Errors
/// Why it is not taken.
pub fn recording(
    id: RecordingId,
    packed: &[u8],
    most: usize,
) -> Result<(Vec<u8>, Recording), NotTaken> {
    let body = unpack(packed, most).map_err(not_taken)?;
    let recording = read_recording(id, &body)?;
    Ok((body, recording))
}

/// The windows of wake-ups of a body that holds what is beside recordings.
///
/// # Errors
/// Why it is not taken.
pub fn windows(packed: &[u8], most: usize) -> Result<Vec<WakeWindow>, NotTaken> {
    let beside = read_beside(packed, most).map_err(not_taken)?;
    Ok(beside.windows)
}

fn not_taken(problem: Problem) -> NotTaken {
    NotTaken::Body(problem.message)
}

/// Whether the header of a delivery names a series.
pub fn is_series(header: &str) -> bool {
    Membership::read(header).is_ok()
}
