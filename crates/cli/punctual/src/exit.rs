//! Exit codes, and the single function that reports errors.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use punctual_formats::FormatError;
use punctual_history::HistoryError;
use punctual_loads::LoadError;
use punctual_model::sanitize_lines;
use punctual_session::SessionError;
use punctual_tune::TuneError;

use crate::output::{self, note};

/// The meaning of the codes, for the manual page of the program.
pub(crate) const HELP: &str = "\
Exit codes:
  0    measured, and the requirement (if any) was met
  1    failed
  2    wrong usage
  3    a requirement was exceeded or broken, a latency exceeded the break value, an
       audit found a problem of high or fatal severity, compare --fail-on-worse found
       the candidate worse, or a trend has an open regression
  4    a requirement is not decidable or not proven; compare --fail-on-worse
       is inconclusive; a trend has too few runs or drifts; an audit could read
       nothing
  130  interrupted; the data measured so far are kept";

/// Exit codes of `measure`, for its help.
pub(crate) const OF_MEASURE: &str = "\
Exit codes:
  0    measured, and the requirement (if any) was met
  1    failed
  2    wrong usage
  3    the requirement was exceeded (with --confidence: is broken), or a latency
       exceeded the break value
  4    the requirement is not decidable (with --confidence: not proven)
  130  interrupted; the data measured so far are kept";

/// Exit codes of `check`, for its help.
pub(crate) const OF_CHECK: &str = "\
Exit codes:
  0    the machine holds the requirement under each condition
  1    failed
  2    wrong usage
  3    the machine breaks the requirement
  4    neither is proven
  130  interrupted; the data measured so far are kept";

/// Exit codes of audits (`doctor`, `lint`, `kernel check`), for their help.
pub(crate) const OF_AUDIT: &str = "\
Exit codes:
  0    no problem of high or fatal severity was found
  1    failed
  2    wrong usage
  3    a problem of high or fatal severity was found
  4    unknown: nothing could be read";

/// Exit codes of `trend`, for its help.
pub(crate) const OF_TREND: &str = "\
Exit codes:
  0    no open regression
  1    failed
  2    wrong usage
  3    a regression is open (not acknowledged)
  4    too few runs to judge, or a figure gets worse slowly, without a change point";

/// The exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The verb succeeded, and the requirement, if any, was met.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// A requirement was broken, the break value was crossed, an audit found
    /// something of high severity, or a comparison found the candidate worse.
    Broken = 3,
    /// The measurement does not prove that all requirements were met, but none is known to be
    /// broken.
    NotProven = 4,
    /// `exec` could not run the command; the code is the same as in a shell.
    CommandNotRun = 126,
    /// `exec` found no such command; the code is the same as in a shell.
    CommandNotFound = 127,
    /// The user stopped the run; its results are kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command line that is invalid even though the parser accepted it.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Prints the parser's result: help and version on stdout, errors on stderr.
pub(crate) fn of_command_line(error: &clap::Error) -> ExitCode {
    let to_stderr = error.use_stderr();
    let colour = if to_stderr {
        output::wants_colours(&std::io::stderr())
    } else {
        output::wants_colours(&std::io::stdout())
    };
    let rendered = error.render();
    let text = if colour {
        rendered.ansi().to_string()
    } else {
        rendered.to_string()
    };
    // The text may contain words of the command line, such as file names.
    let text = sanitize_lines(&text, colour);
    // A closed pipe is not an error.
    let _ = if to_stderr {
        std::io::stderr().write_all(text.as_bytes())
    } else {
        std::io::stdout().write_all(text.as_bytes())
    };
    if to_stderr { Exit::Usage } else { Exit::Done }.into()
}

/// Prints an error and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Done;
    }
    note(&with_causes(error));
    if is_usage(error) {
        Exit::Usage
    } else {
        Exit::Failed
    }
}

/// Returns the error and its causes on one line. A cause is omitted if the text before it already
/// contains it.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// In `punctual list | head`, the reader closes the pipe early.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let format = cause.downcast_ref::<FormatError>();
        cause
            .downcast_ref::<std::io::Error>()
            .or_else(|| format.and_then(|error| std::error::Error::source(error)?.downcast_ref()))
            .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    })
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<UsageError>()
            || matches!(cause.downcast_ref(), Some(HistoryError::Choice(_)))
            || cause
                .downcast_ref::<SessionError>()
                .is_some_and(SessionError::is_usage)
            || cause
                .downcast_ref::<TuneError>()
                .is_some_and(TuneError::is_usage)
            || cause
                .downcast_ref::<LoadError>()
                .is_some_and(|error| !matches!(error, LoadError::Start { .. }))
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let io = || std::io::Error::other("no room");
        let quoted = Err::<(), _>(io())
            .context("the store: no room")
            .unwrap_err();
        assert_eq!(with_causes(&quoted), "the store: no room");
        let other = Err::<(), _>(io()).context("the store").unwrap_err();
        assert_eq!(with_causes(&other), "the store: no room");
    }
}
