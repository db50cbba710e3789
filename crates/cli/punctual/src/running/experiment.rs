//! The progress and the errors of experiments.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use punctual_experiment::{Progress, TrialError};

use crate::exit::UsageError;
use crate::output;

/// Interval between progress messages if the output is not a terminal.
const SAY: Duration = Duration::from_secs(60);

/// Reports the progress of an experiment. A terminal gets every message. Other outputs get the
/// important messages, and otherwise one per minute.
pub(crate) struct Progressing {
    quiet: bool,
    terminal: bool,
    said: Option<Instant>,
}

impl Progressing {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            said: None,
        }
    }

    pub(crate) fn say(&mut self, progress: &Progress) {
        let due = self.said.is_none_or(|said| said.elapsed() >= SAY);
        if !self.quiet && (progress.important || self.terminal || due) {
            self.said = Some(Instant::now());
            output::note(&progress.text);
        }
    }
}

/// Returns whether the error means that the user's request is invalid.
pub(crate) fn is_usage(error: &TrialError) -> bool {
    matches!(
        error,
        TrialError::Plan(_) | TrialError::Parameter(_) | TrialError::Equal { .. }
    )
}

/// Converts an error, and keeps the exit code of the error inside.
pub(crate) fn failed(error: TrialError) -> anyhow::Error {
    match error {
        TrialError::Session(error) => error.into(),
        TrialError::Tune(error) => error.into(),
        TrialError::Store(error) => error.into(),
        error if is_usage(&error) => UsageError(error.to_string()).into(),
        error => error.into(),
    }
}
