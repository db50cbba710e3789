//! Files for the Firefox Profiler.

use std::fs;

use serde_json::Value;

use crate::common::{Sandbox, text};
use crate::explain_trace::{TOOLS, fixture, json, latencies, outliers};

#[test]
fn late_reactions_open_in_the_firefox_profiler() {
    let place = Sandbox::new();
    for tool in TOOLS {
        let file = fixture(tool);
        let explained = json(&place, &format!("--trace {}", file.display()));
        let output = place.run(&format!("explain --trace {} -o late.json", file.display()));
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("https://profiler.firefox.com"), "{said}");
        let written = fs::read(place.path("late.json")).unwrap();
        let profile: Value = serde_json::from_slice(&written).unwrap();
        let events = profile["traceEvents"].as_array().unwrap();
        let slices = events.iter().filter(|one| one["ph"] == "X");
        let mut slices: Vec<&Value> = slices.collect();
        slices.sort_by_key(|one| one["args"]["outlier"].as_u64());
        let latencies = latencies(&explained);
        assert_eq!(slices.len(), latencies.len());
        for ((slice, latency), outlier) in slices.iter().zip(latencies).zip(outliers(&explained)) {
            assert_eq!(slice["dur"], latency as f64 / 1e3);
            let outlier = &outlier["outlier"];
            let due = outlier["monotonic_ns"].as_u64().unwrap();
            let time = format!("{}.{:09}", due / 1_000_000_000, due % 1_000_000_000);
            assert_eq!(slice["args"]["time"], time);
            let shares = outlier["blame"]["shares"].as_array().unwrap().len();
            assert_eq!(slice["args"].as_object().unwrap().len(), 3 + shares);
            let thread = events
                .iter()
                .find(|one| one["name"] == "thread_name" && one["tid"] == slice["tid"]);
            let name = thread.unwrap()["args"]["name"].as_str().unwrap();
            assert!(!name.starts_with("thread "), "{name}");
        }
    }
}

/// The Firefox Profiler reads the Trace Event Format of Chromium.
#[test]
fn recording_opens_in_the_firefox_profiler() {
    let place = Sandbox::new();
    place.done("measure timer -i 1ms -D 0.1s --policy other -q");
    let output = place.run("export last -f firefox -o profile.json");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("open it at https://profiler.firefox.com"),
        "{said}"
    );
    let written = std::fs::read_to_string(place.path("profile.json")).unwrap();
    let profile: serde_json::Value = written.parse().unwrap();
    let events = profile["traceEvents"].as_array().unwrap();
    let largest = place.last().top_samples.len();
    assert_eq!(
        events.iter().filter(|one| one["ph"] == "X").count(),
        largest
    );
    // A pipe needs no place to open it.
    let piped = place.run("export last -f firefox");
    assert!(piped.stderr.is_empty() && piped.stdout == written.as_bytes());
}
