//! cyclicdeadline.

use serde_json::Value;

use crate::common::{Place, assert_conserved, text};

#[test]
fn deadline_threads_are_measured_or_refused_with_the_reason() {
    let place = Place::new();
    let output = place.run("compat cyclicdeadline -a -t 1 -i 5000 -D 1 -q --json=-");
    let out = text(&output.stdout);
    if output.status.code() != Some(0) {
        punctual_testing::skip!(
            "no deadline thread is admitted here: {}",
            text(&output.stderr)
        );
        return;
    }
    assert!(out.starts_with("Using all CPUS\nT: 0 ("), "{out}");
    let (lines, json) = out.split_once("{\n").unwrap();
    assert!(lines.contains(" I:5000 C:"), "{out}");
    let read: Value = serde_json::from_str(&format!("{{{json}")).unwrap();
    assert_eq!(read["resolution_in_ns"], 0);
    assert!(read["thread"]["0"]["cycles"].as_u64().unwrap() > 0);
    assert_conserved(&place.last());
}
