//! Tests with crafted or damaged stores, recordings and files. No command may panic, hang, use too
//! much memory, or write control characters to the terminal.
//!
//! Each case is generated from its number. `PUNCTUAL_HOSTILE=1420` runs that many cases with all
//! commands. By default, a few cases run with some of the commands.

#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Sandbox, text};
use punctual_model::{
    Blame, Comm, EventKind, Explanation, Nanos, Outlier, Recording, RecordingId, Sample, Share,
    SignedNanos, TraceEvent, Victim, Window, testing,
};
use punctual_store::{Lease, Store, WINDOW};
use serde_json::Value;

/// Commands that read a store. `{i}` is the file to import.
const COMMANDS: [&str; 17] = [
    "import {i}",
    "list",
    "list --json",
    "show last",
    "show last --json",
    "report last last~1 -o out.html",
    "report last -o out.md",
    "report last -o out.xml",
    "plot last -o out.svg",
    "export last --format cyclictest-hist -o out.txt",
    "export last --format csv-histogram -o out.csv",
    "explain last",
    "explain last --outlier 1 --json",
    "compare last last~1",
    "export last -f trace-dat -o out.dat",
    "store bundle last --without-machine -o out.tar.zst",
    "store delete last",
];

/// Text that would mislead a terminal or the reader.
const HOSTILE: &str = "a\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}31m\u{85}\u{202e}b\u{2066}\u{61c}\r\u{7f}";

/// The maximum memory that a command may map, and the maximum time that it may take on a busy
/// machine.
const MEMORY: &str = "--as=3221225472";
const LONGEST: Duration = Duration::from_secs(60);

/// The default number of cases, and of commands for each case.
const FEW: (usize, usize) = (100, 3);

/// A small generator of random numbers that generates the same case on every machine.
struct Dice(u64);

