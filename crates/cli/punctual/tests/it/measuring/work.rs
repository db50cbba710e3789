//! Tests of `punctual measure work`.

use super::*;

const WORK: &str = "measure work -q --policy other --dma-latency off -i 5ms";

fn iterations(recording: &Recording) -> u64 {
    recording.probe.parameters["iterations"].as_u64().unwrap()
}

#[test]
fn work_stays_the_same_in_all_phases() {
    let place = Sandbox::new();
    let shown = place.done(&format!("{WORK} --verbose --phases idle:500ms,idle:500ms"));
    let recording = place.last();
    assert_conserved(&recording);
    let calibrated = iterations(&recording);
    assert!(calibrated > 1);
    // There is one table for each phase, and one row for each CPU.
    let works = recording.tables.iter().filter(|table| table.name == "work");
    let works: Vec<_> = works.collect();
    assert_eq!(works.len(), 2);
    for row in works.iter().flat_map(|table| &table.rows) {
        assert_eq!(row[3], calibrated.into(), "{row:?}");
    }
    assert!(shown.contains("execution time"), "{shown}");
    assert!(!shown.contains("latency"), "{shown}");
    let known = recording
        .tables
        .iter()
        .any(|table| table.name == "work_counters");
    assert!(
        known || shown.contains("hardware counters unknown: "),
        "{shown}"
    );
    place.done("report last -o x.md");
    let page = fs::read_to_string(place.path("x.md")).unwrap();
    assert!(page.contains("## Execution time"), "{page}");
}

#[test]
fn given_iterations_make_runs_comparable() {
    let place = Sandbox::new();
    for given in ["20000", "20000", "1000"] {
        place.done(&format!(
            "{WORK} --kind memory --size 64 --iterations {given} -D 1s"
        ));
        assert_eq!(iterations(&place.last()).to_string(), given);
    }
    let differs = |sides: &str| {
        let compared = place.run(&format!("compare {sides} --json"));
        let compared: serde_json::Value = serde_json::from_str(&text(&compared.stdout)).unwrap();
        let differences = compared["measured_differently"].as_array().unwrap();
        differences.iter().any(|one| one["what"] == "iterations")
    };
    assert!(!differs("last~2 last~1"));
    assert!(differs("last~2 last"));
}

#[test]
fn limits_apply_to_the_execution_time() {
    let place = Sandbox::new();
    let line = format!("{WORK} --kind float --iterations 5000 -D 300ms");
    let kept = place.run(&format!("{line} --max-latency 100s"));
    // Work that was not done has no execution time, so it proves nothing.
    let (code, part) = match place.last().accounting().missed {
        0 => (0, "requirement met"),
        _ => (4, "of unknown execution time"),
    };
    assert_eq!(kept.status.code(), Some(code), "{}", text(&kept.stdout));
    let shown = text(&kept.stdout)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(shown.contains(part), "{shown}");
    let refused = place.run(&format!("{line} --max-latency 1us"));
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stdout));
    // Each sample contains at least 5000 dependent operations.
    let least = place.last().all_latencies().min();
    assert!(least > Some(Nanos::from_micros(1)), "{least:?}");
}

#[test]
fn plots_of_a_series_name_the_execution_time() {
    let place = Sandbox::new();
    for _ in 0..2 {
        place.done(&format!("{WORK} --iterations 5000 -D 100ms --label w"));
    }
    for kind in ["surface", "heatmap", "trend"] {
        let svg = place.done(&format!("plot w --kind {kind} -o -"));
        assert!(svg.contains("execution time"), "{kind}: {svg}");
        assert!(!svg.to_lowercase().contains("latency"), "{kind}: {svg}");
    }
}

#[test]
fn unfit_work_is_refused_with_a_remedy() {
    let place = Sandbox::new();
    for (options, part) in [
        ("--work-time 3ms", "a shorter --work-time"),
        ("--iterations 1000000000", "fewer --iterations"),
        ("--size 64", "only to --kind memory"),
        ("--kind vector", "integer"),
        ("--iterations 0", "outside"),
    ] {
        let error = place.refused(&format!("{WORK} -D 1s {options}"), 2);
        assert!(error.contains(part), "{options}: {error}");
    }
}
