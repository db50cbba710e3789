//! Several processes, killed processes, full disks and read-only file systems.
//!
//! The child processes run this test binary again; [`child`] selects the role from the environment.
#![allow(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{at_start, batch, insert, lease, recording, samples, store_path};
use jiff::Timestamp;
use punctual_model::{Completion, Nanos, Recording, SeriesEpoch, Slot, SlotCause, SlotState};
use punctual_store::{Batch, Lease, SlotFilter, Store, StoreError};

const ROLE: &str = "PUNCTUAL_STORE_TEST_ROLE";
const STORE: &str = "PUNCTUAL_STORE_TEST_PATH";

/// Runs this binary again with `role` on the store at `path`.
fn child_command(role: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture"])
        .env(ROLE, role)
        .env(STORE, path);
    command
}

/// Plays a role in a child process; does nothing in the parent.
#[test]
fn child() {
    let (Some(role), Some(path)) = (std::env::var_os(ROLE), std::env::var_os(STORE)) else {
        return;
    };
    let path = PathBuf::from(path);
    match role.to_str().unwrap() {
        "run until killed" => run_until_killed(&path),
        "keep some" => keep_some(&path),
        "fill the disk" => fill_the_disk(&path),
        "open on a full disk" => open_on_a_full_disk(&path),
        "deliver on a full disk" => deliver_on_a_full_disk(&path),
        "delete beside a writer" => delete_beside_a_writer(&path),
        "only read" => only_read(&path),
        other => panic!("no role {other}"),
    }
}

/// Sends a line to the parent, bypassing the test harness.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").unwrap();
    out.flush().unwrap();
}

/// Returns the measurements of `second`, by repeating the rows of the sample recording.
fn endless(recording: &Recording, second: u64) -> Batch {
    let mut batch = batch(recording, 1 + second % 20);
    batch.elapsed = Nanos::from_secs(second + 1);
    batch.accounting.clear();
    for row in &mut batch.rows {
        row.start_ns = Nanos::from_secs(second);
    }
    batch
}

fn run_until_killed(path: &Path) {
    let recording = recording(2, 20);
    let store = Store::open(path).unwrap();
    let lease = Lease {
        pid: std::process::id(),
        ..lease()
    };
    let mut writer = store.begin(&at_start(&recording), &lease).unwrap();
    for second in 0.. {
        let part = &samples((second + 1) * 1_000)[second as usize * 1_000..];
        writer.samples(1, part).unwrap();
        writer.commit(&endless(&recording, second)).unwrap();
        say(&format!("committed {second}"));
    }
}

#[test]
fn killed_run_keeps_all_commits() {
    // The child is killed early, in the middle of small chunks, and after a full chunk.
    for enough in [0, 17, 80] {
        let (_folder, path) = store_path();
        let mut child = child_command("run until killed", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let mut killed = false;
        let mut last = None;
        // Read the output to the end: the child continues until the kill takes effect.
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((_, second)) = line.split_once("committed ") else {
                continue;
            };
            last = Some(second.parse::<u64>().unwrap());
            if last >= Some(enough) && !killed {
                let store = Store::open(&path).unwrap();
                assert_eq!(store.sweep(&|lease| lease.pid == pid).unwrap(), 0);
                let line = &store.list().unwrap()[0];
                assert_eq!(line.completion, Completion::Running);
                assert!(store.load(line.id).unwrap().series.rows.len() as u64 >= 2 * enough);
                // SIGKILL.
                child.kill().unwrap();
                killed = true;
            }
        }
        child.wait().unwrap();
        let said = last.unwrap() + 1;

        let store = Store::open(&path).unwrap();
        assert_eq!(store.sweep(&|_| false).unwrap(), 1);
        let id = store.find("last").unwrap();
        let loaded = store.load(id).unwrap();
        assert_eq!(loaded.completion, Completion::Interrupted);
        // The last commit may have been made without having been reported.
        let seconds = loaded.duration_ns.0 / 1_000_000_000;
        assert!(seconds == said || seconds == said + 1, "{seconds}, {said}");
        let source = recording(2, 20);
        let rows: Vec<_> = (0..seconds)
            .flat_map(|second| endless(&source, second).rows)
            .collect();
        assert_eq!(loaded.series.rows, rows);
        assert_eq!(loaded.top_samples, source.top_samples);
        let mut found = Vec::new();
        store
            .samples(id, 1, &mut |part| {
                found.extend_from_slice(part);
                Ok::<_, StoreError>(())
            })
            .unwrap();
        // Samples are committed with the rows; only a full chunk may be ahead.
        assert!(found.len() as u64 >= seconds * 1_000, "{}", found.len());
        assert_eq!(found, samples(found.len() as u64));
        eprintln!("killed after {seconds} commits: all there");
    }
}

