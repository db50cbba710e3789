//! Prometheus' own checker reads the metrics and the rules.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::client::get;
use crate::place::{Place, deliver, recording};

#[test]
fn promtool_accepts_metrics_and_rules() {
    let found = Command::new("promtool").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!("promtool is not installed");
        return;
    }
    let place = Place::new();
    let server = place.serve();
    deliver(server.address, &recording(1, "a\"b\\c\nd"));
    let mut checker = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let metrics = get(server.address, "/metrics").body;
    checker.stdin.take().unwrap().write_all(&metrics).unwrap();
    let output = checker.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/prometheus");
    let output = Command::new("promtool")
        .args(["check", "rules"])
        .arg(rules.join("punctual.rules.yml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
