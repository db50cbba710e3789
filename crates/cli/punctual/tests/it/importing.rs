//! Tests of files from other tools, imported as a user would.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Sandbox, eventually, signal, text};
use punctual_model::{Completion, Recording, Unknown};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/formats/tests/fixtures")
}

/// Copies a fixture to `place`.
fn bring(place: &Sandbox, name: &str) {
    fs::copy(fixtures().join(name), place.path(name)).unwrap();
}

fn recordings(place: &Sandbox) -> Vec<Recording> {
    let ids = place.listed();
    ids.iter()
        .map(|row| {
            let id = row["id"].as_str().unwrap();
            Recording::from_json(&place.done(&format!("show {id} --json"))).unwrap()
        })
        .collect()
}

#[test]
fn a_list_shows_what_is_asked_for() {
    let place = Sandbox::new();
    bring(&place, "cyclictest-2.10-h200.txt");
    for label in ["before", "after", "again"] {
        place.done(&format!("import cyclictest-2.10-h200.txt --label {label}"));
    }
    let labels = |options: &str| -> Vec<String> {
        let listed = place.done(&format!("list --json {options}"));
        let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
        let label = |row: &Value| row["label"].as_str().unwrap().to_owned();
        listed.iter().map(label).collect()
    };
    assert_eq!(labels(""), ["again", "after", "before"]);
    assert_eq!(labels("--label AFT"), ["after"]);
    assert_eq!(labels("--limit 2"), ["again", "after"]);
    assert_eq!(labels("-n 1 --label e"), ["after"]);
    assert_eq!(labels("--probe timer --since 1h").len(), 3);
    assert_eq!(labels("--since 2000-01-01").len(), 3);
    for options in [
        "--since 2199-01-01T00:00:00Z",
        "--host bench-7",
        "--probe signal",
    ] {
        assert!(labels(options).is_empty(), "{options}");
    }
    let none = place.run("list --probe signal");
    assert!(
        text(&none.stderr).contains("no recording matches"),
        "{none:?}"
    );
    let wrong = place.refused("list --since yesterday", 2);
    assert!(wrong.contains("2026-11-03"), "{wrong}");
    // If stdout is not a terminal, all columns are shown and no text is cut.
    let all = place.done("list");
    assert!(all.contains("label") && all.contains("recorded"), "{all}");
}

#[test]
fn histogram_survives_import_and_export() {
    let place = Sandbox::new();
    bring(&place, "cyclictest-2.10-h200.txt");
    let said = place.done("import cyclictest-2.10-h200.txt --label lab");
    assert!(
        said.contains("cyclictest-hist, 2 threads, 3,988 samples"),
        "{said}"
    );
    assert!(said.contains("53 of them with unknown latency"), "{said}");
    assert!(said.contains("unknown: when it was measured"), "{said}");

    let recording = place.last();
    assert_eq!(recording.label.as_deref(), Some("lab"));
    assert!(!recording.knows(Unknown::Missed) && !recording.knows(Unknown::Started));
    // Unknown values are not shown as figures.
    let shown = place.done("show last");
    for words in [
        "time unknown",
        "expected and missed unknown",
        "cost unknown",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let listed = &place.listed()[0];
    for key in ["started", "duration_ns", "missed"] {
        assert!(listed[key].is_null(), "{key}: {listed}");
    }
    assert!(listed["p99_ns"].is_null(), "{listed}");
    assert_eq!(listed["origin"]["format"], "cyclictest-hist");

    let lines = |text: &str| {
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    let file = fs::read_to_string(place.path("cyclictest-2.10-h200.txt")).unwrap();
    let out = place.done("export --sparse-rows -f cyclictest-hist");
    assert_eq!(lines(&out), lines(&file));
    // Plots and reports of the imported recording work.
    place.done("plot last -o plot.svg");
    place.done("report last -o report.html");
    let report = fs::read_to_string(place.path("report.html")).unwrap();
    assert!(report.contains("unknown: when it was measured"));
}

#[test]
fn imported_samples_are_kept_and_exported() {
    let place = Sandbox::new();
    bring(&place, "cyclictest-2.4-verbose.txt");
    let said = place.done("import cyclictest-2.4-verbose.txt");
    assert!(said.contains("every sample kept"), "{said}");
    let csv = place.done("export -f csv");
    let file = fs::read_to_string(place.path("cyclictest-2.4-verbose.txt")).unwrap();
    let mut of_file: Vec<(u64, u64, u64)> = file
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split(':').map(|part| part.trim().parse().ok());
            Some((numbers.next()??, numbers.next()??, numbers.next()??))
        })
        .collect();
    of_file.sort_unstable();
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("thread,cpu,cycle,latency_ns"));
    let of_csv: Vec<(u64, u64, u64)> = rows
        .map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            let number = |at: usize| fields[at].parse::<u64>().unwrap();
            (number(0), number(2), number(3) / 1_000)
        })
        .collect();
    assert_eq!(of_csv, of_file);

    place.done("import --no-samples cyclictest-2.4-verbose.txt");
    assert!(place.last().samples.is_none());
    place.refused("export -f csv", 1);
}