fn keep_some(path: &Path) {
    let store = Store::open(path).unwrap();
    for _ in 0..6 {
        let recording = recording(2, 12);
        insert(&store, &recording);
        assert_eq!(store.load(recording.id).unwrap(), recording);
        say(&format!("kept {}", recording.id));
    }
}

/// Writers in other processes and three threads of this one, all creating and using the same new
/// store.
#[test]
fn processes_and_threads_write_at_once() {
    let (_folder, path) = store_path();
    let children: Vec<_> = (0..2)
        .map(|_| {
            child_command("keep some", &path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut ids: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let store = Store::open(&path).unwrap();
                    let recording = recording(2, 12);
                    insert(&store, &recording);
                    recording.id.to_string()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        let kept = said.lines().filter_map(|line| line.split_once("kept "));
        ids.extend(kept.map(|(_, id)| id.to_owned()));
    }
    assert_eq!(ids.len(), 14);
    let store = Store::open_read_only(&path).unwrap();
    let listed = store.list().unwrap();
    assert_eq!(listed.len(), 14);
    for line in listed {
        assert!(ids.contains(&line.id.to_string()));
        assert_eq!(line.completion, Completion::Finished);
        let expected = Recording {
            id: line.id,
            ..recording(2, 12)
        };
        assert_eq!(store.load(line.id).unwrap(), expected);
    }
}

/// Runs a role in a separate mount namespace, with a store on a small disk.
fn passes_on_small_disk(role: &str, size: &str) {
    passes_in_tmpfs(role, size, "exec \"$1\" --exact child --nocapture");
}

/// Runs `script` as a shell script in a separate mount namespace, with a small tmpfs at $0 and this
/// binary as $1. Skips the test if that is not permitted.
fn passes_in_tmpfs(role: &str, size: &str, script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.db");
    let prepared = format!(
        "mount -t tmpfs -o size={size} punctual-test \"$0\" || exit 1; echo mounted; {script}"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &prepared])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .env(ROLE, role)
        .env(STORE, path)
        .output();
    let (said, complained, passed) = match &output {
        Ok(output) => (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            output.status.success(),
        ),
        Err(_) => Default::default(),
    };
    if !said.contains("mounted") {
        punctual_testing::skip!(Right, "a small disk: no right to mount a tmpfs");
        return;
    }
    assert!(passed && said.contains("checked"), "{said}\n{complained}");
}

fn fill_the_disk(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path.with_extension("filler"), vec![0; 3_000_000]).unwrap();
    let kept = recording(1, 5);
    let store = Store::open(path).unwrap();
    insert(&store, &kept);
    let running = recording(2, 20);
    let mut writer = store.begin(&at_start(&running), &lease()).unwrap();
    let mut seconds = 0;
    let error = loop {
        match writer.commit(&endless(&running, seconds)) {
            Ok(()) => seconds += 1,
            Err(error) => break error,
        }
        assert!(seconds < 100_000, "the disk does not fill up");
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("punctual.db"), "{error}");
    drop(writer);
    // Fills the remaining space, so that not even an empty file can be created.
    let _ = std::fs::write(path.with_extension("rest"), vec![0; 2_000_000]);
    assert_eq!(store.load(kept.id).unwrap(), kept);
    assert_eq!(
        store.load(running.id).unwrap().series.rows.len() as u64,
        2 * seconds
    );
    let error = store.begin(&recording(1, 1), &lease()).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    let other = Store::open(&path.with_file_name("other.db")).unwrap_err();
    assert!(matches!(other, StoreError::DiskFull { .. }), "{other}");
    drop(store);
    // Once there is space, everything is present, and more can be written.
    std::fs::remove_file(path.with_extension("filler")).unwrap();
    let store = Store::open(path).unwrap();
    assert_eq!(store.sweep(&|_| false).unwrap(), 1);
    assert_eq!(store.load(kept.id).unwrap(), kept);
    store.delete(running.id).unwrap();
    insert(&store, &recording(1, 5));
    say("checked");
}

