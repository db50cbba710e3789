//! Errors must name the wrong value before anything is measured.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::common::{Sandbox, text};

/// Command lines, with the exit code and the texts that the message must contain.
const WRONG: &[(&str, i32, &[&str])] = &[
    ("", 2, &["Usage"]),
    ("measure", 2, &["Usage"]),
    ("measure clocks-of-doom", 2, &["clocks-of-doom"]),
    (
        "measure timer --interval 0s",
        2,
        &["--interval", "0 ns", "20.0 µs"],
    ),
    (
        "measure clock --phc /dev/null",
        2,
        &["/dev/null is not a PTP clock"],
    ),
    (
        "measure clock --phc /dev/ptp999",
        2,
        &["/dev/ptp999 does not exist", "ethtool -T"],
    ),
    (
        "check --comm motion",
        2,
        &["pass --budget", "that a job of the application may take"],
    ),
    (
        "check --comm no-such-name --budget 1ms",
        2,
        &["no thread to watch: comm no-such-name"],
    ),
    (
        "check --unit no-such-unit --budget 1ms",
        2,
        &["no process belongs to a unit no-such-unit.service"],
    ),
    (
        "check --pid 1 --comm init --budget 1ms",
        2,
        &["cannot be used with"],
    ),
    (
        "check --pid 1 --budget 1ms --load cpu",
        2,
        &["cannot be used with"],
    ),
    ("explain last --unit redis", 2, &["cannot be used with"]),
    (
        "explain last --profile a.svg",
        2,
        &["--profile applies only to a running"],
    ),
    (
        "explain --pid 1 --profile a.gz",
        2,
        &["unknown file extension", "pb.gz"],
    ),
    (
        "explain --pid 1 --wait --profile a.svg",
        2,
        &["cannot be used with"],
    ),
    (
        "experiment --comm motion --b true",
        2,
        &["pass --budget", "that a job of the application may take"],
    ),
    (
        "experiment --comm no-such-name --budget 1ms --b true",
        2,
        &["no thread to watch: comm no-such-name"],
    ),
    (
        "experiment --comm motion --budget 1ms --b true --threshold 1ms",
        2,
        &["cannot be used with"],
    ),
    (
        "experiment --numbers true --b true --block 1s",
        2,
        &["--block does not apply to --numbers"],
    ),
    ("measure timer --interval 1000", 2, &["1000us", "no unit"]),
    ("measure timer --interval soon", 2, &["'soon'"]),
    (
        "measure timer --interval 2s -D 1s",
        2,
        &["2.00 s", "1.00 s"],
    ),
    ("measure timer -D 10", 2, &["10s"]),
    ("measure timer -D 0s", 2, &["forever"]),
    ("measure timer -D 99999999999h", 2, &["99999999999h"]),
    ("measure timer --cpus 9999", 2, &["9999"]),
    ("measure timer --cpus 0-", 2, &["'0-'"]),
    ("measure timer --cpus 8000", 2, &["8000", "online"]),
    ("measure timer --policy fast", 2, &["'fast'", "fifo"]),
    (
        "measure timer --policy fifo --priority 100",
        2,
        &["100", "1", "99"],
    ),
    ("measure timer --policy other --priority 5", 2, &["5"]),
    ("measure timer --priority 300", 2, &["300"]),
    ("measure timer --policy deadline", 2, &["SCHED_DEADLINE"]),
    ("measure timer --warm-up 2s -D 1s", 2, &["2.00 s"]),
    ("measure timer --wait busy", 2, &["'busy'", "timerfd"]),
    (
        "measure timer --loops 5 -D 1s",
        2,
        &["--loops", "--duration"],
    ),
    ("measure timer --loops 0", 2, &["--loops", "0"]),
    ("measure timer --break 0us", 2, &["0us", "first sample"]),
    ("measure timer --max-percentile 99.9", 2, &["99.9=50us"]),
    (
        "measure timer --misses 3/2 --budget 1us",
        2,
        &["3/2", "2/100 allows"],
    ),
    (
        "measure timer --misses 0/0 --budget 1us",
        2,
        &["0/0", "2/100 allows"],
    ),
    ("measure timer --misses 2/100", 2, &["--budget"]),
    ("measure timer --budget 1us", 2, &["--misses"]),
    (
        "measure timer --misses 1/200000 --budget 1us -D 2s",
        2,
        &["200000", "2.00 s", "--duration"],
    ),
    ("measure timer --max-percentile 100=1us", 2, &["p100"]),
    (
        "measure timer --load storm-of-doom",
        2,
        &["storm-of-doom", "command"],
    ),
    ("measure timer --load command:", 2, &["nothing was given"]),
    (
        "measure timer --samples --sample-resolution 7ns",
        2,
        &["7 ns"],
    ),
    ("measure timer --series-interval 1ms", 2, &["1.00 ms"]),
    (
        "measure timer --json no/such/folder/x.json",
        1,
        &["no/such/folder/x.json"],
    ),
    ("show 12345678", 1, &["12345678"]),
    ("show nonsense", 1, &["nonsense"]),
    ("plot last -o x.jpg", 2, &["x.jpg", ".svg"]),
    ("plot last --size big", 2, &["'big'"]),
    ("report last -o x.docx", 2, &["x.docx", ".html"]),
    ("export last --format xlsx", 2, &["xlsx", "cyclictest-json"]),
    (
        "export last --format json --sparse-rows",
        2,
        &["--sparse-rows"],
    ),
    (
        "export last --format cyclictest-hist --extra-key",
        2,
        &["--extra-key"],
    ),
    ("store delete 12345678", 1, &["12345678"]),
    ("explain 12345678", 1, &["12345678"]),
    ("compare 12345678 last", 1, &["12345678"]),
    ("compare last 12345678", 1, &["12345678"]),
    ("plot 12345678 -o x.svg", 1, &["12345678"]),
    ("report 12345678 -o x.html", 1, &["12345678"]),
    ("export 12345678 -f json", 1, &["12345678"]),
    ("export 12345678 -f trace-dat", 1, &["12345678"]),
    ("store bundle 12345678", 1, &["12345678"]),
    ("machine facts diff 12345678 last", 1, &["12345678"]),
    ("trend note add 12345678 text", 1, &["12345678"]),
    ("experiment show 12345678", 1, &["12345678"]),
    ("store bundle last -o x.zip", 2, &["x.zip", ".zst"]),
    ("machine topology -o x.png", 2, &["x.png", ".svg"]),
    ("check -o x.pdf", 2, &["x.pdf", ".html"]),
    ("improve -o x.json --dry-run", 2, &["x.json", ".toml"]),
    ("machine facts capture -o x.toml", 2, &["x.toml", ".json"]),
    ("record status", 2, &["'record'", "'monitor'"]),
    (
        "export last -o x.csv",
        2,
        &["x.csv", "csv-series", "--format"],
    ),
    ("export last -o x.doc", 2, &["x.doc", "--format"]),
];

