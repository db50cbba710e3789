//! What verbs that list what the machine has and does share: counting over a
//! time instead of since the start, and JSON.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Arg, ArgAction};
use punctual_model::Nanos;

use super::parsed;

/// How long is counted for a rate where no time is given.
const USUAL: &str = "1s";

/// How often it is seen whether to end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// `--watch [TIME]`, for lists that can count over a time.
pub(super) fn option(help: &str) -> Arg {
    Arg::new("watch")
        .long("watch")
        .value_name("TIME")
        .num_args(0..=1)
        .default_missing_value(USUAL)
        .value_parser(parsed::<Nanos>())
        .help(format!("{help} [default: {USUAL}]"))
}

/// `--json`.
pub(super) fn json_option() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("As JSON on stdout")
}

/// Waits for `time`, for ever where there is none, or until `stop` is set. What
/// is to be done meanwhile is done each time that is looked after, some twenty
/// times a second. Returns how long it was.
///
/// # Errors
/// Those of `meanwhile`, at once.
pub(super) fn wait(
    time: Option<Nanos>,
    stop: &AtomicBool,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    let began = Instant::now();
    let time = time.map_or(Duration::MAX, Duration::from);
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK_AGAIN.min(time.saturating_sub(began.elapsed())));
        meanwhile()?;
    }
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_its_time_and_does_what_is_to_be_done() {
        let never = AtomicBool::new(false);
        let mut times = 0;
        let time = Nanos::from_millis(120);
        let waited = wait(Some(time), &never, || {
            times += 1;
            Ok(())
        });
        assert!(waited.unwrap() >= Duration::from(time));
        assert!(times >= 1);
    }

    #[test]
    fn it_ends_when_it_is_told_to_or_when_something_fails() {
        let stop = AtomicBool::new(true);
        assert!(wait(None, &stop, || Ok(())).is_ok());
        let never = AtomicBool::new(false);
        let waited = wait(None, &never, || anyhow::bail!("no more"));
        assert_eq!(waited.unwrap_err().to_string(), "no more");
        let in_time = wait(None, &stop, || anyhow::bail!("no more"));
        assert!(in_time.is_ok());
    }
}
