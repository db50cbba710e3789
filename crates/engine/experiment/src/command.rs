//! A command that brings the machine into a condition.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use punctual_files::{guard_of_group, reap};
use punctual_model::Nanos;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::error::TrialError;

/// Maximum size in bytes of the output that is kept. Only the end of the output is kept.
const KEPT: usize = 2_000;

/// Maximum size in bytes of the standard output, which can contain numbers.
const STDOUT: usize = 65_536;

/// Default of the longest run of a command.
pub const DEADLINE: Nanos = Nanos::from_secs(600);

/// Interval at which to check whether a command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// How long processes may take to exit between SIGTERM and SIGKILL.
const PATIENCE: Duration = Duration::from_millis(200);

/// A command that has succeeded, and the processes that it left running. Dropping this value ends
/// them.
///
/// The shell is not reaped before then, so that the ID of the process group cannot be reused.
pub(crate) struct Running {
    child: Child,
    /// A process that kills the process group if this program is killed, which it notices by the
    /// end of a pipe.
    guard: Child,
    /// The end of the output so far. `all_read` is disconnected when both pipes have been closed.
    output: Kept,
    /// The end of the standard output.
    stdout: Kept,
    all_read: Receiver<()>,
    reaped: bool,
}

/// How a command runs.
pub(crate) struct Wanted<'a> {
    /// Name of the condition, for its environment.
    pub(crate) side: String,
    /// Number of the block, for its environment.
    pub(crate) block: &'a str,
    /// Maximum duration.
    pub(crate) deadline: Nanos,
    /// Maximum time to wait until all writers have closed the output, after the shell has ended.
    pub(crate) closes_within: Duration,
    /// Whether the standard output is needed from its start.
    pub(crate) whole: bool,
    /// Reports that this program is alive while it waits.
    pub(crate) alive: &'a dyn Fn(),
}

impl Running {
    /// Runs a command in the shell until it ends.
    ///
    /// # Errors
    /// Returns [`TrialError::Command`] with the output of the command if it fails or exceeds its
    /// deadline.
    pub(crate) fn start(
        command: &str,
        (side, block): (&str, &str),
        deadline: Nanos,
        stop: &AtomicBool,
    ) -> Result<Self, TrialError> {
        let wanted = Wanted {
            side: side.to_owned(),
            block,
            deadline,
            // A command may leave processes running that keep the output open.
            closes_within: Duration::ZERO,
            whole: false,
            alive: &|| {},
        };
        Ok(Self::output_of(command, &wanted, stop)?.0)
    }