#[test]
fn a_full_disk_loses_nothing() {
    passes_on_small_disk("fill the disk", "6m");
}

fn open_on_a_full_disk(path: &Path) {
    let kept = recording(1, 5);
    let store = Store::open(path).unwrap();
    insert(&store, &kept);
    let other = recording(1, 6);
    insert(&store, &other);
    drop(store);
    // Leave no space even for SQLite's shared memory file.
    let _ = std::fs::write(path.with_extension("filler"), vec![0; 16_000_000]);
    let store = Store::open_read_only(path).unwrap();
    assert_eq!(store.load(kept.id).unwrap(), kept);
    assert_eq!(store.list().unwrap().len(), 2);
    assert_eq!(store.stats().unwrap().recordings, 2);
    drop(store);
    // Reading does not use the space reserved for a delete.
    let reserve = PathBuf::from(format!("{}.reserve", path.display()));
    assert!(reserve.exists());
    // Opening the store for writing does not use it either.
    let full = Store::open(path).unwrap_err();
    assert!(matches!(full, StoreError::DiskFull { .. }), "{full}");
    assert!(reserve.exists());
    let store = Store::open_to_delete(path).unwrap();
    store.delete(kept.id).unwrap();
    assert_eq!(store.list().unwrap().len(), 1);
    // The first delete made space for the next one.
    drop(store);
    let store = Store::open(path).unwrap();
    store.delete(other.id).unwrap();
    assert!(store.list().unwrap().is_empty());
    say("checked");
}

#[test]
fn full_disk_allows_reading_and_thinning() {
    passes_on_small_disk("open on a full disk", "16m");
}

/// Returns a series of `store`, and a slot of it that takes three pages.
fn series(store: &Store, due: Timestamp) -> (SeriesEpoch, Slot) {
    let epoch = store
        .put_series("machine", None, "nightly", "{}", due)
        .unwrap();
    let slot = Slot {
        machine: epoch.machine.clone(),
        series: epoch.name.clone(),
        epoch: epoch.epoch,
        due,
        cause: SlotCause::At,
        state: SlotState::Missed,
        reason: Some("the disk was full ".repeat(500)),
        recording: None,
    };
    (epoch, slot)
}

fn delete_beside_a_writer(path: &Path) {
    let kept = [recording(1, 5), recording(1, 6)];
    let store = Store::open(path).unwrap();
    kept.iter().for_each(|kept| insert(&store, kept));
    let writer = Store::open(path).unwrap();
    let (epoch, mut slot) = series(&writer, kept[0].started);
    let _ = std::fs::write(path.with_extension("filler"), vec![0; 16_000_000]);
    let (is_full, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Uses each page that becomes free at once.
        let (is_full, ends) = (&is_full, &ends);
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                slot.due += Duration::from_secs(1);
                let added = writer.add_slot(&epoch, &slot);
                is_full.fetch_or(added.is_err(), Ordering::Relaxed);
            }
        });
        while !is_full.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let deleted = store.delete(kept[0].id);
        ends.store(true, Ordering::Relaxed);
        deleted.unwrap();
    });
    assert_eq!(store.load(kept[1].id).unwrap(), kept[1]);
    assert_eq!(store.list().unwrap().len(), 1);
    say("checked");
}