#[test]
fn bad_file_is_reported_others_imported() {
    let place = Sandbox::new();
    let good = ["cyclictest-2.4-lines.txt", "pmq-2.4.json"];
    let bad = [
        (
            "cyclictest-2.4-x-broken.txt",
            "cyclictest-2.4-x-broken.txt:2: Act is -190",
        ),
        (
            "cyclictest-2.10-quote-in-cmdline-invalid.json",
            "invalid.json:3: not valid JSON",
        ),
    ];
    for name in good.into_iter().chain(bad.map(|(name, _)| name)) {
        bring(&place, name);
    }
    let line = format!(
        "import {} {} {} {} nowhere.txt",
        bad[0].0, good[0], bad[1].0, good[1]
    );
    let output = place.run(&line);
    assert_eq!(output.status.code(), Some(1));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    for (_, reason) in bad {
        assert!(stderr.contains(reason), "{reason}: {stderr}");
    }
    assert!(stderr.contains("nowhere.txt: cannot be read"), "{stderr}");
    assert_eq!(place.listed().len(), 2);

    // The JSON output has an entry for each file.
    let output = place.run(&format!("{line} --json --dry-run"));
    assert_eq!(output.status.code(), Some(1));
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results.len(), 5);
    assert_eq!(
        results
            .iter()
            .filter(|result| result["error"].is_string())
            .count(),
        3
    );
    assert_eq!(place.listed().len(), 2, "a dry run stored something");
}

/// Returns the name of each file, its content, and a text that the message must contain.
fn hostile() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let fixture = |name: &str| fs::read(fixtures().join(name)).unwrap();
    let verbose = fixture("cyclictest-2.4-verbose.txt");
    let raw = fixture("jitterdebugger-samples.raw");
    let histogram = fixture("cyclictest-2.10-h200.txt");
    let json = fixture("cyclictest-2.10-h200.json");
    let mixed = [&verbose[..], &histogram[..]].concat();
    let twice = [&verbose[..], &verbose[..]].concat();
    let two_histograms = [&histogram[..], &histogram[..]].concat();
    let mut damaged = raw.clone();
    damaged[28 * 1_000 + 12..][..8].fill(0xff);
    vec![
        ("empty", Vec::new(), "is empty"),
        (
            "packed",
            b"\x1f\x8b\x08\0".to_vec(),
            "is compressed with gzip: gzip -dc",
        ),
        ("binary", vec![0xff; 5_000], "unknown format (known: "),
        (
            "words",
            b"the quick brown fox\n".to_vec(),
            "unknown format (known: ",
        ),
        ("long", vec![b'x'; 3_000_000], "unknown format (known: "),
        (
            "verbose-cut",
            verbose[..verbose.len() - 5].to_vec(),
            ":6383: the file ends inside",
        ),
        ("verbose-mixed", mixed, ":6384: a histogram begins here"),
        (
            "verbose-twice",
            twice,
            ":6389: cycle 0 of thread 0 follows cycle 4981",
        ),
        (
            "raw-cut",
            raw[..raw.len() - 3].to_vec(),
            "at byte 164892: the file is truncated: its last record has 25",
        ),
        ("raw-damaged", damaged, "at byte 28000: not a valid record"),
        (
            "raw-twice",
            [&raw[..], &raw[..]].concat(),
            "at byte 164920: the time of thread 0",
        ),
        ("zeros", vec![0; 2_800], "does not increase"),
        ("histogram-cut", histogram[..900].to_vec(), "histogram-cut"),
        (
            "histogram-twice",
            two_histograms,
            "a second histogram begins here",
        ),
        (
            "trace-version",
            b"\x17\x08Dtracing9\0".to_vec(),
            "the trace.dat has version 9",
        ),
        ("json-cut", json[..1_000].to_vec(), "the file is truncated"),
        (
            "json-deep",
            [
                b"{\"file_version\":1,\"rt_test_version:\":".as_slice(),
                &[b'['; 100_000],
            ]
            .concat(),
            "not valid JSON",
        ),
    ]
}

