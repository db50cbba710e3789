//! Enumerates faults of the file system: each write, sync, rename or removal of a command fails
//! once, fails like on a full disk from then on, or is the moment at which the program is killed.
//! strace(1) injects the faults into the built program. Writes of pages are many and alike, so only
//! each seventh of them is disturbed, unless `PUNCTUAL_FAULTS=every` is set.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "it/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{Sandbox, files_of_bundle, text};
use punctual_model::{Completion, Recording, RecordingId};
use punctual_store::Store;

/// System calls that change files or make changes durable.
const CALLS: &[&str] = &[
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
];

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// One call fails.
    Once,
    /// The disk is full from this call on.
    Full,
    /// The program is killed at this call.
    Killed,
}

impl Fault {
    /// Returns the option of strace that disturbs the call with this number.
    fn option(self, call: &str, number: usize) -> String {
        match self {
            Self::Once => format!("inject={call}:error=EIO:when={number}"),
            Self::Full => format!("inject={call}:error=ENOSPC:when={number}+"),
            Self::Killed => format!("inject={call}:signal=KILL:when={number}"),
        }
    }
}

/// A disturbed command after its end.
struct Ended<'a> {
    place: &'a Sandbox,
    /// Whether the command said that it succeeded.
    acknowledged: bool,
    /// Recordings of the store before the command.
    before: &'a BTreeMap<RecordingId, Recording>,
    /// Recordings of the store now.
    now: BTreeMap<RecordingId, Recording>,
}