#[test]
fn each_mistake_is_named_with_its_value() {
    let place = Sandbox::new();
    // A recording for the commands below.
    place.done("measure timer -q --policy other -D 200ms --dma-latency off");
    for (line, code, named) in WRONG {
        let error = place.refused(line, *code);
        for word in *named {
            assert!(
                error.contains(word),
                "'{line}' does not name {word}: {error}"
            );
        }
    }
    assert_eq!(place.listed().len(), 1, "something was measured");
    // SQLite's -wal and -shm files are left behind if a store is only read.
    let left: Vec<String> = std::fs::read_dir(place.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with("store.db"))
        .collect();
    assert!(left.is_empty(), "something was left behind: {left:?}");
}

#[test]
fn foreign_file_is_named_and_untouched() {
    let place = Sandbox::new();
    let foreign = place.path("notes.txt");
    std::fs::write(&foreign, "my notes, not a store\n".repeat(100)).unwrap();
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o644)).unwrap();
    for verb in [
        "list",
        "show last",
        "measure timer -q -D 200ms --policy other",
    ] {
        let error = place.refused(&format!("--store notes.txt {verb}"), 1);
        assert!(error.contains("notes.txt"), "{error}");
        assert_eq!(error.trim().lines().count(), 1, "{error}");
    }
    assert_eq!(
        std::fs::read_to_string(&foreign).unwrap(),
        "my notes, not a store\n".repeat(100)
    );
    let mode = std::fs::metadata(&foreign).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}

#[test]
fn list_accepts_missing_store() {
    let place = Sandbox::new();
    let output = place.run("list");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("no recordings yet"));
    assert_eq!(place.done("list --json").trim(), "[]");
    assert!(!place.path("store.db").exists());
    // A name that the user gave may be mistyped.
    let refused = place.refused("list --store mistyped.db", 1);
    assert!(refused.contains("mistyped.db does not exist"), "{refused}");
}

#[test]
fn recording_is_not_compared_with_itself() {
    let place = Sandbox::new();
    place.done("measure timer -q -D 200ms --rate 1kHz");
    let id = place.last().id.short();
    for (line, what) in [
        ("compare last last".to_owned(), "'last' was given twice"),
        (format!("compare last {id}"), "are the same recording"),
        (
            format!("compare last --with {id}"),
            "are the same recording",
        ),
    ] {
        let refused = place.refused(&line, 2);
        assert!(refused.contains(what), "{refused}");
        assert!(refused.contains("last~1"), "{refused}");
    }
    let interval = &place.last().probe.parameters["interval_ns"];
    assert_eq!(interval, &serde_json::json!(1_000_000));
}