    /// Runs a command in the shell until it ends, and returns what it wrote to its standard output,
    /// without that of processes that it left running.
    ///
    /// # Errors
    /// Returns [`TrialError::Command`] with the output of the command if it fails or exceeds its
    /// deadline, or if the output is too long to be kept.
    pub(crate) fn output_of(
        command: &str,
        wanted: &Wanted<'_>,
        stop: &AtomicBool,
    ) -> Result<(Self, String), TrialError> {
        let failed = |how: String, output: Option<String>| TrialError::Command {
            command: command.to_owned(),
            how,
            output: output.map_or_else(String::new, |output| format!(": {output}")),
        };
        let spawn = || -> std::io::Result<Self> {
            let (reader, writer) = std::io::pipe()?;
            let (error_reader, error_writer) = std::io::pipe()?;
            let child = Command::new("sh")
                .args(["-c", command])
                .env("PUNCTUAL_SIDE", &wanted.side)
                .env("PUNCTUAL_BLOCK", wanted.block)
                .stdin(Stdio::null())
                .stdout(writer)
                .stderr(error_writer)
                .process_group(0)
                .spawn()?;
            let guard = guard_of_group(&child)?;
            let (output, stdout) = (Kept::new(KEPT), Kept::new(STDOUT));
            let (sender, all_read) = channel();
            keep_end(reader, vec![output.clone(), stdout.clone()], sender.clone())?;
            keep_end(error_reader, vec![output.clone()], sender)?;
            Ok(Self {
                child,
                guard,
                output,
                stdout,
                all_read,
                reaped: false,
            })
        };
        let running = spawn().map_err(|error| failed(error.to_string(), None))?;
        let begun = Instant::now();
        while !running.has_ended() {
            if stop.load(Ordering::Relaxed) {
                return Err(TrialError::Stopped);
            }
            (wanted.alive)();
            if begun.elapsed() > Duration::from(wanted.deadline) {
                let how = format!(
                    "it had not ended after {}; --deadline allows more",
                    wanted.deadline
                );
                return Err(failed(how, running.end()));
            }
            thread::sleep(LOOK);
        }
        match running.exit_status() {
            Some(0) => {
                // The output of the shell is in the pipe, but may not have been read yet.
                let _ = running.all_read.recv_timeout(wanted.closes_within);
                if wanted.whole && running.stdout.is_cut.load(Ordering::Relaxed) {
                    let how = format!(
                        "it wrote more than {STDOUT} bytes to its standard output: print fewer numbers"
                    );
                    return Err(failed(how, running.end()));
                }
                let stdout = running.stdout.text();
                Ok((running, stdout))
            }
            Some(code) => Err(failed(format!("exit status {code}"), running.end())),
            None => Err(failed("ended by a signal".to_owned(), running.end())),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns whether the shell has ended, without reaping it.
    fn has_ended(&self) -> bool {
        self.status(WaitIdOptions::NOHANG).is_some()
    }

    fn status(&self, more: WaitIdOptions) -> Option<rustix::process::WaitIdStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | more;
        waitid(WaitId::Pid(self.pid()), options).ok().flatten()
    }

    fn exit_status(&self) -> Option<i32> {
        let status = self.status(WaitIdOptions::NOHANG)?;
        status.exit_status()
    }

    /// Ends the processes that are left in the command's process group, and returns the end of the
    /// output.
    pub(crate) fn end(mut self) -> Option<String> {
        self.end_group();
        let text = self.output.text().trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn end_group(&mut self) {
        // Two real-time threads of different priorities that end on one CPU can stop it.
        punctual_rt::demote_group(self.child.id());
        // It is not an error if no member of the group is alive any more, or if a process that has
        // left the group keeps the pipe open.
        let _ = kill_process_group(self.pid(), Signal::TERM);
        let read = self.all_read.recv_timeout(PATIENCE);
        let is_open = read == Err(RecvTimeoutError::Timeout);
        let _ = kill_process_group(self.pid(), Signal::KILL);
        if is_open {
            let _ = self.all_read.recv_timeout(PATIENCE);
        }
        // End the guard before the ID of the process group can be reused.
        reap(&mut self.guard);
        reap(&mut self.child);
        self.reaped = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.end_group();
        }
    }
}

/// The last bytes of an output.
#[derive(Clone)]
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    most: usize,
    /// Whether the start was dropped, because there was too much.
    is_cut: Arc<AtomicBool>,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self {
            bytes: Arc::default(),
            most,
            is_cut: Arc::default(),
        }
    }

    fn add(&self, new: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(new);
        let beyond = bytes.len().saturating_sub(self.most);
        bytes.drain(..beyond);
        if beyond > 0 {
            self.is_cut.store(true, Ordering::Relaxed);
        }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Keeps the last bytes written to a pipe. Drops `open` when all writers have closed the pipe.
fn keep_end(
    mut pipe: impl Read + Send + 'static,
    kept: Vec<Kept>,
    open: Sender<()>,
) -> std::io::Result<()> {
    let read = move || {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            kept.iter().for_each(|kept| kept.add(&buffer[..count]));
        }
        drop(open);
    };
    let named = thread::Builder::new().name("output".to_owned());
    named.spawn(read).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> Result<Running, TrialError> {
        Running::start(command, ("b", "3"), DEADLINE, &AtomicBool::new(false))
    }

    #[test]
    fn command_knows_side_and_output_is_kept() {
        let output = run("echo side $PUNCTUAL_SIDE of $PUNCTUAL_BLOCK")
            .unwrap()
            .end();
        assert_eq!(output.as_deref(), Some("side b of 3"));
        assert_eq!(run("true").unwrap().end(), None);
        let long = run("seq 100000").unwrap().end().unwrap();
        assert!(long.len() <= KEPT && long.ends_with("100000"), "{long}");
        let error = run("echo it is broken >&2; exit 7")
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("(exit status 7): it is broken"), "{error}");
        let error = run("kill -9 $$").err().unwrap().to_string();
        assert!(error.contains("ended by a signal"), "{error}");
    }

    #[test]
    fn leftover_processes_end_with_block() {
        let begin = Instant::now();
        let running = run("sleep 600 & echo $!").unwrap();
        // Starting the command did not wait for the background process.
        assert!(begin.elapsed() < Duration::from_secs(300));
        let pid: i32 = running.end().unwrap().parse().unwrap();
        // The process is gone or is a zombie that has not been reaped yet. It takes a moment until
        // the signal is delivered.
        let lives = || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z")
        };
        while lives() {
            assert!(begin.elapsed() < Duration::from_secs(300));
            thread::sleep(LOOK);
        }
    }

    /// A shell that waits for its child: the whole process group is ended.
    #[test]
    fn hanging_command_is_ended_with_its_children() {
        let command = "sleep 600 & echo child $!; wait";
        let most = Nanos::from_millis(300);
        let stop = AtomicBool::new(false);
        let error = Running::start(command, ("b", "3"), most, &stop)
            .err()
            .unwrap();
        let error = error.to_string();
        assert!(error.contains("had not ended after 300 ms"), "{error}");
        let (_, pid) = error.split_once("child ").unwrap();
        let comm = format!("/proc/{}/comm", pid.trim());
        let has_ended = || std::fs::read_to_string(&comm).unwrap_or_default() != "sleep\n";
        assert!(punctual_testing::eventually(has_ended), "{error}");
    }

    #[test]
    fn a_user_who_stops_need_not_wait() {
        let stopped = Running::start("sleep 600", ("a", "0"), DEADLINE, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(TrialError::Stopped)));
    }
}
