//! What verbs that list counters share: counting over a time instead of since
//! the start, and JSON.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Arg, ArgAction};
use punctual_model::Nanos;

use super::{measure, parsed};

/// How long is counted for a rate where no time is given.
const USUAL_WATCH: &str = "1s";

/// How often it is seen whether to end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// `--watch [TIME]`.
pub(super) fn watch_option(help: &'static str) -> Arg {
    Arg::new("watch")
        .long("watch")
        .value_name("TIME")
        .num_args(0..=1)
        .default_missing_value(USUAL_WATCH)
        .value_parser(parsed::<Nanos>())
        .help(help)
}

/// `--json`.
pub(super) fn json_option() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("As JSON on stdout")
}

/// Waits so long, or until Ctrl-C, and says how long it was, in ns.
///
/// # Errors
/// No handler for signals can be set.
pub(super) fn wait(time: Nanos) -> Result<u64> {
    let stop = measure::stop_flag()?;
    let began = Instant::now();
    let time = Duration::from_nanos(time.0);
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK_AGAIN.min(time.saturating_sub(began.elapsed())));
    }
    Ok(began.elapsed().as_nanos() as u64)
}
