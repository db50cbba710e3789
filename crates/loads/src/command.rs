//! `command`: any shell command as disturbance.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{Nanos, Parameter, ParameterKind};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::{Load, LoadEntry, LoadError};

/// All about this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "command",
    summary: "any shell command, for as long as it runs",
    parameters: &[Parameter {
        name: "command",
        short: None,
        kind: ParameterKind::Text,
        default: None,
        help: "The command, as given to sh -c",
    }],
    bare: Some("command"),
    build: |arguments| {
        Box::new(CommandLoad {
            command: arguments.text("command").unwrap_or_default().to_owned(),
            process: None,
        })
    },
};

/// Runs the command, and beside it a watcher that reads a pipe which only we
/// hold: when we are gone, however that came, the pipe closes and the watcher
/// kills the whole process group. (A parent-death signal would reach the shell
/// alone, not what it started.)
const GUARD: &str = r#"
exec 3<&0 </dev/null
(cat <&3; kill -s KILL 0) >/dev/null 2>&1 &
exec 3<&-
sh -c "$1"
"#;

/// How long the processes have to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

struct CommandLoad {
    command: String,
    process: Option<Child>,
}

impl CommandLoad {
    fn group(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.process.as_ref()?.id()).ok()?)
    }
}

impl Load for CommandLoad {
    fn start(&mut self) -> Result<(), LoadError> {
        use std::os::unix::process::CommandExt;
        let child = Command::new("sh")
            .args(["-c", GUARD, "sh", &self.command])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| LoadError::Start {
                load: ENTRY.name,
                what: format!("cannot start sh -c '{}'", self.command),
                source,
            })?;
        self.process = Some(child);
        Ok(())
    }

    fn ended_early(&mut self) -> Option<String> {
        let status = self.process.as_mut()?.try_wait().ok()??;
        Some(format!("'{}' ended with {status}", self.command))
    }

    fn cpu_time(&mut self) -> Option<Nanos> {
        let group = self.process.as_ref()?.id();
        Host::live().group_cpu_time(group)
    }

    fn stop(&mut self) {
        let group = self.group();
        let Some(mut child) = self.process.take() else {
            return;
        };
        // The group exists as long as anything in it does: the watcher does,
        // also when the command has ended.
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        signal(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        let gone =
            |group: Option<Pid>| group.is_none_or(|group| test_kill_process_group(group).is_err());
        while Instant::now() < deadline {
            // Reaps the shell, or its group would never be empty.
            let _ = child.try_wait();
            if gone(group) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(Signal::KILL);
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use crate::{LoadRequest, Running};
    use std::time::{Duration, Instant};

    fn start(command: &str) -> Running {
        format!("command:{command}")
            .parse::<LoadRequest>()
            .unwrap()
            .start()
            .unwrap()
    }

    /// Waits until `done`, at most 10 s: a limit for what hangs, not a timing.
    fn eventually(mut done: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if done() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    fn runs(marker: &str) -> bool {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
                String::from_utf8_lossy(&line)
                    .replace('\0', " ")
                    .contains(marker)
            })
        })
    }

    #[test]
    fn it_is_stopped_with_all_it_started() {
        let marker = "sleep 98761";
        let load = start(&format!("{marker} & {marker} & wait"));
        assert!(eventually(|| runs(marker)));
        let record = load.stop();
        assert_eq!(record.ended_early, None);
        assert!(!runs(marker));
    }

    #[test]
    fn dropping_it_stops_it() {
        let marker = "sleep 98762";
        let load = start(marker);
        assert!(eventually(|| runs(marker)));
        drop(load);
        assert!(!runs(marker));
    }

    #[test]
    fn one_that_ignores_the_signal_is_killed() {
        let marker = "sleep 98763";
        let load = start(&format!("trap '' TERM; {marker}"));
        assert!(eventually(|| runs(marker)));
        load.stop();
        assert!(eventually(|| !runs(marker)));
    }

    #[test]
    fn its_early_end_is_reported_once() {
        let mut load = start("exit 3");
        assert!(eventually(|| load
            .check()
            .is_some_and(|how| how == "'exit 3' ended with exit status: 3")));
        assert_eq!(load.check(), None);
        assert_eq!(
            load.stop().ended_early.as_deref(),
            Some("'exit 3' ended with exit status: 3")
        );
    }

    #[test]
    fn its_cpu_time_is_known() {
        let load = start("while :; do :; done");
        std::thread::sleep(Duration::from_millis(300));
        let time = load.stop().cpu_time_ns.unwrap();
        assert!(time.0 > 0, "{time}");
    }
}
