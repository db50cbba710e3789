//! Code for verbs that list the state of the machine: JSON, and counting during a given time
//! instead of since the start.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use punctual_model::Nanos;

use crate::output;

/// Interval at which the stop flag is polled.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Shows the text that `turn` returns. On a terminal, shows it repeatedly at the same position
/// until `stop` is set. Otherwise, shows it once.
///
/// # Errors
/// Returns the errors of `turn`, and an error if stdout cannot be written.
pub(crate) fn show(stop: &AtomicBool, mut turn: impl FnMut() -> Result<String>) -> Result<()> {
    let height = terminal_height();
    loop {
        let text = turn()?;
        let Some(height) = height else {
            return output::print(&text);
        };
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Sanitize the text before our own control sequences are added.
        let safe = output::safe(&text);
        output::print_as_it_is(&format!(
            "{TO_THE_TOP}{}{CLEAR_BELOW}",
            first_lines(&safe, height)
        ))?;
    }
}

/// Moves the cursor to the first column of the first line (ECMA-48 CUP), so that the old text is
/// overwritten without flicker.
const TO_THE_TOP: &str = "\x1b[H";
const CLEAR_BELOW: &str = "\x1b[J";
/// Clears the rest of a longer old line (EL).
const CLEAR_LINE: &str = "\x1b[K";

/// Returns the lines that fit, followed by a line with the number of remaining lines.
fn first_lines(text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown = if lines.len() < height {
        lines.len()
    } else {
        // Leave space for that line and for the cursor.
        height.saturating_sub(2).max(1)
    };
    let mut kept: Vec<String> = lines[..shown.min(lines.len())]
        .iter()
        .map(|line| format!("{line}{CLEAR_LINE}\n"))
        .collect();
    let more = lines.len().saturating_sub(shown);
    if more > 0 {
        kept.push(format!(
            "{more} more lines do not fit into this window{CLEAR_LINE}\n"
        ));
    }
    kept.concat()
}

/// Returns the height of the terminal. Returns `None` if stdout is not a terminal, or if the
/// terminal cannot move its cursor.
fn terminal_height() -> Option<usize> {
    if output::is_dumb() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_row > 0).then_some(size.ws_row.into())
}

/// Waits for `time`, or indefinitely if `time` is `None`, but returns early if `stop` is set. Calls
/// `meanwhile` about twenty times a second. Returns the elapsed time.
///
/// # Errors
/// Returns an error of `meanwhile` immediately.
pub(crate) fn wait(
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
    fn watch_waits_and_runs_its_work() {
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
    fn what_does_not_fit_is_counted() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(first_lines(text, 5).matches('\n').count(), 4);
        let less = first_lines(text, 4);
        assert!(less.starts_with("a\x1b[K\nb\x1b[K\n2 more"), "{less:?}");
        assert!(first_lines(text, 0).contains("3 more"));
        assert_eq!(first_lines("", 3), "");
    }

    #[test]
    fn watch_ends_on_stop_or_failure() {
        let stop = AtomicBool::new(true);
        assert!(wait(None, &stop, || Ok(())).is_ok());
        let never = AtomicBool::new(false);
        let waited = wait(None, &never, || anyhow::bail!("no more"));
        assert_eq!(waited.unwrap_err().to_string(), "no more");
        let in_time = wait(None, &stop, || anyhow::bail!("no more"));
        assert!(in_time.is_ok());
    }
}