#[test]
fn other_writers_cannot_use_the_space_reserved_for_deletes() {
    passes_on_small_disk("delete beside a writer", "16m");
}

fn deliver_on_a_full_disk(path: &Path) {
    let kept = recording(1, 5);
    let store = Store::open(path).unwrap();
    insert(&store, &kept);
    let to = store.destination("https://collector.example").unwrap();
    let at = kept.started;
    let (epoch, slot) = series(&store, at);
    let _ = std::fs::write(path.with_extension("filler"), vec![0; 16_000_000]);
    let full = |error: StoreError| assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    let mut added = 0;
    loop {
        let due = at + Duration::from_secs(added);
        match store.add_slot(
            &epoch,
            &Slot {
                due,
                ..slot.clone()
            },
        ) {
            Ok(is_new) => assert!(is_new),
            Err(error) => break full(error),
        }
        added += 1;
        assert!(added < 10_000, "the disk does not fill up");
    }
    let count = || store.slots(&SlotFilter::default()).unwrap().len() as u64;
    assert_eq!(count(), added);
    // If the collector's answer cannot be stored, the recording remains due. Reading still works.
    let answered = store.mark_delivered(&to, kept.id, Some(&"refused ".repeat(20_000)));
    full(answered.unwrap_err());
    assert_eq!(store.due(&to, 9).unwrap(), [kept.id]);
    assert_eq!(store.load(kept.id).unwrap(), kept);
    // Once there is space, both are stored once.
    std::fs::remove_file(path.with_extension("filler")).unwrap();
    store.mark_delivered(&to, kept.id, None).unwrap();
    assert!(store.due(&to, 9).unwrap().is_empty());
    let due = at + Duration::from_secs(added);
    let slot = Slot { due, ..slot };
    assert!(store.add_slot(&epoch, &slot).unwrap());
    assert!(!store.add_slot(&epoch, &slot).unwrap());
    assert_eq!(count(), added + 1);
    say("checked");
}

#[test]
fn failed_delivery_on_full_disk_stays_due() {
    passes_on_small_disk("deliver on a full disk", "6m");
}

fn only_read(path: &Path) {
    let error = Store::open(path).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    let error = Store::open(&path.with_file_name("new.db")).unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
    let store = Store::open_read_only(path).unwrap();
    let list = store.list().unwrap();
    assert_eq!(list.len(), 6);
    for line in list {
        let expected = Recording {
            id: line.id,
            ..recording(2, 12)
        };
        assert_eq!(store.load(line.id).unwrap(), expected);
    }
    say("checked");
}

#[test]
fn store_on_read_only_system_is_readable() {
    let script = format!(
        "{ROLE}='keep some' \"$1\" --exact child --nocapture && \
         mount -o remount,ro \"$0\" && exec \"$1\" --exact child --nocapture"
    );
    passes_in_tmpfs("only read", "6m", &script);
}

#[test]
fn store_in_unwritable_folder_is_readable() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = store_path();
    let kept = recording(1, 3);
    insert(&Store::open(&path).unwrap(), &kept);
    let folder = path.parent().unwrap();
    let allow = |mode| {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o555);
    if std::fs::write(folder.join("probe"), "").is_ok() {
        allow(0o755);
        punctual_testing::skip!(
            User,
            "a folder without the right to write: permissions do not bind this user"
        );
        return;
    }
    let opened = Store::open(&path);
    let read = Store::open_read_only(&path).and_then(|store| store.load(kept.id));
    let fresh = Store::open(&folder.join("new.db"));
    allow(0o755);
    for error in [opened.unwrap_err(), fresh.unwrap_err()] {
        assert!(
            matches!(
                error,
                StoreError::CannotOpen { .. } | StoreError::ReadOnly { .. }
            ),
            "{error}"
        );
    }
    assert_eq!(read.unwrap(), kept);
}
