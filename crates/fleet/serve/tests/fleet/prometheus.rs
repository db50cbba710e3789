//! Tests of the metrics and the rules with the checker of Prometheus itself.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::client::get;
use crate::place::{Sandbox, deliver, recording};
use crate::program::installed;

#[test]
fn promtool_accepts_metrics_and_rules() {
    if installed(&["promtool"]).is_none() {
        return;
    }
    let place = Sandbox::new();
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
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/prometheus");
    let output = Command::new("promtool")
        .args(["check", "config", "--syntax-only"])
        .arg(rules.join("prometheus.yml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = Command::new("promtool")
        .args(["check", "rules"])
        .arg(rules.join("punctual.rules.yml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns the queries of the Grafana dashboard, with its variables filled in.
fn queries() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/grafana/punctual.json");
    let dashboard: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().clone();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    queries
        .map(|query| {
            query
                .replace("$machine", ".*")
                .replace("$__rate_interval", "1h")
        })
        .collect()
}

#[test]
fn dashboard_queries_name_existing_metrics() {
    let place = Sandbox::new();
    let server = place.serve();
    deliver(server.address, &recording(1, "board"));
    let metrics = get(server.address, "/metrics").text();
    let is_word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let queries = queries();
    assert!(queries.len() >= 8);
    for query in &queries {
        let named = query
            .split(is_word)
            .filter(|word| word.starts_with("punctual_"));
        let named: Vec<&str> = named.collect();
        assert!(!named.is_empty(), "{query}");
        for name in named {
            let there = metrics
                .lines()
                .any(|line| line.starts_with(&format!("{name}{{")));
            assert!(there, "{name} of {query}");
        }
    }
}

#[test]
fn promtool_reads_each_query_of_the_dashboard() {
    if installed(&["promtool"]).is_none() {
        return;
    }
    // The queries are passed as rules, because this version of the checker does not accept single
    // queries.
    let place = Sandbox::new();
    let rules = place.file("rules.yml");
    let each = queries().into_iter().enumerate();
    let each = each.map(|(number, query)| {
        format!(
            "      - record: punctual:query{number}\n        expr: {}\n",
            serde_json::json!(query)
        )
    });
    let text = format!(
        "groups:\n  - name: x\n    rules:\n{}",
        each.collect::<String>()
    );
    std::fs::write(&rules, text).unwrap();
    let output = Command::new("promtool")
        .args(["check", "rules"])
        .arg(&rules)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
