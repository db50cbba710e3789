//! Exit codes, and which errors mean that the command line was wrong.

use std::error::Error;

use punctual_history::HistoryError;
use punctual_loads::LoadError;
use punctual_model::{Completion, Recording};
use punctual_session::SessionError;
use punctual_tune::TuneError;

pub(crate) use punctual_command::exit::{Exit, UsageError, of_command_line, with_causes};

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

/// Returns the exit code for a recording.
pub(crate) fn of_recording(recording: &Recording) -> Exit {
    if recording.load.iter().any(|load| load.failed) {
        return Exit::Failed;
    }
    match (recording.completion, recording.verdict.outcome) {
        (Completion::Break, _) => Exit::Broken,
        (_, outcome) if outcome.is_bad() => Exit::Broken,
        (Completion::Stopped, _) => Exit::Interrupted,
        (Completion::Interrupted, _) => Exit::Failed,
        (_, outcome) if outcome.is_open() => Exit::NotProven,
        _ => Exit::Done,
    }
}

/// Prints an error and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    punctual_command::exit::report(error, is_usage)
}

/// Returns whether an error means that the command line was wrong.
pub(crate) fn is_usage(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(HistoryError::Choice(_)))
        || error
            .downcast_ref::<SessionError>()
            .is_some_and(SessionError::is_usage)
        || error
            .downcast_ref::<TuneError>()
            .is_some_and(TuneError::is_usage)
        || error
            .downcast_ref::<LoadError>()
            .is_some_and(|error| !matches!(error, LoadError::Start { .. }))
}
