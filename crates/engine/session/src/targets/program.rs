//! A program that is started to be watched, and ended afterwards.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use punctual_files::{guard_of_group, reap};
use punctual_host::Host;
use rustix::process::{Pid, Signal, kill_process_group};

use super::TargetError;

/// How long a program may take to end between SIGTERM and SIGKILL.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval at which to check whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A program in a separate process group. Dropping this value ends the group.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// A process that kills the group if this program is killed, which it notices by the end of a
    /// pipe.
    guard: Child,
}

impl Program {
    /// Starts a program. Its output goes to stderr, because stdout is for the result.
    pub(super) fn start(words: &[String]) -> Result<Self, TargetError> {
        let [program, arguments @ ..] = words else {
            return Err(TargetError::NoCommand);
        };
        let start = || -> std::io::Result<Self> {
            let output = std::io::stderr().as_fd().try_clone_to_owned()?;
            let child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(output)
                .process_group(0)
                .spawn()?;
            await_name(child.id());
            match guard_of_group(&child) {
                Ok(guard) => Ok(Self { child, guard }),
                Err(error) => {
                    let mut child = child;
                    reap(&mut child);
                    Err(error)
                }
            }
        };
        start().map_err(|source| TargetError::NotStarted {
            command: words.join(" "),
            source,
        })
    }

    /// Returns the ID of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn end(&mut self) {
        let group = Pid::from_child(&self.child);
        // Two real-time threads of different priorities that end on one CPU can stop it: the one that
        // runs waits for the other in the kernel.
        punctual_rt::demote_group(self.child.id());
        let _ = kill_process_group(group, Signal::TERM);
        let begun = Instant::now();
        // The process is not reaped before its group is killed, so its ID cannot be reused.
        while begun.elapsed() < PATIENCE && !self.has_ended() {
            thread::sleep(LOOK);
        }
        let _ = kill_process_group(group, Signal::KILL);
        reap(&mut self.guard);
        reap(&mut self.child);
    }

    fn has_ended(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(Pid::from_child(&self.child)), options);
        status.ok().flatten().is_some()
    }
}

/// Waits until a new process has the name of its program. The kernel sets it a little after the parent
/// goes on, and a later change would look as if the program had changed its name.
fn await_name(pid: u32) {
    let name = |pid: u32| {
        let mut threads = Host::live().threads_of(pid).into_iter();
        threads.find_map(|(tid, name)| (tid == pid).then_some(name))
    };
    let (own, begun) = (name(std::process::id()), Instant::now());
    while begun.elapsed() < Duration::from_millis(100) && name(pid) == own {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn real_time_program_is_demoted_before_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let [ready, policy] = ["ready", "policy"].map(|name| folder.path().join(name));
        let script = format!(
            "trap 'chrt -p $$ >{}; exit' TERM; chrt -p $$ >{}; while :; do sleep 0.01; done",
            policy.display(),
            ready.display()
        );
        let mut command = words("chrt -f 2 sh -c");
        command.push(script);
        let program = Program::start(&command).unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let has_begun = || read(&ready).contains("priority") || program.has_ended();
        assert!(punctual_testing::eventually(has_begun));
        if !read(&ready).contains("SCHED_FIFO") {
            punctual_testing::skip!(Right, "chrt -f 2: {}", read(&ready));
            return;
        }
        drop(program);
        assert!(read(&policy).contains("SCHED_OTHER"), "{}", read(&policy));
    }

    #[test]
    fn program_ends_with_its_value() {
        let program = Program::start(&words("sleep 600")).unwrap();
        let place = format!("/proc/{}/comm", program.pid());
        // The kernel sets the name a little after the parent goes on.
        let is_named = || std::fs::read_to_string(&place).unwrap() == "sleep\n";
        assert!(punctual_testing::eventually(is_named));
        assert!(!program.has_ended());
        drop(program);
        assert!(!std::path::Path::new(&place).exists());
    }

    #[test]
    fn absent_program_is_named() {
        let error = Program::start(&words("/nowhere/motion -x")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/motion -x"), "{error}");
        assert!(Program::start(&[]).is_err());
    }
}