impl Dice {
    fn new(case: usize) -> Self {
        Self(case as u64 ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Damages bytes by flipping bits, moving pieces and cutting off the end.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(8) {
        let at = dice.below(bytes.len());
        match dice.below(6) {
            0 => bytes.truncate(at.max(1)),
            1 => {
                let length = dice.below(64).min(bytes.len() - at);
                bytes[at..at + length].fill(dice.next() as u8);
            }
            2 => {
                let from = dice.below(bytes.len());
                let length = dice.below(4_096).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + length, at);
            }
            3 if bytes.len() < 1 << 20 => {
                let piece = bytes[at..(at + 40).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes[at] ^= 1 << dice.below(8),
        }
    }
}

/// Finds the JSON pointers of all values.
fn places(value: &Value, pointer: &str, found: &mut Vec<String>) {
    found.push(pointer.to_owned());
    match value {
        Value::Array(list) => {
            for (nth, value) in list.iter().enumerate() {
                places(value, &format!("{pointer}/{nth}"), found);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{pointer}/{key}"), found);
            }
        }
        _ => {}
    }
}

/// Replaces some values with extreme numbers, hostile text or null.
fn distort(value: &mut Value, dice: &mut Dice) {
    for _ in 0..=dice.below(6) {
        let mut found = Vec::new();
        places(value, "", &mut found);
        let pointer = found[dice.below(found.len())].clone();
        let Some(place) = value.pointer_mut(&pointer) else {
            continue;
        };
        const NUMBERS: [u64; 8] = [0, 1, 999, 1 << 31, 1 << 53, 1 << 62, 1 << 63, u64::MAX];
        *place = match (&*place, dice.below(12)) {
            (Value::String(_), 0..10) => HOSTILE.into(),
            (Value::Number(_), 0..9) => NUMBERS[dice.below(NUMBERS.len())].into(),
            (Value::Array(list), 0..=4) if !list.is_empty() && list.len() < 200 => {
                let mut list = list.clone();
                let one = list[dice.below(list.len())].clone();
                list.extend(vec![one; 40]);
                list.into()
            }
            (Value::Array(list), 5..=8) => list.iter().take(1).cloned().collect(),
            (_, 0 | 1) => Value::Null,
            (_, 2 | 3) => (-1).into(),
            (_, 4 | 5) => 1e300.into(),
            (_, 6) => HOSTILE.repeat(500).into(),
            (_, 7) => Value::Array(Vec::new()),
            (old, _) => old.clone(),
        };
    }
}

fn outlier(number: u64) -> Outlier {
    Outlier {
        light_stage: false,
        number,
        time: jiff::Timestamp::UNIX_EPOCH,
        monotonic_ns: Nanos(86_400_000_005_000),
        cpu: Some(1),
        thread: 0,
        latency_ns: Nanos(70_000),
        blame: Blame {
            culprit_end_ns: Some(Nanos(70_000)),
            ..testing::blame(vec![Share::new(
                testing::interrupt(HOSTILE),
                Nanos(70_000),
                1,
            )])
        },
    }
}

fn window() -> Window {
    let event = |n: u64, kind| TraceEvent {
        time: Nanos(86_400_000_000_000 + n * 1_000),
        cpu: 1,
        pid: 12,
        flags: 1,
        preempt_count: 0x10,
        kind,
    };
    let entry = || EventKind::IrqEntry {
        irq: 9,
        name: HOSTILE.into(),
    };
    Window {
        victim: Victim {
            tid: 7,
            comm: Comm::new(b"v\x1b[2J\xc2\x9b31m"),
            scheduling: None,
            cpu: 1,
        },
        delay: Default::default(),
        expected: Nanos(86_400_000_000_000),
        actual: Nanos(86_400_000_070_000),
        events: (0..20).map(|n| event(n, entry())).collect(),
        lost: 3,
        left_out: 0,
        missing_events: vec![HOSTILE.to_owned()],
        light_stage: None,
        clock_error: Nanos(40),
        symbols: [(u64::MAX, HOSTILE.to_owned())].into(),
        calls: [(-1, HOSTILE.to_owned())].into(),
        evidence: Default::default(),
        host: Vec::new(),
        segments: Vec::new(),
        activity: Vec::new(),
    }
}

/// Returns two trace pages, preceded by the kernel's description of them as JSON.
fn trace() -> (Value, Vec<u8>) {
    let description = serde_json::json!({
        "header_page": "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n",
        "header_event": "type_len : 5 bits\n",
        "page_bytes": 4096, "big_endian": false, "trace_clock": "[mono]",
        "clock_offset_ns": 0, "cpus": 2,
        "formats": [{"system": "sched", "text": "name: sched_switch\nID: 1\nformat:\n"}],
    });
    let mut pages = Vec::new();
    for cpu in [0u32, 1] {
        pages.extend(cpu.to_le_bytes());
        pages.extend(24u32.to_le_bytes());
        pages.extend(1_000u64.to_le_bytes());
        pages.extend(8u64.to_le_bytes());
        pages.extend([0x21, 0, 0, 0, 1, 0, 0, 0]);
    }
    (description, pages)
}

fn good() -> Recording {
    Recording {
        id: RecordingId::new(),
        label: Some(HOSTILE.to_owned()),
        explanation: Some(Explanation {
            outliers: vec![outlier(1)],
            explained: 1,
            seen: 1,
            ..Explanation::default()
        }),
        ..testing::recording(2, 6)
    }
}

/// Attachments of the stored recording.
struct Attached {
    window: Vec<u8>,
    description: Vec<u8>,
    pages: Vec<u8>,
}

impl Attached {
    fn good() -> Self {
        let (description, pages) = trace();
        Self {
            window: serde_json::to_vec(&window()).unwrap(),
            description: description.to_string().into_bytes(),
            pages,
        }
    }

    fn distorted(dice: &mut Dice) -> Self {
        let mut all = Self::good();
        for json in [&mut all.window, &mut all.description] {
            let mut value: Value = serde_json::from_slice(json).unwrap();
            distort(&mut value, dice);
            *json = value.to_string().into_bytes();
        }
        match dice.below(3) {
            0 => damage(&mut all.window, dice),
            1 => damage(&mut all.pages, dice),
            _ => all.pages[..4].copy_from_slice(&20_000_000u32.to_le_bytes()),
        }
        all
    }
}

/// Stores a recording without checks, with correct checksums.
fn insert(path: &Path, recording: &Recording, attached: &Attached) {
    let store = Store::open(path).unwrap();
    let lease = Lease {
        pid: 4_194_303,
        process_start: 1,
        boot_id: HOSTILE.to_owned(),
        namespaces: None,
    };
    let begun = Recording {
        completion: punctual_model::Completion::Running,
        ..recording.clone()
    };
    let Ok(mut writer) = store.begin(&begun, &lease) else {
        return;
    };
    let samples: Vec<Sample> = (0..2_000)
        .map(|n| Sample {
            expected: Nanos(n * 1_000_000),
            latency: SignedNanos(4_000 + (n * n % 911) as i64),
        })
        .collect();
    if !recording.threads.is_empty() {
        writer.samples(0, &samples).unwrap();
    }
    let about = serde_json::to_string(&outlier(1)).unwrap();
    writer.attach(WINDOW, 1, &about, &attached.window).unwrap();
    writer.attach("pages", 1, "null", &attached.pages).unwrap();
    writer
        .attach("description", 0, "null", &attached.description)
        .unwrap();
    // A recording that cannot be finished stays in the store as a killed run.
    let _ = writer.finish(recording);
}

/// Creates the store for one case, and a file to import. Returns the file.
fn prepare(case: usize, place: &Sandbox, seed: &[u8]) -> PathBuf {
    let dice = &mut Dice::new(case);
    let store = place.path("store.db");
    let file = place.path(&format!("in{HOSTILE}.json"));
    let mut json = serde_json::to_value(good()).unwrap();
    let mut bytes = json.to_string().into_bytes();
    match case % 5 {
        0 => {
            let mut damaged = seed.to_vec();
            damage(&mut damaged, dice);
            fs::write(&store, damaged).unwrap();
        }
        1 => {
            distort(&mut json, dice);
            bytes = json.to_string().into_bytes();
            let text = String::from_utf8(bytes.clone()).unwrap();
            match Recording::from_json(&text) {
                Ok(recording) => insert(&store, &recording, &Attached::good()),
                Err(_) => fs::write(&store, seed).unwrap(),
            }
        }
        2 => {
            insert(&store, &good(), &Attached::distorted(dice));
            damage(&mut bytes, dice);
        }
        3 => {
            fs::write(&store, seed).unwrap();
            let fixtures =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/formats/tests/fixtures");
            let mut all: Vec<PathBuf> = fs::read_dir(fixtures)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            all.sort();
            bytes = fs::read(&all[dice.below(all.len())]).unwrap();
            damage(&mut bytes, dice);
        }
        _ => {
            fs::write(&store, seed).unwrap();
            distort(&mut json, dice);
            bytes = json.to_string().into_bytes();
        }
    }
    fs::write(&file, bytes).unwrap();
    file
}

/// Runs a command with limits. Returns `None` if it did not end in time.
fn limited(place: &Sandbox, words: &[String]) -> Option<Output> {
    let mut command = Command::new("prlimit");
    command
        .args([MEMORY, "--core=0", env!("CARGO_BIN_EXE_punctual")])
        .args(words)
        .current_dir(place.path(""))
        .env("XDG_DATA_HOME", place.path("data"))
        .env("XDG_STATE_HOME", place.path("state"))
        .env("PUNCTUAL_STORE", place.path("store.db"))
        .env("PUNCTUAL_LOCKS", place.path("locks"))
        .env_remove("NO_COLOR")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(fs::File::create(place.path("stdout")).unwrap())
        .stderr(fs::File::create(place.path("stderr")).unwrap());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + LONGEST;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Some(Output {
        status,
        stdout: fs::read(place.path("stdout")).unwrap(),
        stderr: fs::read(place.path("stderr")).unwrap(),
    })
}

/// Returns the first character that controls a terminal or changes the text direction.
fn acting(bytes: &[u8]) -> Option<char> {
    let is_bidi = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| c == '\n' || c == '\t';
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .find(|c| !shown(*c) && (c.is_control() || is_bidi(*c)))
}

/// For each command, the number of its runs and the number of runs with a result.
type Runs = [[AtomicUsize; 2]; COMMANDS.len()];

/// Returns what went wrong in the commands for a case. The text is empty if nothing did.
fn judge(case: usize, commands: usize, seed: &[u8], runs: &Runs) -> String {
    let place = Sandbox::new();
    let file = prepare(case, &place, seed);
    let mut wrong = String::new();
    let chosen = (0..commands).map(|nth| {
        if commands < COMMANDS.len() {
            (case * 7 + nth * 5) % COMMANDS.len()
        } else {
            nth
        }
    });
    for nth in chosen {
        let line = COMMANDS[nth];
        let words: Vec<String> = line
            .split(' ')
            .map(|word| match word {
                "{i}" => file.display().to_string(),
                word => word.to_owned(),
            })
            .collect();
        runs[nth][0].fetch_add(1, Ordering::Relaxed);
        let Some(output) = limited(&place, &words) else {
            let _ = writeln!(wrong, "case {case}: '{line}' takes longer than {LONGEST:?}");
            continue;
        };
        let said = text(&output.stderr);
        let done = usize::from(output.status.success());
        runs[nth][1].fetch_add(done, Ordering::Relaxed);
        if !matches!(output.status.code(), Some(0..=4)) || said.contains("panicked") {
            let _ = writeln!(wrong, "case {case}: '{line}': {}: {said}", output.status);
        }
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if let Some(c) = acting(bytes) {
                let _ = writeln!(wrong, "case {case}: '{line}': {c:?} on {name}");
            }
        }
        for name in ["out.html", "out.md", "out.xml", "out.svg", "out.csv"] {
            let written = fs::read(place.path(name)).unwrap_or_default();
            if let Some(c) = acting(&written) {
                let _ = writeln!(wrong, "case {case}: '{line}': {c:?} in {name}");
            }
        }
    }
    wrong
}

#[test]
fn mutated_recordings_give_result_or_message() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        punctual_testing::skip!(
            Program,
            "mutated recordings: no prlimit(1) to limit memory with"
        );
        return;
    }
    let (cases, commands) = match std::env::var("PUNCTUAL_HOSTILE") {
        Ok(number) => (number.parse().unwrap(), COMMANDS.len()),
        Err(_) => FEW,
    };
    let place = Sandbox::new();
    insert(&place.path("seed.db"), &good(), &Attached::good());
    insert(&place.path("seed.db"), &good(), &Attached::good());
    let seed = fs::read(place.path("seed.db")).unwrap();
    let (next, runs) = (AtomicUsize::new(0), Runs::default());
    let work = || {
        let mut wrong = String::new();
        loop {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= cases {
                return wrong;
            }
            wrong += &judge(case, commands, &seed, &runs);
        }
    };
    let wrong: String = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (line, [all, done]) in COMMANDS.iter().zip(&runs) {
        let (all, done) = (all.load(Ordering::Relaxed), done.load(Ordering::Relaxed));
        eprintln!("{all:>5} runs, {done:>5} with a result: {line}");
        // If every case were refused, this test would not test anything.
        assert!(done > all / 20 || all < 50, "{done} of {all}: {line}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Any user can choose the name of a thread.
#[test]
fn hostile_names_do_not_reach_terminal() {
    let place = Sandbox::new();
    let program = place.path("w\u{1b}[2J\u{9b}\u{202e}");
    fs::copy("/bin/sleep", &program).unwrap();
    let mut child = Command::new(&program).arg("60").spawn().unwrap();
    let comm = format!("/proc/{}/comm", child.id());
    let named =
        crate::common::eventually(|| fs::read_to_string(&comm).is_ok_and(|n| n.contains('w')));
    assert!(named);
    let pid = child.id();
    let lines = [
        format!("exec --pid {pid} --all-threads --nice 1"),
        format!("machine threads --pid {pid}"),
        format!("machine threads --pid {pid} --json"),
    ];
    for line in &lines {
        let output = place.run(line);
        assert!(
            !output.stdout.is_empty(),
            "{line}: {}",
            text(&output.stderr)
        );
        assert_eq!(acting(&output.stdout), None, "{line}");
        assert_eq!(acting(&output.stderr), None, "{line}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The value is shown in escaped form.
    let bad = place.path(&format!("bad{HOSTILE}.toml"));
    fs::write(
        &bad,
        format!("summary = {HOSTILE}\n[settings]\n\"{HOSTILE}\" = 1\n"),
    )
    .unwrap();
    let bad = bad.display().to_string();
    for words in [
        vec!["tune", "plan", &bad],
        vec!["import", &bad],
        vec!["doctor", "--facts", &bad],
        vec!["--store", &bad, "list"],
        vec!["show", HOSTILE],
        vec!["measure", "timer", "--policy", HOSTILE],
        vec![HOSTILE],
    ] {
        let output = place.command("").args(&words).output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{words:?}");
        assert!(!output.stderr.is_empty(), "{words:?}");
        assert_eq!(acting(&output.stderr), None, "{words:?}");
        assert_eq!(acting(&output.stdout), None, "{words:?}");
    }
}

#[test]
fn endless_file_is_not_read_whole() {
    let place = Sandbox::new();
    for line in [
        "tune plan /dev/zero",
        "import /dev/zero",
        "doctor --facts /dev/zero",
    ] {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let output = limited(&place, &words).unwrap();
        let said = text(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{line}: {said}"
        );
    }
}
