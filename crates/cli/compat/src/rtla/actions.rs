//! The actions of `--on-threshold` and `--on-end`.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use punctual_session::KernelTrace;
use rustix::process::{Pid, Signal, getppid, kill_process};

use crate::{CompatError, Given, ToolContext};

/// One action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Write the trace to a file.
    Trace(PathBuf),
    /// Send a signal to a process; `None` is the parent.
    Signal { number: i32, pid: Option<i32> },
    /// Run a command with sh(1).
    Shell(String),
    /// Continue the measurement.
    Continue,
}

const FORM: &str = "an action: trace[,file=FILE], shell,command=COMMAND, \
    signal,num=N,pid=PID|parent, or continue";

impl Action {
    /// Parses an action. `trace_file`: the default of the action `trace`.
    ///
    /// # Errors
    /// Returns an error if it is not an action.
    pub(super) fn read(given: &Given, trace_file: &str) -> Result<Self, CompatError> {
        let text = given.text();
        let bad = || given.bad(FORM);
        let (name, rest) = match text.split_once(',') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        match (name, rest) {
            ("continue", None) => Ok(Self::Continue),
            // As in the original, a comma ends the command.
            ("shell", Some(rest)) => match rest.strip_prefix("command=") {
                Some(command) if !command.is_empty() && !command.contains(',') => {
                    Ok(Self::Shell(command.to_owned()))
                }
                Some(_) => Err(given.bad("a command without a comma: put it into a script")),
                None => Err(bad()),
            },
            ("signal", Some(rest)) => Self::signal(rest).ok_or_else(bad),
            ("trace", None) => Ok(Self::Trace(trace_file.into())),
            ("trace", Some(rest)) => match rest.strip_prefix("file=") {
                Some(file) if !file.is_empty() && !file.contains(',') => {
                    Ok(Self::Trace(file.into()))
                }
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }

    fn signal(text: &str) -> Option<Self> {
        let (mut number, mut pid) = (None, None);
        for part in text.split(',') {
            match part.split_once('=')? {
                ("num", value) => number = Some(value.parse::<i32>().ok()?),
                ("pid", "parent") => pid = Some(None),
                ("pid", value) => {
                    pid = Some(Some(value.parse::<i32>().ok().filter(|pid| *pid > 0)?))
                }
                _ => return None,
            }
        }
        // Checked here, so that an action never fails because of its number.
        Signal::from_named_raw(number?)?;
        Some(Self::Signal {
            number: number?,
            pid: pid?,
        })
    }

    /// Performs the action. `trace`: that of the kernel's tracer, if it measures. Returns what went
    /// wrong, if anything did.
    #[expect(
        clippy::disallowed_methods,
        reason = "like rtla, waits for the command of the user"
    )]
    fn perform(&self, trace: Option<&KernelTrace>, out: &mut dyn Write) -> Result<(), String> {
        match (self, trace) {
            (Self::Continue, _) => Ok(()),
            // A warning before the run said so.
            (Self::Trace(_), None) => Ok(()),
            (Self::Trace(file), Some(trace)) => {
                let said = writeln!(out, "  Saving trace to {}", file.display());
                said.and_then(|()| out.flush())
                    .map_err(|error| format!("stdout: {error}"))?;
                trace.save(file).map_err(|error| error.to_string())
            }
            (Self::Signal { number, pid }, _) => {
                let target = pid.map_or_else(getppid, Pid::from_raw);
                let signal = Signal::from_named_raw(*number);
                let (Some(target), Some(signal)) = (target, signal) else {
                    return Err(format!("signal {number}: there is no such process"));
                };
                kill_process(target, signal)
                    .map_err(|error| format!("signal {number} to process {target:?}: {error}"))
            }
            (Self::Shell(command), _) => match Command::new("sh").arg("-c").arg(command).status() {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(format!("the command '{command}' ended with {status}")),
                Err(error) => Err(format!("cannot run sh: {error}")),
            },
        }
    }
}

/// Returns whether one of the actions lets the measurement continue.
pub(super) fn continues(actions: &[Action]) -> bool {
    actions.contains(&Action::Continue)
}

/// Returns the files of the actions that write the trace.
pub(super) fn trace_files(actions: &[Action]) -> impl Iterator<Item = PathBuf> + '_ {
    actions.iter().filter_map(|action| match action {
        Action::Trace(file) => Some(file.clone()),
        _ => None,
    })
}

/// Performs actions in order, until one fails or says to continue, like the original. Returns the
/// failure.
pub(super) fn perform(
    actions: &[Action],
    trace: Option<&KernelTrace>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let until = actions
        .iter()
        .take_while(|action| **action != Action::Continue);
    until
        .into_iter()
        .try_for_each(|action| action.perform(trace, out))
}

/// Performs actions, and reports a failure on stderr.
pub(super) fn perform_all(
    name: &str,
    actions: &[Action],
    trace: Option<&KernelTrace>,
    context: &mut ToolContext<'_>,
) -> Result<(), CompatError> {
    // The command may read or print what was printed before.
    context.out.flush()?;
    if let Err(error) = perform(actions, trace, &mut *context.out) {
        context.warn(&format!("{name}: {error}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OptionSpec;

    const SPEC: &OptionSpec = &OptionSpec::named("--on-end=ACTION", "");

    fn read(text: &str) -> Result<Action, String> {
        let given = Given {
            option: SPEC,
            index: 0,
            value: Some(text.to_owned()),
        };
        Action::read(&given, "timerlat_trace.txt").map_err(|error| error.to_string())
    }

    #[test]
    fn actions_are_read_like_the_original() {
        let shell = Action::Shell("echo done".to_owned());
        assert_eq!(read("shell,command=echo done"), Ok(shell));
        let signal = |pid| Action::Signal { number: 2, pid };
        assert_eq!(read("signal,num=2,pid=7"), Ok(signal(Some(7))));
        assert_eq!(read("signal,pid=parent,num=2"), Ok(signal(None)));
        assert_eq!(read("continue"), Ok(Action::Continue));
        let trace = |file: &str| Ok(Action::Trace(file.into()));
        assert_eq!(read("trace"), trace("timerlat_trace.txt"));
        assert_eq!(read("trace,file=x"), trace("x"));
        for text in [
            "",
            "stop",
            "continue,now",
            "shell",
            "shell,command=",
            "shell,command=a,b",
            "signal",
            "signal,num=2",
            "signal,pid=1",
            "signal,num=0,pid=1",
            "signal,num=2,pid=-1",
            "signal,num=999,pid=1",
            "trace,",
            "trace,file=",
            "trace,file=x,y",
            "trace,x",
        ] {
            assert!(read(text).unwrap_err().starts_with("--on-end: "), "{text}");
        }
    }

    #[test]
    fn failed_action_ends_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let touch = |name: &str| Action::Shell(format!("touch {}", path(name).display()));
        let failing = Action::Shell("exit 3".to_owned());
        let perform = |actions: &[Action]| perform(actions, None, &mut Vec::new());
        let error = perform(&[touch("a"), failing, touch("b")]).unwrap_err();
        assert!(error.contains("exit 3"), "{error}");
        assert!(path("a").exists() && !path("b").exists());
        perform(&[Action::Continue, touch("c")]).unwrap();
        assert!(!path("c").exists());
    }
}