/// Verbs that make recordings do not store them, and verbs that read recordings report an error.
#[test]
fn a_store_named_none_keeps_nothing() {
    let place = Sandbox::new();
    std::fs::write(
        place.path("hist.txt"),
        "T: 0 ( 1229) P:95 I:200 C:   1293 Min:      6 Act:   12 Avg:    7 Max:     112\n",
    )
    .unwrap();
    let run = |line: &str| {
        let mut command = place.command(line);
        command.env("PUNCTUAL_STORE", "none").output().unwrap()
    };
    for line in [
        "measure timer -q -D 200ms --policy other",
        "import hist.txt",
        "compat cyclictest -q -l 5",
    ] {
        let output = run(line);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{line}: {}",
            text(&output.stderr)
        );
        assert!(!output.stdout.is_empty(), "{line}");
    }
    for line in ["show last", "store delete last", "list", "export -f json"] {
        let output = run(line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(
            said.contains("'none'") && said.contains("pass a file"),
            "{said}"
        );
    }
    // Samples need a store.
    let output = run("measure timer -q -D 200ms --policy other --samples");
    assert!(
        text(&output.stderr).contains("--samples"),
        "{}",
        text(&output.stderr)
    );
    let mut names: Vec<String> = std::fs::read_dir(place.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name != "state");
    assert_eq!(names, ["hist.txt"]);
}

#[test]
fn usage_does_not_ask_for_a_store() {
    let place = Sandbox::new();
    // The variable PUNCTUAL_STORE is set for these commands.
    for line in ["export", "show --nothing", "compare"] {
        let said = place.refused(line, 2);
        let usage = said.lines().find(|line| line.starts_with("Usage:"));
        assert!(!usage.unwrap().contains("--store"), "{said}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    use std::process::Stdio;
    let place = Sandbox::new();
    let mut child = place
        .command("schema")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

/// Runs a command whose stdout is a full device; `None` without such a device.
fn on_full_device(command: &mut Command) -> Option<Output> {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        punctual_testing::skip!(Kernel, "full device: no /dev/full");
        return None;
    };
    Some(command.stdout(full).output().unwrap())
}

/// Runs a command whose stdout is a closed pipe.
fn on_closed_pipe(command: &mut Command) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer).output().unwrap()
}

/// A command keeps its exit code, and finishes its work, if nobody reads its output.
#[test]
fn unwritable_output_changes_no_result() {
    const BROKEN: &str =
        "measure timer -q --policy other --dma-latency off -D 200ms --max-latency 1ns";
    let place = Sandbox::new();
    let closed = on_closed_pipe(&mut place.command(BROKEN));
    assert_eq!(
        (closed.status.code(), text(&closed.stderr).as_str()),
        (Some(3), "")
    );
    let Some(full) = on_full_device(&mut place.command(BROKEN)) else {
        return;
    };
    let said = text(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the recording is stored, but the output is incomplete"),
        "{said}"
    );
    assert_eq!(place.listed().len(), 2);
    let closed = on_closed_pipe(&mut place.command("store delete last last~1"));
    assert_eq!(closed.status.code(), Some(0));
    assert!(place.listed().is_empty());
    // A token that nobody has read must not stay valid.
    let full = on_full_device(&mut place.server("enrol machine")).unwrap();
    assert_eq!(full.status.code(), Some(1));
    assert!(
        text(&full.stderr).contains("is revoked"),
        "{}",
        text(&full.stderr)
    );
    let tokens = place.server("tokens").output().unwrap();
    assert!(!text(&tokens.stdout).contains("machine"));
}

#[test]
fn a_full_device_is_named() {
    let place = Sandbox::new();
    let Some(output) = on_full_device(&mut place.command("schema")) else {
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("No space left"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn missing_tracer_is_refused_before_measuring() {
    let place = Sandbox::new();
    for (probe, source) in [
        ("hardware", "hwlat"),
        ("hardware", "both"),
        ("hardware", "osnoise"),
        ("timer", "timerlat"),
    ] {
        let line = format!("measure {probe} --source {source} -D 1s -q --policy other");
        let output = place.run(&line);
        if output.status.success() {
            punctual_testing::skip!(Kernel, "this kernel has the tracer for {source}");
            place.done("store delete last");
            continue;
        }
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("--source {source}: ")), "{told}");
        let says = ["tracefs", "hwlat_detector", "no tracer '"];
        assert!(says.iter().any(|part| told.contains(part)), "{told}");
        assert!(place.listed().is_empty());
    }
}

/// A recording contains the command line, which may not be UTF-8.
#[test]
fn non_utf8_path_does_not_end_program() {
    let place = Sandbox::new();
    let mut store = place.path("store-").into_os_string();
    store.push(OsStr::from_bytes(b"\xff"));
    let mut command = place.command("explain --pid 2147483647");
    let output = command
        .env("PUNCTUAL_STORE", "")
        .arg("--store")
        .arg(store)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{said}");
}
