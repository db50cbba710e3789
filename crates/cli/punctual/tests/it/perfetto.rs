//! Tests whether Perfetto's own classes (package `perfetto` of PyPI) can read the traces.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Sandbox, text};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/fixtures").join(name)
}

/// Returns the content of the file, or `None` if Perfetto's classes are not installed.
fn read(file: &Path) -> Option<Value> {
    let has_classes = Command::new("python3")
        .args(["-c", "import perfetto, google.protobuf"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_classes {
        return None;
    }
    let output = Command::new("python3")
        .arg(fixture("read_perfetto.py"))
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Checks the slices of outliers against the explanation.
fn check_outliers(read: &Value, explained: &Value) {
    let slices: Vec<&Value> = (read["slices"].as_array().unwrap().iter())
        .filter(|slice| slice["track"]["parent"] == "Late reactions")
        .collect();
    let outliers = explained["outliers"].as_array().unwrap();
    assert!(!outliers.is_empty());
    let segments = |outlier: &Value| outlier["segments"].as_array().unwrap().len();
    let expected: usize = outliers.iter().map(|one| 1 + segments(one)).sum();
    assert_eq!(slices.len(), expected);
    for one in outliers {
        let (outlier, window) = (&one["outlier"], &one["window"]);
        let whole = slices
            .iter()
            .find(|slice| slice["about"]["outlier"] == outlier["number"])
            .unwrap();
        assert_eq!(whole["depth"], 0);
        assert_eq!(whole["name"], outlier["blame"]["sentence"]);
        assert_eq!(whole["about"]["sentence"], outlier["blame"]["sentence"]);
        assert_eq!(whole["about"]["latency_ns"], outlier["latency_ns"]);
        assert_eq!(
            (&whole["from"], &whole["to"]),
            (&window["expected_ns"], &window["actual_ns"])
        );
        let victim = &outlier["blame"]["victim"];
        let name = format!("{}-{}", victim["comm"].as_str().unwrap(), victim["tid"]);
        assert_eq!(whole["track"]["name"], name.as_str());
        let shares = outlier["blame"]["shares"].as_array().unwrap();
        let sum: u64 = shares
            .iter()
            .map(|share| share["ns"].as_u64().unwrap())
            .sum();
        assert_eq!(
            whole["about"]["shares"].as_array().unwrap().len(),
            shares.len()
        );
        assert_eq!(outlier["latency_ns"], sum);
        for segment in one["segments"].as_array().unwrap() {
            let of_segment = |slice: &&&Value| {
                slice["depth"] == 1
                    && slice["track"] == whole["track"]
                    && (&slice["from"], &slice["to"]) == (&segment["from_ns"], &segment["to_ns"])
            };
            let slice = slices.iter().find(of_segment).unwrap();
            assert_eq!(slice["about"]["who"], segment["who"]);
            let same = |share: &&Value| share["ns"] == slice["about"]["share_ns"];
            let share = shares.iter().find(same).unwrap();
            assert_eq!(share["kind"], segment["kind"], "{slice}");
        }
    }
}

fn explained(place: &Sandbox, line: &str) -> Value {
    serde_json::from_str(&place.done(&format!("explain --json {line}"))).unwrap()
}

#[test]
fn perfetto_reads_a_whole_trace_with_its_causes() {
    let place = Sandbox::new();
    for name in ["above.trace-cmd", "lock.trace-cmd", "moved.perf"] {
        let file = fixture(&format!("traces/{name}.txt.xz"));
        let trace = format!("--trace {}", file.display());
        place.done(&format!("explain {trace} -o {name}.pftrace"));
        let Some(read) = read(&place.path(&format!("{name}.pftrace"))) else {
            punctual_testing::skip!(Program, "the Python package perfetto");
            return;
        };
        let explained = explained(&place, &trace);
        check_outliers(&read, &explained);
        // Perfetto reads all events of the file, not only those around outliers.
        let events: u64 = read["events"]
            .as_object()
            .unwrap()
            .values()
            .map(|n| n.as_u64().unwrap())
            .sum();
        let instants = read["instants"].as_array().unwrap().len() as u64;
        let all = explained["explanation"]["trace"]["events"]
            .as_u64()
            .unwrap();
        assert!(
            events + instants >= all,
            "{name}: {events} and {instants} of {all}"
        );
        for event in ["sched_switch", "sched_waking"] {
            assert!(
                read["events"][event].as_u64().unwrap() > 0,
                "{name}: {}",
                read["events"]
            );
        }
    }
}

/// The file was written with Perfetto's own classes.
#[test]
fn causes_are_appended_to_a_trace_of_perfetto() {
    let place = Sandbox::new();
    let name = "../../engine/tracefile/tests/fixtures/perfetto/file.pftrace.xz";
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let original = original.display();
    place.done(&format!("explain --trace {original} -o out.pftrace"));
    let times = |file: &str| {
        let shown = place.done(&format!("explain --trace {file} --thread-times"));
        shown.split_once("\nthread ").unwrap().1.to_owned()
    };
    assert_eq!(times("out.pftrace"), times(&original.to_string()));
    let explained = |file: &str| -> Value {
        let printed = place.done(&format!("explain --trace {file} --json"));
        serde_json::from_str(&printed).unwrap()
    };
    let before = explained(&original.to_string());
    let causes = |explained: &Value| -> Vec<Value> {
        let outliers = explained["outliers"].as_array().unwrap().iter();
        outliers
            .map(|one| one["outlier"]["blame"].clone())
            .collect()
    };
    assert_eq!(causes(&explained("out.pftrace")), causes(&before));
    // The packets of the original come first, also after a second time.
    place.done("explain --trace out.pftrace -o again.pftrace");
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(bytes("again.pftrace").starts_with(&bytes("out.pftrace")));
    let Some(read) = read(&place.path("out.pftrace")) else {
        punctual_testing::skip!(Program, "the Python package perfetto");
        return;
    };
    check_outliers(&read, &before);
    assert!(read["events"]["sched_switch"].as_u64().unwrap() > 50);
}

#[test]
fn perfetto_reads_the_outliers_of_a_recording() {
    let place = Sandbox::new();
    let file = fixture("traces/above.trace-cmd.txt.xz");
    place.done(&format!("import {}", file.display()));
    let note = text(&place.run("export -f perfetto").stderr);
    assert!(note.contains("trace.pftrace; open it at"), "{note}");
    let explained = explained(&place, "last");
    place.done("explain last -o same.pftrace");
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(bytes("trace.pftrace"), bytes("same.pftrace"));
    place.done("export --outlier 1 -o one.pftrace");
    assert!(bytes("one.pftrace").len() < bytes("same.pftrace").len());
    let Some(all) = read(&place.path("trace.pftrace")) else {
        punctual_testing::skip!(Program, "the Python package perfetto");
        return;
    };
    check_outliers(&all, &explained);
    let threads = all["threads"].as_object().unwrap();
    assert!(
        threads.values().any(|name| name == "(not recorded)"),
        "{threads:?}"
    );
    let one = read(&place.path("one.pftrace")).unwrap();
    let whole = one["slices"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|slice| slice["depth"] == 0 && slice["track"]["parent"] == "Late reactions");
    assert_eq!(
        whole
            .map(|slice| &slice["about"]["outlier"])
            .collect::<Vec<_>>(),
        [1]
    );
}

/// The recording was made by punctual itself.
#[test]
fn perfetto_reads_an_own_recording() {
    let place = Sandbox::new();
    let line = "measure timer -q --policy other --dma-latency off --explain --threshold 1us \
                -D 1s --interval 5ms";
    let output = place.run(line);
    if output.status.code() != Some(0) {
        punctual_testing::skip_refused("explaining", text(&output.stderr));
        return;
    }
    place.done("export -o own.pftrace");
    let Some(read) = read(&place.path("own.pftrace")) else {
        punctual_testing::skip!(Program, "the Python package perfetto");
        return;
    };
    check_outliers(&read, &explained(&place, "last"));
}

#[test]
fn whole_trace_is_limited_to_the_requested_time() {
    let place = Sandbox::new();
    let file = fixture("traces/above.trace-cmd.txt.xz");
    let trace = format!("--trace {}", file.display());
    place.done(&format!("explain {trace} -o all.pftrace"));
    let explained = explained(&place, &trace);
    let at = explained["outliers"][0]["outlier"]["monotonic_ns"]
        .as_u64()
        .unwrap();
    let seconds = format!("{}.{:06}", at / 1_000_000_000, at / 1_000 % 1_000_000);
    place.done(&format!(
        "explain {trace} --between {seconds} {seconds} -o part.pftrace"
    ));
    let size = |name: &str| std::fs::metadata(place.path(name)).unwrap().len();
    assert!(size("part.pftrace") * 2 < size("all.pftrace"));
    assert!(size("part.pftrace") > 1_000);
}

#[test]
fn refused_output_leaves_no_file() {
    let place = Sandbox::new();
    let file = fixture("traces/above.trace-cmd.txt.xz");
    let trace = format!("--trace {}", file.display());
    for (line, expected) in [
        (format!("explain {trace} -o x.pdf"), "use .html or .svg"),
        (
            format!("explain {trace} --outlier 1 -o x.pftrace"),
            "contains all outliers",
        ),
        (format!("explain {trace} --json -o x.html"), "--json"),
        (
            format!("explain {trace} --outlier 99999 -o x.svg"),
            "outlier 99999 is not kept",
        ),
        (
            "explain --pid 1 -o x.svg".to_owned(),
            "only to recordings and traces",
        ),
    ] {
        let error = place.refused(&line, 2);
        assert!(error.contains(expected), "{line}: {error}");
    }
    let error = place.refused("explain --trace no-such-file -o x.pftrace", 1);
    assert!(error.contains("no-such-file"), "{error}");
    let left = std::fs::read_dir(place.path("")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().starts_with("x.")),
        "{left:?}"
    );
}
