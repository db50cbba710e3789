//! Supervises a posting thread in a separate process. For this, a thread of the measuring program
//! starts the process, sends it start and stop, and waits for its end.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use punctual_files::{Budget, reap};
use punctual_model::ToJson;
use punctual_rt::{SharedNumbers, spawn_with};

use super::cross_process::{DONE, FAILED, GO, PostingTask, READY, STOP};
use super::shared_state::SharedState;
use crate::thread_group::Member;
use crate::{Control, PartnerError, ProbeError};

/// The inputs of the process.
pub(super) struct ChildPlan {
    /// The command that starts this program with the task.
    pub(super) command: Vec<OsString>,
    pub(super) numbers: Arc<SharedNumbers>,
    /// The descriptor of the mechanism, if it has one.
    pub(super) descriptor: Option<OwnedFd>,
    /// The task, without the numbers of the descriptors, which are added later.
    pub(super) task: PostingTask,
}

impl ChildPlan {
    /// Runs the process to its end.
    pub(super) fn supervise(self, member: &Member) -> Result<(), ProbeError> {
        let numbers = Arc::clone(&self.numbers);
        // Releases the waiting thread, no matter how the process ends.
        let _ended = Ended(SharedState::from_numbers(&numbers));
        let control = member.control();
        let mut partner = Partner::start(self)?;
        // If the run was stopped before this point, the stop is passed on as soon as the process
        // has begun.
        partner.read_until(READY, control)?;
        if let Some(start) = member.begin() {
            partner.send(&format!("{GO}{}", start.as_nanos()));
            partner.read_until(DONE, control)?;
        }
        Ok(())
    }
}

struct Ended<'a>(SharedState<'a>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The process.
struct Partner {
    process: Child,
    /// Stdin of the process. Closing it ends the process.
    to: Option<ChildStdin>,
    from: ChildStdout,
    /// Output that has not been processed yet.
    unread: Vec<u8>,
    stop_sent: bool,
}

/// How much time the process has to exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);

impl Partner {
    fn start(child_plan: ChildPlan) -> Result<Self, PartnerError> {
        let ChildPlan {
            command,
            numbers,
            descriptor,
            mut task,
        } = child_plan;
        let (program, words) = command.split_first().ok_or(PartnerError::NoProgram)?;
        let mut command = Command::new(program);
        let memory = numbers.as_fd();
        task.numbers = memory.as_raw_fd();
        let end = descriptor.as_ref().map(AsFd::as_fd);
        task.descriptor = end.map(|end| end.as_raw_fd());
        command
            .args(words)
            .arg(task.to_json())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The process gets its own group, because this program passes a Ctrl-C on to it.
            .process_group(0);
        let passed: Vec<BorrowedFd<'_>> = [memory].into_iter().chain(end).collect();
        let mut process = spawn_with(&mut command, &passed).map_err(PartnerError::Start)?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(to), Some(from)) => Ok(Self {
                process,
                to: Some(to),
                from,
                unread: Vec::new(),
                stop_sent: false,
            }),
            _ => Err(PartnerError::NoPipes),
        }
    }

    /// Sends a line. If the process has ended, this is noticed on the next read.
    fn send(&mut self, line: &str) {
        if let Some(to) = &mut self.to {
            let _ = writeln!(to, "{line}").and_then(|()| to.flush());
        }
    }

    /// Reads until this line arrives. If the run is stopped while the process measures, forwards
    /// the stop to it.
    fn read_until(&mut self, word: &str, control: &Control) -> Result<(), PartnerError> {
        let mut some = [0; 256];
        loop {
            while let Some(line) = self.line() {
                if let Some((_, why)) = line.split_once(FAILED) {
                    return Err(PartnerError::Said(why.to_owned()));
                }
                // Other output may precede the word on its line.
                if line.contains(word) {
                    return Ok(());
                }
            }
            match self.from.read(&mut some) {
                Ok(0) => return Err(self.how_it_ended()),
                Ok(length) => self.unread.extend_from_slice(&some[..length]),
                // The read was interrupted by a stop or by an irrelevant signal.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(PartnerError::Read(error)),
            }
            if word == DONE && control.stopping() && !self.stop_sent {
                self.stop_sent = true;
                self.send(STOP);
            }
        }
    }

    /// Returns the next complete line of its output.
    fn line(&mut self) -> Option<String> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Returns the error for a process that has closed its stdout without a message.
    fn how_it_ended(&mut self) -> PartnerError {
        self.to = None;
        match self.wait() {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => PartnerError::Status(code),
                (_, Some(signal)) => PartnerError::Signal(signal),
                _ => PartnerError::Ended,
            },
            None => PartnerError::ClosedOutput,
        }
    }

    /// Waits briefly for the process to end, and returns its exit status.
    fn wait(&mut self) -> Option<std::process::ExitStatus> {
        Budget::time(GRACE).ended(&mut self.process).ok().flatten()
    }
}

/// Dropping this ends the process.
impl Drop for Partner {
    fn drop(&mut self) {
        self.to = None;
        if self.wait().is_none() {
            punctual_rt::demote_threads_of(self.process.id());
            reap(&mut self.process);
        }
    }
}
