//! The entry points of the fuzz targets.

#[path = "../../crates/data/store/tests/sound/mod.rs"]
mod blobs;
#[path = "../../crates/kit/app/tests/sound/mod.rs"]
mod figures_of_a_process;
#[path = "../../crates/fleet/serve/tests/sound/mod.rs"]
mod deliveries;
#[path = "../../crates/engine/trace/tests/sound/mod.rs"]
mod kept;
#[path = "../../crates/machine/host/tests/sound/mod.rs"]
mod program_of_a_process;
#[path = "../../crates/data/formats/tests/sound/mod.rs"]
mod sound;
#[path = "../../crates/engine/tracefile/tests/sound/mod.rs"]
mod traces;

pub use blobs::{attachment, chunk};
pub use deliveries::{delivery, series, windows};
pub use figures_of_a_process::figures;
pub use kept::pages;
pub use program_of_a_process::program;
pub use traces::{any as trace, ctf, text};

/// Reads `bytes` with the importer called `name`. Panics if a resulting recording violates an
/// invariant.
pub fn read(name: &str, bytes: &[u8]) {
    let import = punctual_formats::import(name).expect("an importer");
    let _ = sound::read_and_check(import, bytes, true);
}