#[test]
fn what_is_not_whole_leaves_nothing_behind() {
    let place = Sandbox::new();
    for (name, content, words) in hostile() {
        fs::write(place.path(name), content).unwrap();
        let stderr = place.refused(&format!("import {name}"), 1);
        assert!(stderr.contains(words), "{name}: {stderr}");
        assert!(stderr.contains(name), "{name}: {stderr}");
    }
    assert!(place.listed().is_empty());
    place.refused("import --format cyclictest words", 2);
    fs::create_dir(place.path("folder")).unwrap();
    place.refused("import folder", 1);
    let stderr = place.refused("import --format cyclictest-hist words", 1);
    assert!(
        stderr.contains("words:1: \"the quick brown fox\""),
        "{stderr}"
    );
}

/// cyclictest -N writes figures in ns without naming the unit.
#[test]
fn nanoseconds_are_not_taken_for_microseconds() {
    let place = Sandbox::new();
    let row = |thread: u32, cycle: u64, ns: u64| format!("{thread:8}:{cycle:8}:{ns:8}\n");
    let samples: String = (0..50).map(|cycle| row(0, cycle, 18_000 + cycle)).collect();
    fs::write(
        place.path("ns.txt"),
        format!("{samples}{}", row(0, 50, 358_123)),
    )
    .unwrap();
    let said = |line: &str| {
        let output = place.run(line);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    // The unit is inferred from the figures, and the output says so.
    let (out, note) = said("import ns.txt");
    assert!(out.contains("max 358 µs"), "{out}");
    assert!(note.contains("nanoseconds are assumed"), "{note}");
    let (out, note) = said("import ns.txt --unit ns");
    assert!(out.contains("max 358 µs") && note.is_empty(), "{out}{note}");
    let (out, _) = said("import ns.txt --unit us");
    assert!(out.contains("max 358 ms"), "{out}");
    assert_eq!(place.last().all_latencies().max().unwrap().0, 358_123_000);
    // If the figures are from 100 to 999, either unit is possible. The output says so unless the
    // unit is given.
    let rows: String = (0..5).map(|cycle| row(0, cycle, 400 + cycle)).collect();
    fs::write(place.path("either.txt"), rows).unwrap();
    let (out, note) = said("import either.txt");
    assert!(out.contains("max 404 µs"), "{out}");
    assert!(note.contains("microseconds are assumed"), "{note}");
    let (out, note) = said("import either.txt --unit ns --dry-run");
    assert!(out.contains("max 404 ns") && note.is_empty(), "{out}{note}");
    // The histogram is from -N. The unit is also found if all samples are above its rows.
    let tail = |max: u64, over: u64| {
        format!(
            "# Min Latencies: 18000\n# Avg Latencies: 18001\n# Max Latencies: {max}\n\
             # Histogram Overflows: {over:05}\n# Histogram Overflow at cycle number:\n\
             # Thread 0:  # {over:05} others\n\n"
        )
    };
    let filled = format!(
        "# Histogram\n018000 000002\n018002 000001\n{}",
        tail(18_002, 0)
    );
    fs::write(
        place.path("filled.txt"),
        filled.replace("  # 00000 others", ""),
    )
    .unwrap();
    let (out, note) = said("import filled.txt");
    assert!(out.contains("max 18.0 µs"), "{out}");
    assert!(note.contains("nanoseconds are assumed"), "{note}");
    fs::write(
        place.path("over.txt"),
        format!("# Histogram\n{}", tail(18_002, 3)),
    )
    .unwrap();
    let (out, _) = said("import over.txt");
    assert!(out.contains("max 18.0 µs"), "{out}");
    // If the file states its unit, the unit cannot be changed.
    bring(&place, "cyclictest-2.10-h200.json");
    let error = place.refused("import cyclictest-2.10-h200.json --unit ns", 2);
    assert!(error.contains("omit --unit"), "{error}");
    bring(&place, "cyclictest-2.4-lines.txt");
    let error = place.refused("import cyclictest-2.4-lines.txt --unit ns", 1);
    assert!(error.contains("omit --unit"), "{error}");
}

#[test]
fn standard_input_is_imported_as_file() {
    let place = Sandbox::new();
    let verbose = fs::read(fixtures().join("cyclictest-2.4-verbose.txt")).unwrap();
    let mut child = place
        .command("import -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&verbose).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("-: cyclictest-samples, 2 threads, 6,378 samples"));
    assert_eq!(place.last().origin.unwrap().file, "-");
    assert_eq!(place.last().samples.unwrap().count, 6_378);
}

/// Columns that describe the same wake-up are not added up, and the sample that stopped a run is
/// included.
#[test]
fn import_summary_is_correct() {
    let place = Sandbox::new();
    for (name, told) in [
        (
            "rtla-timerlat-hist-all.txt",
            "6 threads, up to 1,000 samples each",
        ),
        ("cyclicdeadline-break.txt", "60,351 samples, max 52.0 µs"),
        (
            "cyclictest-2.4-verbose-break.txt",
            "201 samples, max 115 µs",
        ),
        (
            "xenomai-latency.txt",
            "2,000 samples, max 12.8 µs, all with unknown latency",
        ),
    ] {
        bring(&place, name);
        let said = place.done(&format!("import {name}"));
        assert!(said.contains(told), "{name}: {said}");
        let recording = place.last();
        let stopped = name.contains("break");
        assert_eq!(recording.completion == Completion::Break, stopped, "{name}");
    }
    let shown = place.done("show last");
    assert!(shown.contains("periodic user-mode task"), "{shown}");
    bring(&place, "cyclictest-nanoseconds-blanks-collapsed.txt");
    let name = "cyclictest-nanoseconds-blanks-collapsed.txt";
    let refused = place.refused(&format!("import {name}"), 1);
    assert!(refused.contains("--unit ns"), "{refused}");
    let said = place.done(&format!("import {name} --unit ns"));
    assert!(said.contains("max 21.9 µs"), "{said}");
}

#[test]
fn a_recording_moves_to_another_store() {
    let place = Sandbox::new();
    bring(&place, "cyclictest-2.10-h200.json");
    place.done("import cyclictest-2.10-h200.json");
    let recording = place.last();
    place.done("export -f json -o one.json");
    // The recording is already in the store.
    let stderr = place.refused("import one.json", 1);
    assert!(stderr.contains(&recording.id.to_string()), "{stderr}");
    place.done("import one.json --store other.db");
    let other = place.done("show last --json --store other.db");
    assert_eq!(Recording::from_json(&other).unwrap(), recording);
}

/// An import that is killed midway must not leave a recording.
#[test]
fn a_killed_import_is_swept_away() {
    let place = Sandbox::new();
    let file = place.path("large.txt");
    let mut out = std::io::BufWriter::new(fs::File::create(&file).unwrap());
    for cycle in 0..1_500_000u64 {
        let us = 4 + cycle * 7_919 % 101;
        writeln!(out, "{:8}:{cycle:8}:{us:8}", 0).unwrap();
    }
    out.into_inner().unwrap();
    let mut child = place.spawn("import large.txt");
    // The import is killed as soon as its recording is in the store.
    let begun = eventually(|| {
        let output = place.run("list --json");
        output.status.success()
            && serde_json::from_slice::<Vec<Value>>(&output.stdout).is_ok_and(|rows| {
                rows.iter()
                    .any(|row| row["completion"] == Completion::Running.name())
            })
            || child.try_wait().unwrap().is_some()
    });
    assert!(begun, "it never began");
    signal(&child, "KILL");
    let killed = !child.wait().unwrap().success();
    if killed {
        assert!(place.listed().is_empty(), "half an import is listed")
    } else {
        punctual_testing::skip!(
            Quiet,
            "a_killed_import_is_swept_away: it was done before it was killed"
        )
    }
    drop(recordings(&place));
}

fn slots(place: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&place.done("monitor slots --json")).unwrap()
}

#[test]
fn dated_files_join_a_series() {
    let place = Sandbox::new();
    let fixtures = fixtures();
    let mut joined = 0;
    for entry in fs::read_dir(&fixtures).unwrap() {
        let file = entry.unwrap().path();
        let output = place
            .command("import --json --series farm")
            .arg(&file)
            .output()
            .unwrap();
        joined += usize::from(output.status.success());
    }
    assert!(joined > 0, "no file of {} has a date", fixtures.display());
    let listed = place.done("list --json --series farm");
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.len(), joined);
    // Files that were refused for a missing date must not leave anything behind.
    assert_eq!(place.listed().len(), joined);
    let imported = slots(&place);
    assert_eq!(imported.len(), joined);
    let is_import = |slot: &Value| slot["state"] == "recorded" && slot["cause"] == "import";
    assert!(imported.iter().all(is_import), "{imported:?}");
}

