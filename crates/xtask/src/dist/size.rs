//! The size of the program, held to what a board can spare.

use std::path::Path;

use anyhow::Result;

/// The most that the program may weigh, in bytes: with all features, and as `probe`.
const WHOLE: u64 = 10_000_000;
const PROBE: u64 = 4_000_000;

/// Prints the size; whether it is within its limit.
pub(super) fn check(program: &Path, probe: bool) -> Result<bool> {
    let size = program.metadata()?.len();
    let limit = if probe { PROBE } else { WHOLE };
    let fits = size <= limit;
    let verdict = if fits { "within" } else { "TOO LARGE: over" };
    println!(
        "{}: {:.2} MB, {verdict} the limit of {} MB",
        program.display(),
        size as f64 / 1e6,
        limit / 1_000_000
    );
    Ok(fits)
}
