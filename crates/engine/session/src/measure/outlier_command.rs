//! Runs a command of the user at an outlier, in parallel to the measurement and never on a
//! measuring thread.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use punctual_model::{Nanos, RecordingId, counted};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::OnOutlier;
use crate::explain::RawOutlier;

/// Minimum interval between two starts of the command, because it disturbs the measurement.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for the last command after the run.
const GRACE: Duration = Duration::from_secs(5);

/// An outlier, as passed to the command in its environment.
#[derive(Clone, Debug)]
pub(crate) struct OutlierEvent {
    pub(crate) latency: Nanos,
    pub(crate) cpu: Option<u32>,
    pub(crate) tid: u32,
    /// Due time on CLOCK_MONOTONIC.
    pub(crate) expected: Nanos,
    /// Cause, if it was explained.
    pub(crate) cause: Option<String>,
}

impl From<&RawOutlier> for OutlierEvent {
    fn from(outlier: &RawOutlier) -> Self {
        Self {
            latency: outlier.latency,
            cpu: outlier.cpu,
            tid: outlier.tid,
            expected: outlier.expected,
            cause: None,
        }
    }
}

/// Runs the command, one instance at a time.
#[derive(Debug)]
pub(crate) struct OutlierCommand {
    asked: OnOutlier,
    recording: RecordingId,
    running: Option<Child>,
    started: Option<Instant>,
    runs: u64,
    skipped: u64,
    failed: u64,
    failure: Option<String>,
}

impl OutlierCommand {
    pub(crate) fn new(asked: OnOutlier, recording: RecordingId) -> Self {
        Self {
            asked,
            recording,
            running: None,
            started: None,
            runs: 0,
            skipped: 0,
            failed: 0,
            failure: None,
        }
    }

    pub(crate) const fn threshold(&self) -> Nanos {
        self.asked.threshold
    }

    /// Reaps the previous command, and runs the command for the largest of these outliers.
    pub(crate) fn turn(&mut self, mut seen: Vec<OutlierEvent>) {
        self.reap();
        seen.retain(|one| one.latency > self.asked.threshold);
        seen.sort_by_key(|one| one.latency);
        let Some(largest) = seen.pop() else { return };
        self.skipped += seen.len() as u64;
        let soon = self.started.is_some_and(|at| at.elapsed() < INTERVAL);
        if soon || self.running.is_some() {
            self.skipped += 1;
            return;
        }
        self.started = Some(Instant::now());
        self.runs += 1;
        match self.command(&largest).spawn() {
            Ok(child) => self.running = Some(child),
            Err(error) => self.fail(format!("cannot run sh: {error}")),
        }
    }

    fn command(&self, outlier: &OutlierEvent) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(&self.asked.command)
            .stdin(Stdio::null())
            // stdout is for the result of the measurement.
            .stdout(Stdio::from(std::io::stderr()))
            .process_group(0)
            .env("PUNCTUAL_RECORDING", self.recording.to_string())
            .env("PUNCTUAL_LATENCY_NS", outlier.latency.0.to_string())
            .env("PUNCTUAL_TID", outlier.tid.to_string())
            .env("PUNCTUAL_EXPECTED_NS", outlier.expected.0.to_string());
        for (name, value) in [
            ("PUNCTUAL_CPU", outlier.cpu.map(|cpu| cpu.to_string())),
            ("PUNCTUAL_CAUSE", outlier.cause.clone()),
        ] {
            match value {
                Some(value) => command.env(name, value.replace('\0', "")),
                // A value inherited from another run would be misleading.
                None => command.env_remove(name),
            };
        }
        command
    }

    fn reap(&mut self) {
        let Some(child) = &mut self.running else {
            return;
        };
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                self.running = None;
                self.ended(status);
            }
            Err(error) => {
                self.running = None;
                self.fail(error.to_string());
            }
        }
    }

    fn ended(&mut self, status: ExitStatus) {
        if !status.success() {
            self.fail(status.to_string());
        }
    }

    fn fail(&mut self, why: String) {
        self.failed += 1;
        self.failure = Some(why);
    }

    /// Waits for the last command, kills it if it takes too long, and returns warnings for the
    /// reader.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let end = Instant::now() + GRACE;
        while self.running.is_some() && Instant::now() < end {
            self.reap();
            thread::sleep(Duration::from_millis(10));
        }
        if self.running.is_some() {
            self.kill();
            self.fail(format!("killed {} s after the run", GRACE.as_secs()));
        }
        self.warnings()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.failed > 0 {
            let last = self.failure.as_deref().unwrap_or_default();
            warnings.push(format!(
                "the command of --on-outlier failed in {} of {} runs (last: {last})",
                self.failed, self.runs
            ));
        }
        if self.skipped > 0 {
            warnings.push(format!(
                "the command of --on-outlier ran {}; it was not started for {} that occurred \
                 during a run of the command or within 1 s of a run",
                counted(self.runs, "time", "times"),
                counted(self.skipped, "outlier", "outliers")
            ));
        }
        warnings
    }

    /// Kills the command with all its children.
    fn kill(&mut self) {
        let Some(mut child) = self.running.take() else {
            return;
        };
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // The command may already have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        punctual_files::reap(&mut child);
    }
}

impl Drop for OutlierCommand {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlier(us: u64) -> OutlierEvent {
        OutlierEvent {
            latency: Nanos::from_micros(us),
            cpu: Some(3),
            tid: 77,
            expected: Nanos(5),
            cause: Some("softirq NET_RX".to_owned()),
        }
    }

    fn command(text: &str) -> OutlierCommand {
        let asked = OnOutlier {
            command: text.into(),
            threshold: Nanos::from_micros(10),
        };
        OutlierCommand::new(asked, RecordingId::new())
    }

    #[test]
    fn the_largest_is_told_to_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let variables = "$PUNCTUAL_RECORDING $PUNCTUAL_CPU $PUNCTUAL_LATENCY_NS $PUNCTUAL_CAUSE";
        let mut command = command(&format!("echo \"{variables}\" > {}", file.display()));
        let id = command.recording.to_string();
        command.turn(vec![outlier(9)]);
        assert_eq!(command.runs, 0);
        command.turn(vec![outlier(20), outlier(40), outlier(30)]);
        // The previous start was less than an interval ago, so the command is not run.
        command.turn(vec![outlier(90)]);
        assert_eq!((command.runs, command.skipped), (1, 3));
        let warnings = command.finish();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let said = std::fs::read_to_string(file).unwrap();
        assert_eq!(said, format!("{id} 3 40000 softirq NET_RX\n"));
    }

    #[test]
    fn failures_are_counted() {
        let mut failing = command("exit 3");
        failing.turn(vec![outlier(20)]);
        let warnings = failing.finish();
        assert!(warnings[0].contains("1 of 1 runs"), "{warnings:?}");
        assert!(warnings[0].contains('3'), "{warnings:?}");
    }

    #[test]
    fn overlong_command_is_killed_with_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let mut endless = command(&format!("sleep 60 & echo $! > {}; wait", file.display()));
        endless.turn(vec![outlier(20)]);
        let text = || std::fs::read_to_string(&file).unwrap_or_default();
        while text().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        drop(endless);
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", text().trim()));
        let lives = || stat().is_ok_and(|stat| !stat.contains(") Z "));
        for _ in 0..1000 {
            if !lives() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("its child lives");
    }
}
