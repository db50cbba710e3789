//! Processes that are still running after a test program has ended. A mark in the environment
//! identifies all of them, including those in other sessions.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

const NAME: &str = "PUNCTUAL_TEST_PROGRAM";

/// Time that killed processes get to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The mark of one test program.
#[derive(Debug)]
pub(crate) struct CreatedMarker(String);

impl CreatedMarker {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}.{count}.", getpid()))
    }

    pub(crate) fn put_on(&self, command: &mut Command) {
        command.env(NAME, &self.0);
    }

    /// Kills all processes that have the mark and do not end within `grace`, until none are left.
    /// Returns their names. There may be no permission to kill the process of another user.
    pub(crate) fn end_all(&self, grace: Duration) -> Vec<String> {
        let mut names = BTreeMap::new();
        let begun = Instant::now();
        // In the meantime, the processes may start others, and they take a moment to end. During
        // exec, a process has no environment, so the list must be empty twice in a row.
        let mut nothing = 0;
        while nothing < 2 && begun.elapsed() < grace + PATIENCE {
            let found = self.found();
            nothing = if found.is_empty() { nothing + 1 } else { 0 };
            for pid in found.into_iter().filter(|_| begun.elapsed() >= grace) {
                names
                    .entry(pid.as_raw_pid())
                    .or_insert_with(|| name_of(pid));
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        names.into_values().collect()
    }

    /// Returns the running processes with the mark. Zombies are not included, because they no
    /// longer have an environment.
    fn found(&self) -> Vec<Pid> {
        let entry = format!("{NAME}={}", self.0).into_bytes();
        let is_marked = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == entry)
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let pids = pids.filter_map(Pid::from_raw);
        pids.filter(is_marked).collect()
    }
}

fn name_of(pid: Pid) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} ({pid})", name.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_mark_is_ended() {
        let (mark, other) = (CreatedMarker::new(), CreatedMarker::new());
        let started = |mark: &CreatedMarker| {
            let mut command = Command::new("sleep");
            mark.put_on(&mut command);
            command.arg("60").spawn().unwrap()
        };
        let (mut marked, mut unmarked) = (started(&mark), started(&other));
        let names = mark.end_all(Duration::ZERO);
        assert!(!marked.wait().unwrap().success());
        assert!(unmarked.try_wait().unwrap().is_none());
        assert!(names == [format!("sleep ({})", marked.id())], "{names:?}");
        assert_eq!(mark.end_all(Duration::ZERO), [""; 0]);
        let names = other.end_all(Duration::ZERO);
        assert_eq!(names, [format!("sleep ({})", unmarked.id())]);
        unmarked.wait().unwrap();
    }

    #[test]
    fn what_ends_by_itself_is_not_killed() {
        let mark = CreatedMarker::new();
        let mut command = Command::new("sleep");
        mark.put_on(&mut command);
        let mut process = command.arg("0.3").spawn().unwrap();
        assert_eq!(mark.end_all(Duration::from_secs(60)), [""; 0]);
        assert!(process.wait().unwrap().success());
    }
}
