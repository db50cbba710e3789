//! `lint` of a program that belongs to another user and may be hostile. The program file is
//! therefore read without privileges.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::other_user::{OTHER, as_other, as_other_in_real_time, give, may_become_other};
use crate::common::{Sandbox, eventually, text};
use crate::{FRAMES, Program, build, has_bpf, is_found, rule};
use punctual_model::LintReport;

/// Builds `violate` in a temporary folder and makes the other user its owner.
fn theirs(place: &Sandbox) -> Option<(tempfile::TempDir, PathBuf)> {
    let built = build(place, FRAMES)?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("violate");
    fs::copy(built, &path).unwrap();
    give(&path, 0o755);
    give(folder.path(), 0o755);
    Some((folder, path))
}

/// Adds a sparse symbol table of `size` zero bytes to a 64-bit ELF file.
fn with_sparse_symbols(path: &Path, size: u64) {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let bytes = fs::read(path).unwrap();
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    let (sections, length, count) = (u64_at(0x28) as usize, u16_at(0x3a), u16_at(0x3c));
    let mut headers = (0..count).map(|number| sections + usize::from(number * length));
    // SHT_SYMTAB of elf(5).
    let symbols = headers.find(|at| bytes[at + 4..at + 8] == 2_u32.to_le_bytes());
    let at = symbols.unwrap() as u64;
    let end = (bytes.len() as u64).next_multiple_of(4_096);
    file.write_all_at(&end.to_le_bytes(), at + 24).unwrap();
    file.write_all_at(&size.to_le_bytes(), at + 32).unwrap();
    file.set_len(end + size).unwrap();
}

/// Returns the peak memory of this process in KiB; 0 if it has ended.
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0)
}

/// Returns the processes that this process has started.
fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect()
}

/// Runs `lint` on the other user's program. Returns the report, and the peak memory of `lint` and
/// its readers in KiB.
fn lint(place: &Sandbox, program: &Program) -> (LintReport, u64) {
    let line = format!("app lint --pid {} -D 1500ms --json", program.pid());
    let mut lint = place.spawn(&line);
    let mut peak = 0;
    let ended = eventually(|| {
        let all = children(lint.id()).into_iter().chain([lint.id()]);
        peak = all.map(peak_kib).fold(peak, u64::max);
        lint.try_wait().unwrap().is_some()
    });
    if !ended {
        lint.kill().unwrap();
    }
    let output = lint.wait_with_output().unwrap();
    assert!(ended, "no answer");
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    let report = serde_json::from_str(&text(&output.stdout));
    (report.unwrap_or_else(|e| panic!("{e}: {stderr}")), peak)
}

#[test]
fn the_program_of_another_user_is_named() {
    if !may_become_other("lint of another user's program") {
        return;
    }
    let place = Sandbox::new();
    let Some((_folder, path)) = theirs(&place) else {
        return;
    };
    let command = as_other_in_real_time(&path);
    let Some(program) = command.and_then(|command| Program::run(command, &["changes"])) else {
        return;
    };
    let (report, _) = lint(&place, &program);
    if !has_bpf(&report) {
        return;
    }
    let found = is_found(&report, "sleep-relative", "before", "sleeps_relative");
    assert!(
        found,
        "{:?} {:?}",
        rule(&report, "sleep-relative"),
        report.notes
    );
    let said = report
        .notes
        .iter()
        .find(|note| note.contains("functions of"));
    assert_eq!(said, None);
}

#[test]
fn hostile_symbol_table_is_reported_sparing_memory() {
    if !may_become_other("lint of another user's program") {
        return;
    }
    let place = Sandbox::new();
    let Some((_folder, path)) = theirs(&place) else {
        return;
    };
    with_sparse_symbols(&path, 2 << 30);
    let blocks = fs::metadata(&path).unwrap().blocks();
    assert!(blocks < 1 << 16, "the file is sparse: {blocks}");
    let command = as_other_in_real_time(&path);
    let Some(program) = command.and_then(|command| Program::run(command, &["changes"])) else {
        return;
    };
    let (report, peak) = lint(&place, &program);
    assert!((1..400 << 10).contains(&peak), "{peak} KiB");
    if !has_bpf(&report) {
        return;
    }
    let sleeps = rule(&report, "sleep-relative");
    assert!(
        !sleeps.violations.is_empty(),
        "{sleeps:?} {:?}",
        report.notes
    );
    let name = path.to_str().unwrap();
    let of_file = |note: &&String| note.contains(name);
    let note = report.notes.iter().find(of_file).expect("the reason");
    assert!(note.contains("exceed the limit of 64 MiB"), "{note}");
}

/// Returns the values in /proc/PID/status.
fn status(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(key, value)| {
            let words: Vec<&str> = value.split_whitespace().collect();
            (key.to_owned(), words.join(" "))
        })
        .collect()
}

#[test]
fn symbol_reader_runs_unprivileged_as_program_user() {
    if !may_become_other("lint of another user's program") {
        return;
    }
    // A file that the reader does not need is left open, as if the reader had inherited it from a
    // shell.
    let program = env!("CARGO_BIN_EXE_punctual");
    let ids = format!("{OTHER} 65533 67108864 67108864");
    let script = format!("exec 7</dev/null; exec '{program}' serve-symbols {ids}");
    let mut reader = Command::new("sh")
        .args(["-c", &script])
        .stdin(File::open(std::env::current_exe().unwrap()).unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The rest of the output is larger than a pipe can hold, so the reader blocks at the end of its
    // work.
    let mut pipe = reader.stdout.take().unwrap();
    let mut first = [0; 8];
    pipe.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"segment ");
    let pid = reader.id();
    let status = status(pid);
    let is = |key: &str, value: &str| assert_eq!(status[key], value, "{key}");
    is("Uid", "65534 65534 65534 65534");
    is("Gid", "65533 65533 65533 65533");
    is("Groups", "");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        is(set, "0000000000000000");
    }
    is("NoNewPrivs", "1");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max address space"), (512 << 20).to_string());
    for none in [
        "Max open files",
        "Max processes",
        "Max file size",
        "Max core file size",
    ] {
        assert_eq!(limit(none), "0", "{none}");
    }
    assert!(limit("Max cpu time").parse::<u64>().unwrap() <= 5);
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open: Vec<_> = open.map(|entry| entry.file_name()).collect();
    assert!(open.len() <= 4, "{open:?}");
    assert!(!open.iter().any(|name| name == "7"), "{open:?}");
    reader.kill().unwrap();
    reader.wait().unwrap();
}

/// If a reader cannot become the other user, it reads nothing and reports the reason.
#[test]
fn privileged_reader_reads_nothing() {
    let mut command = if rustix::process::geteuid().is_root() {
        if !may_become_other("a reader of symbols without rights") {
            return;
        }
        as_other(env!("CARGO_BIN_EXE_punctual"))
    } else {
        Command::new(env!("CARGO_BIN_EXE_punctual"))
    };
    let output = command
        .args(["serve-symbols", "1", "1", "1000000", "1000000"])
        .stdin(File::open("/proc/self/exe").unwrap())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    if stderr.contains("ermission denied") && output.stdout.is_empty() {
        punctual_testing::skip!(User, "another user may not run the program");
        return;
    }
    let said = text(&output.stdout);
    assert!(
        said.starts_with("unknown the reader process cannot become user 1"),
        "{said}"
    );
    assert!(!said.contains("function "), "{said}");
}
