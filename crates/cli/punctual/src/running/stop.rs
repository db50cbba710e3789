//! Ctrl-C and the signals that end a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Exit;

/// Returns a flag that Ctrl-C, SIGTERM and SIGHUP set. A second signal ends the program at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let signals = [SIGINT, SIGTERM, SIGHUP];
    Ok(punctual_rt::stop_at_signals(
        &signals,
        Exit::Interrupted as i32,
    )?)
}