impl Ended<'_> {
    /// Asserts that all earlier recordings are unchanged, and returns the new ones.
    fn new_recordings(&self) -> Vec<&Recording> {
        for (id, recording) in self.before {
            assert_eq!(
                self.now.get(id),
                Some(recording),
                "{id} was lost or changed"
            );
        }
        let new = self
            .now
            .iter()
            .filter(|(id, _)| !self.before.contains_key(id));
        new.map(|(_, recording)| recording).collect()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// Returns the command below strace, with further options for strace. The log is outside the folder
/// of the command.
fn traced(place: &Sandbox, line: &str, log: &Path, options: &[&str]) -> Command {
    let inner = place.command(line);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(log);
    command.args(["-e", &format!("trace={}", CALLS.join(","))]);
    command.args(options);
    command.arg(inner.get_program()).args(inner.get_args());
    command.current_dir(inner.get_current_dir().unwrap());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Counts the system calls of the command. Prints a skip if strace cannot trace.
fn count_calls(seed: &Sandbox, line: &str, log: &Path) -> Option<BTreeMap<&'static str, usize>> {
    let place = copy_of(seed);
    let Ok(output) = traced(&place, line, log, &[]).output() else {
        punctual_testing::skip!(Program, "no strace(1)");
        return None;
    };
    let calls = fs::read_to_string(log).unwrap_or_default();
    if calls.is_empty() {
        punctual_testing::skip!(Right, "strace cannot trace: {}", text(&output.stderr));
        return None;
    }
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    let mut counts = BTreeMap::new();
    for call in CALLS {
        let found = calls.matches(&format!(" {call}(")).count();
        if found > 0 {
            counts.insert(*call, found);
        }
    }
    Some(counts)
}

fn copy_of(seed: &Sandbox) -> Sandbox {
    let place = Sandbox::in_memory();
    copy_folder(&seed.path(""), &place.path(""));
    place
}

/// Reads all recordings of a store that must be intact.
fn recordings(store: &Path) -> BTreeMap<RecordingId, Recording> {
    let store = Store::open_read_only(store).unwrap();
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    let all = store.list().unwrap().into_iter();
    all.map(|one| (one.id, store.load(one.id).unwrap()))
        .collect()
}

/// Runs the command in a copy of `seed` once for each fault, and calls `check` after each run.
fn enumerate(seed: &Sandbox, line: &str, check: &dyn Fn(&Ended<'_>)) {
    // The next command of any kind recovers.
    let before = recordings(&seed.path("store.db"));
    enumerate_from(seed, &before, line, "list --json", check);
}

/// Like [`enumerate`], for a store that had these recordings, and is readable after `recover`.
fn enumerate_from(
    seed: &Sandbox,
    before: &BTreeMap<RecordingId, Recording>,
    line: &str,
    recover: &str,
    check: &dyn Fn(&Ended<'_>),
) {
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("strace.log");
    let Some(counts) = count_calls(seed, line, &log) else {
        return;
    };
    let every = std::env::var("PUNCTUAL_FAULTS").is_ok_and(|value| value == "every");
    let mut faults = 0;
    for fault in [Fault::Once, Fault::Full, Fault::Killed] {
        for (call, count) in &counts {
            let step = if *call == "pwrite64" && !every { 7 } else { 1 };
            for number in (1..=*count).step_by(step) {
                let place = copy_of(seed);
                let option = fault.option(call, number);
                let output = traced(&place, line, &log, &["-e", &option])
                    .output()
                    .unwrap();
                if !was_injected(&log, &output) {
                    // The number of calls varies from run to run.
                    break;
                }
                faults += 1;
                let told = text(&output.stderr);
                eprintln!("{line}: {option}: {}: {told}", output.status);
                assert!(!told.contains("panicked"), "{told}");
                place.done(recover);
                check(&Ended {
                    acknowledged: output.status.success(),
                    before,
                    now: recordings(&place.path("store.db")),
                    place: &place,
                });
            }
        }
    }
    eprintln!("{line}: {faults} faults");
    assert!(faults > counts.len(), "{counts:?}");
}

fn was_injected(log: &Path, output: &Output) -> bool {
    let log = fs::read_to_string(log).unwrap();
    log.contains("(INJECTED)") || output.status.signal() == Some(9)
}

const MEASURE: &str = "measure timer -i 1ms -D 60ms --warm-up 0 --samples -q --policy other";

/// A store with two recordings.
fn with_recordings() -> Sandbox {
    let seed = Sandbox::in_memory();
    seed.done(MEASURE);
    seed.done(MEASURE);
    seed
}

#[test]
fn faults_lose_no_finished_run() {
    enumerate(&with_recordings(), MEASURE, &|ended| {
        let new = ended.new_recordings();
        assert!(new.len() <= 1);
        if ended.acknowledged {
            assert_eq!(new[0].completion, Completion::Finished);
        }
        ended.place.done(MEASURE);
    });
}

#[test]
fn faults_leave_no_half_merge() {
    let seed = with_recordings();
    seed.done(&format!("--store other.db {MEASURE}"));
    seed.done(&format!("--store other.db {MEASURE}"));
    let other = recordings(&seed.path("other.db"));
    enumerate(&seed, "store merge other.db", &|ended| {
        let new = ended.new_recordings();
        for recording in &new {
            assert_eq!(Some(*recording), other.get(&recording.id));
        }
        assert!(!ended.acknowledged || new.len() == other.len());
        assert_eq!(recordings(&ended.place.path("other.db")), other);
        ended.place.done("store merge other.db");
        let now = recordings(&ended.place.path("store.db"));
        assert_eq!(now.len(), ended.before.len() + other.len());
    });
}

#[test]
fn faults_of_deletion_and_compaction_keep_others() {
    let seed = with_recordings();
    let deleted = seed.last().id;
    enumerate(&seed, "store delete last", &|ended| {
        for (id, recording) in ended.before.iter().filter(|(id, _)| **id != deleted) {
            assert_eq!(ended.now.get(id), Some(recording));
        }
        match ended.now.get(&deleted) {
            Some(kept) => assert!(!ended.acknowledged && *kept == ended.before[&deleted]),
            None => assert_eq!(ended.now.len(), ended.before.len() - 1),
        }
    });
    seed.done("store delete last");
    enumerate(&seed, "store compact", &|ended| {
        assert!(ended.new_recordings().is_empty());
        ended.place.done("store compact");
    });
}

#[test]
fn faults_leave_no_half_backup() {
    enumerate(&with_recordings(), "store backup b.db", &|ended| {
        assert!(ended.new_recordings().is_empty());
        let backup = ended.place.path("b.db");
        assert!(backup.exists() || !ended.acknowledged);
        if !backup.exists() {
            ended.place.done("store backup b.db");
        }
        assert_eq!(recordings(&backup), *ended.before);
    });
}

#[test]
fn faults_leave_the_old_store_or_a_converted_one() {
    let packed = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/store/tests/fixtures/schema-13.db.zst"
    );
    let old = zstd::decode_all(fs::File::open(packed).unwrap()).unwrap();
    let seed = Sandbox::in_memory();
    fs::write(seed.path("store.db"), &old).unwrap();
    let converted = copy_of(&seed);
    converted.done("store upgrade");
    let before = recordings(&converted.path("store.db"));
    assert_eq!(before.len(), 2);
    enumerate_from(&seed, &before, "store upgrade", "store upgrade", &|ended| {
        assert!(ended.new_recordings().is_empty());
        // The copy is the whole old store: it can be converted in turn.
        let copy = ended.place.path("store.db.schema-13");
        let copy = copy.display();
        ended.place.done(&format!("--store {copy} store upgrade"));
        assert_eq!(recordings(Path::new(&copy.to_string())), before);
    });
}

#[test]
fn faults_leave_no_half_import() {
    let seed = with_recordings();
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/cyclictest-2.4-H20.txt"
    );
    fs::copy(fixture, seed.path("in.txt")).unwrap();
    let whole = copy_of(&seed);
    whole.done("import in.txt");
    let whole = whole.last();
    enumerate(&seed, "import in.txt", &|ended| {
        let new = ended.new_recordings();
        assert!(!ended.acknowledged || new.len() == 1);
        for recording in new {
            assert_eq!(recording.threads, whole.threads);
            assert_eq!(recording.completion, whole.completion);
        }
        ended.place.done("import in.txt");
    });
}

#[test]
fn faults_leave_no_half_output() {
    let seed = with_recordings();
    let last = seed.last();
    enumerate(
        &seed,
        "store bundle last --without-machine -o b.tar.zst",
        &|ended| {
            assert!(ended.new_recordings().is_empty());
            let bundle = ended.place.path("b.tar.zst");
            assert!(bundle.exists() || !ended.acknowledged);
            if bundle.exists() {
                let files = files_of_bundle(&bundle);
                fs::write(ended.place.path("unpacked.db"), &files["store.db"]).unwrap();
                let unpacked = recordings(&ended.place.path("unpacked.db"));
                assert_eq!(unpacked.get(&last.id), Some(&last));
            }
        },
    );
    enumerate(&seed, "sign last -o s.json", &|ended| {
        assert!(ended.place.path("s.json").exists() || !ended.acknowledged);
        if !ended.place.path("s.json").exists() {
            ended.place.done("sign last -o s.json");
        }
        ended.place.done("verify s.json");
    });
}
