//! Exit codes, and the single function that reports errors.

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Result;
use punctual_files::FileError;
use punctual_model::sanitize_lines;

use crate::output::{self, note};

/// The exit code of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
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

/// The work that a verb has done before it prints.
pub(crate) struct Done {
    /// The exit code of the verb.
    pub(crate) exit: Exit,
    /// The change, as a sentence; `None` if nothing was changed.
    pub(crate) what: Option<String>,
}

/// A command line that is invalid even though the parser accepted it.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UsageError {}

/// Prints the parser's result: help and version on stdout, errors on stderr.
pub fn of_command_line(error: &clap::Error) -> ExitCode {
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

/// Prints an error and returns the exit code. `is_usage` returns whether an error or one of its
/// causes means that the command line was wrong.
pub fn report(error: &anyhow::Error, is_usage: fn(&(dyn Error + 'static)) -> bool) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Done;
    }
    note(&with_causes(error));
    if error
        .chain()
        .any(|cause| cause.is::<UsageError>() || is_usage(cause))
    {
        Exit::Usage
    } else {
        Exit::Failed
    }
}

/// Returns the exit code of a verb if only a closed pipe prevented its output. If another error
/// prevented the output, adds to it what the verb has done.
pub(crate) fn after_output(error: anyhow::Error, done: Option<Done>) -> Result<Exit> {
    let is_output = error.chain().any(|cause| cause.is::<FileError>());
    match done {
        Some(done) if is_closed_pipe(&error) => Ok(done.exit),
        Some(Done {
            what: Some(what), ..
        }) if is_output => Err(error.context(format!("{what}, but the output is incomplete"))),
        _ => Err(error),
    }
}

/// Returns the error and its causes on one line. A cause is omitted if the text before it already
/// contains it.
pub fn with_causes(error: &anyhow::Error) -> String {
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
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn unwritten_output_does_not_hide_what_was_done() {
        let unwritten = |kind: ErrorKind| {
            let (path, source) = ("stdout".into(), kind.into());
            anyhow::Error::from(FileError::Write { path, source })
        };
        let done = || {
            let (exit, what) = (Exit::Broken, Some("the settings are applied".to_owned()));
            Some(Done { exit, what })
        };
        let closed = || unwritten(ErrorKind::BrokenPipe);
        assert_eq!(after_output(closed(), done()).unwrap(), Exit::Broken);
        assert!(is_closed_pipe(&after_output(closed(), None).unwrap_err()));
        let full = after_output(unwritten(ErrorKind::StorageFull), done()).unwrap_err();
        let said = with_causes(&full);
        assert!(
            said.starts_with(
                "the settings are applied, but the output is incomplete: cannot write"
            ),
            "{said}"
        );
        let other = after_output(anyhow::anyhow!("no room"), done()).unwrap_err();
        assert_eq!(with_causes(&other), "no room");
    }

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
