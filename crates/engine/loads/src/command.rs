//! `command`: any shell command as a load.

use std::time::Duration;

use punctual_model::{Arguments, Typed, parameters};

use crate::process::{Processes, Script};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "command",
    summary: "any shell command, until it ends",
    parameters: PARAMETERS,
    bare: Some("command"),
    needs: None,
    kind: LoadKind::Processes,
    // It is unknown what work a command does, so only its CPU time can be measured.
    build: |arguments| Processes::load("command", script, |_| Vec::new(), arguments),
};

parameters! {
    COMMAND: Option<String> = Typed::text("command", "Command for sh -c");
}

/// Time for the command to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(2);

fn script(arguments: &Arguments, _cpus: &[u32]) -> Result<Script, LoadError> {
    let command = COMMAND.value_in(arguments).unwrap_or_default();
    Ok(Script {
        // The output of the command is not read.
        shell: format!("exec >/dev/null\n{command}"),
        arguments: Vec::new(),
        title: format!("'{command}'"),
        scratch: None,
        grace: GRACE,
    })
}

#[cfg(test)]
mod tests {
    use crate::{LoadRequest, Running};
    use punctual_model::LoadRecord;
    use punctual_testing::eventually;
    use std::time::Duration;

    fn start(command: &str) -> Running {
        format!("command:{command}")
            .parse::<LoadRequest>()
            .unwrap()
            .start()
            .unwrap()
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

    /// Returns the record of a load that ended by itself.
    fn ended(command: &str) -> LoadRecord {
        let mut load = start(command);
        assert!(eventually(|| load.check().is_some()), "{command}");
        assert_eq!(load.check(), None, "reported twice");
        load.stop()
    }

    #[test]
    fn failure_is_reported_once_with_last_output() {
        let lines = "for n in 1 2 3 4 5 6; do echo line $n >&2; done; echo out";
        let record = ended(&format!("{lines}; exit 3"));
        assert!(record.failed);
        let how = record.ended_early.unwrap();
        assert!(how.contains("ended with exit status: 3 after "), "{how}");
        assert_eq!(
            record.stderr.as_deref(),
            Some("line 2\nline 3\nline 4\nline 5\nline 6")
        );
    }

    #[test]
    fn successful_exit_is_no_failure() {
        let record = ended("echo warning >&2");
        assert!(!record.failed);
        assert_eq!(record.stderr, None);
        assert!(record.ended_early.unwrap().contains("exit status: 0"));
    }

    #[test]
    fn much_on_stderr_holds_nothing_up() {
        let record = ended("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; kill -s KILL $$");
        assert!(record.failed);
        assert!(record.stderr.unwrap().len() <= 4 << 10);
    }

    #[test]
    fn its_cpu_time_is_known() {
        let load = start("while :; do :; done");
        std::thread::sleep(Duration::from_millis(300));
        let time = load.stop().cpu_time_ns.unwrap();
        assert!(time.0 > 0, "{time}");
    }
}