/// With the options --at and --host, a file without a date or a machine can join a series.
/// If such a file is refused, the message names the file and the options.
#[test]
fn options_supply_missing_date_and_machine() {
    let place = Sandbox::new();
    let name = "rtla-timerlat-top.txt";
    bring(&place, name);
    let refused = place.refused(&format!("import {name} --series farm"), 2);
    for told in [name, "--at", "--at mtime"] {
        assert!(refused.contains(told), "{told}: {refused}");
    }
    assert!(place.listed().is_empty());
    place.done(&format!(
        "import {name} --series farm --at 2026-05-04T08:15:00Z --host bench-7"
    ));
    let given = place.last();
    assert_eq!(given.started.to_string(), "2026-05-04T08:15:00Z");
    assert_eq!(
        given.host.hostname.get().map(String::as_str),
        Some("bench-7")
    );
    assert!(given.warnings.iter().any(|told| told.contains("--at")));
    let slot = &slots(&place)[0];
    assert_eq!(
        (&slot["machine"], &slot["series"]),
        (&"bench-7".into(), &"farm".into())
    );
    // The modification time of the file is when its ten minutes ended.
    let file = fs::File::options()
        .write(true)
        .open(place.path(name))
        .unwrap();
    let changed = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_600);
    file.set_modified(changed).unwrap();
    let note = place.run(&format!("import {name} --series farm --at mtime"));
    assert!(note.status.success(), "{note:?}");
    let note = String::from_utf8_lossy(&note.stderr).into_owned();
    assert!(
        note.contains("names no machine") && note.contains("--host"),
        "{note}"
    );
    let starts = |place: &Sandbox| -> Vec<String> {
        let listed = place.listed();
        let start = |row: &Value| row["started"].as_str().unwrap().to_owned();
        listed.iter().map(start).collect()
    };
    let ended = starts(&place);
    assert!(
        ended.contains(&"2023-11-14T22:13:20Z".to_owned()),
        "{ended:?}"
    );
    // The date and the machine stated in the file are kept.
    let dated = "cyclictest-2.10-h200.json";
    bring(&place, dated);
    place.done(&format!("import {dated} --at 2001-01-01 --host other"));
    let all = starts(&place);
    assert_eq!(all.len(), 3);
    assert!(
        !all.iter().any(|start| start.starts_with("2001")),
        "{all:?}"
    );
    assert_eq!(place.done("list --json --host other").trim(), "[]");
    let old = place.refused(&format!("import {name} --mtime"), 2);
    assert!(old.contains("--at mtime"), "{old}");
}

