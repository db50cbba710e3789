//! Code that the tests of the command share: a separate store, and ways to run the command as a
//! user would.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod group;
pub mod other_user;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_model::Recording;
pub use punctual_testing::{eventually, signal, text};

/// Returns the files of a bundle by name. The names do not include the folder.
pub fn files_of_bundle(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let packed = std::fs::File::open(path).unwrap();
    let mut archive = tar::Archive::new(zstd::Decoder::new(packed).unwrap());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let (folder, name) = name.split_once('/').unwrap();
        assert!(folder.starts_with("punctual-"), "{folder}");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (name.to_owned(), content)
    });
    entries.collect()
}

/// Calls `watching` while a thread of this process, `sleeper`, wakes up every 20 ms. No other thread may
/// wake up on a quiet machine: a watch without privileges sees only threads of its user. It knows the
/// waits of those that wake up once between two of its looks, so the thread does not wake up more often.
pub fn beside_sleeper(watching: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleep = || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let builder = std::thread::Builder::new().name("sleeper".to_owned());
        builder.spawn_scoped(scope, sleep).unwrap();
        let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(watching));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = watched {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A folder with a separate store. It is removed when this value is dropped.
pub struct Sandbox {
    folder: tempfile::TempDir,
    /// Folder for the locks of CPUs. It is a separate one, because other tests measure at the same
    /// time.
    locks: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            locks: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates the folder in memory if possible, because many small recordings would wait for the
    /// disk.
    pub fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self {
            folder: folder.unwrap(),
            locks: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the command with this store, without the user's settings.
    pub fn command(&self, line: &str) -> Command {
        self.program(env!("CARGO_BIN_EXE_punctual").as_ref(), line)
    }

    /// Returns the command of the server with this store.
    pub fn server(&self, line: &str) -> Command {
        self.program(&punctual_testing::program("punctual-server"), line)
    }

    fn program(&self, path: &Path, line: &str) -> Command {
        let mut command = Command::new(path);
        punctual_testing::isolate(&mut command, self.folder.path(), self.locks.path())
            .args(line.split_whitespace());
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs the command and returns its stdout. Panics unless it ends with exit code 0.
    pub fn done(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{line}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs the command and returns its stderr. Panics unless it ends with this exit code.
    pub fn refused(&self, line: &str, code: i32) -> String {
        let output = self.run(line);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(!stderr.contains("panicked"), "{line}: {stderr}");
        stderr
    }

    pub fn spawn(&self, line: &str) -> Child {
        self.command(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Returns the latest recording.
    pub fn last(&self) -> Recording {
        Recording::from_json(&self.done("show last --json")).unwrap()
    }

    /// Returns the entries of `list`.
    pub fn listed(&self) -> Vec<serde_json::Value> {
        serde_json::from_str(&self.done("list --json")).unwrap()
    }

    /// Waits until a recording is in progress and has rows in the store.
    pub fn wait_for_rows(&self) {
        let found = eventually(|| {
            let output = self.run("show last --json");
            output.status.success()
                && Recording::from_json(&text(&output.stdout))
                    .is_ok_and(|recording| recording.all_latencies().recorded() > 0)
        });
        assert!(found, "no row reached the store");
    }
}

/// Stops the process and waits until none of its threads is running.
pub fn stop(child: &Child) {
    signal(child, "STOP");
    let tasks = format!("/proc/{}/task", child.id());
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map(|(_, after)| after.trim_start());
        after.is_none_or(|after| after.starts_with('T'))
    };
    let all = || std::fs::read_dir(&tasks).unwrap().flatten().all(is_stopped);
    assert!(eventually(all), "it does not stop");
}

/// Returns the trace instances of a process. Mounts tracefs if necessary.
pub fn instances_of(pid: u32) -> Vec<String> {
    let command = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; \
                   ls /sys/kernel/tracing/instances";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", command])
        .output()
        .unwrap();
    let own = format!("punctual-flight-{pid}.");
    let names = text(&output.stdout);
    let ours = names.lines().filter(|name| name.starts_with(&own));
    ours.map(str::to_owned).collect()
}

/// Asserts that the accounting of each thread balances, and that it agrees with the histograms and
/// rows.
pub fn assert_conserved(recording: &Recording) {
    for (place, thread) in recording.threads.iter().enumerate() {
        let account = thread.accounting;
        assert!(account.balances(), "{account:?}");
        assert_eq!(account.recorded, thread.histogram.recorded());
        let rows = recording
            .series
            .rows
            .iter()
            .filter(|row| row.thread == place as u32);
        let (count, missed) = rows.fold((0, 0), |(c, m), row| (c + row.count, m + row.missed));
        assert_eq!(count + recording.series.dropped, account.recorded);
        assert_eq!(missed, account.missed);
    }
}

/// Returns whether this kernel is PREEMPT_RT. Prints a skip if not.
pub(crate) fn real_time(test: &str) -> bool {
    let yes = std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    if !yes {
        punctual_testing::skip!(
            Emulation,
            "{test}: this kernel is not PREEMPT_RT (cargo xtask vm boots one)"
        );
    }
    yes
}

/// Says that a test is skipped because perf refused to record. It names no error number.
pub fn skip_refused_by_perf(what: &str, told: &str) {
    if told.contains("No permissions to read") {
        punctual_testing::skip!(Right, "{what}: perf may not read the trace events");
    } else {
        punctual_testing::skip_refused(what, told);
    }
}