#[test]
fn dated_files_of_many_machines_are_imported_at_once() {
    let place = Sandbox::new();
    bring(&place, "rtla-timerlat-top.txt");
    for (board, day) in [("board-1", "03"), ("board-1", "04"), ("board-2", "03")] {
        fs::create_dir_all(place.path(board)).unwrap();
        let file = place.path(&format!("{board}/timerlat-2026-11-{day}.txt"));
        fs::copy(place.path("rtla-timerlat-top.txt"), file).unwrap();
    }
    let files = "board-1/timerlat-2026-11-03.txt board-1/timerlat-2026-11-04.txt \
                 board-2/timerlat-2026-11-03.txt";
    let options = "--series nightly --at name:%Y-%m-%d --host name:%h/*";
    let output = place.run(&format!("import {files} {options}"));
    let (said, noted) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said.matches("unknown: as above").count(), 2, "{said}");
    assert!(
        noted.contains("3 files: 3 recordings, 2 machines"),
        "{noted}"
    );
    let listed = place.done("list");
    for (board, count) in [("board-1", 2), ("board-2", 1)] {
        assert_eq!(listed.matches(board).count(), count, "{listed}");
    }
    assert!(listed.contains("2026-11-04 00:00"), "{listed}");
    // A file whose name lacks the date is refused, with its pattern.
    let refused = place.refused(&format!("import rtla-timerlat-top.txt {options}"), 2);
    let said = "the name does not match --at name:%Y-%m-%d";
    assert!(refused.contains(said), "{refused}");
    for wrong in [
        "--at name:%H:%M",
        "--host name:board",
        "--host name:%h*****",
    ] {
        place.refused(&format!("import rtla-timerlat-top.txt {wrong}"), 2);
    }
}
