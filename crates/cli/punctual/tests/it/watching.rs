//! Metrics of all wake-ups: `watch --listen`, and `listen` in the plan of a monitor.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{Sandbox, beside_sleeper, eventually, signal, text};

/// Returns the body of an answer to `GET path`; `None` if the status is not 200.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// Returns the sum of the values of a metric.
fn sum(metrics: &str, name: &str) -> f64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let values = lines.filter(|rest| rest.starts_with('{'));
    values
        .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Metric whose sum is the number of all counted wake-ups.
const COUNT: &str = "punctual_wakeup_latency_seconds_count";

/// Returns the number of counted wake-ups of the root group. Groups that end are no longer served, but
/// this number never shrinks.
fn counted_of_root(address: &str) -> Option<f64> {
    let metrics = get(address, "/metrics")?;
    let root = metrics.lines().filter(|line| line.contains("cgroup=\"/\""));
    let root: Vec<_> = root.collect();
    (!root.is_empty()).then(|| sum(&root.join("\n"), COUNT))
}

/// Starts a command that serves metrics. Returns it with the address that it reports.
fn serving(place: &Sandbox, line: &str) -> (Child, String) {
    let mut child = place
        .command(line)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, rest) = line.split_once("http://")?;
        Some(rest.strip_suffix("/metrics")?.to_owned())
    });
    // The command must be able to write more.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address.unwrap())
}

/// Returns whether wake-ups can be counted here, by BPF programs or from trace events. Prints a skip
/// if not.
fn can_watch(place: &Sandbox) -> bool {
    let probe = place.run("watch -q -D 100ms");
    if !probe.status.success() {
        punctual_testing::skip_refused("watch", text(&probe.stderr));
    }
    probe.status.success()
}

/// Returns whether BPF programs can count them.
fn can_watch_by_programs(place: &Sandbox) -> bool {
    if !can_watch(place) {
        return false;
    }
    let seen = place.done("watch -q -D 100ms --json");
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    let why = seen["not_bpf"].as_str();
    why.inspect(|why| punctual_testing::skip_refused("watch", why));
    why.is_none()
}

#[test]
fn monitor_serves_sum_of_its_windows() {
    let place = Sandbox::new();
    if !can_watch_by_programs(&place) {
        return;
    }
    let plan = place.path("plan.toml");
    let text = "[watch]\nwindow = \"1s\"\nlisten = \"127.0.0.1:0\"\nby = [\"cpu\", \"cgroup\"]\n";
    std::fs::write(&plan, text).unwrap();
    let line = format!("monitor run --plan {}", plan.display());
    let (mut service, address) = serving(&place, &line);
    let windows = || -> u64 {
        let stats = place.run("store stats --json").stdout;
        let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap_or_default();
        stats["windows"].as_u64().unwrap_or(0)
    };
    assert!(eventually(|| counted_of_root(&address).is_some()));
    let mut before = 0.0;
    let mut grows = || {
        let now = counted_of_root(&address).unwrap_or(before);
        assert!(now >= before, "{now} after {before}");
        before = now;
        windows() >= 3
    };
    assert!(eventually(&mut grows));
    assert!(before > 0.0);
    signal(&service, "TERM");
    assert_eq!(service.wait().unwrap().code(), Some(0));
    assert!(get(&address, "/metrics").is_none());
}

#[test]
fn prometheus_can_scrape_a_watch() {
    let place = Sandbox::new();
    if !can_watch(&place) {
        return;
    }
    let (mut child, address) = serving(
        &place,
        "watch --by cgroup,cpu --listen 127.0.0.1:0 -q -D 10m",
    );
    let counted = || counted_of_root(&address).unwrap_or(0.0);
    beside_sleeper(|| {
        assert!(eventually(|| counted() > 0.0));
        let before = counted();
        let first = get(&address, "/metrics").unwrap();
        assert!(
            first.contains("_bucket{cpu=\"") && first.contains("\",cgroup=\""),
            "{first}"
        );
        assert!(
            first.contains("\npunctual_wakeups_lost_total{} "),
            "{first}"
        );
        // The counts grow.
        assert!(eventually(|| counted() > before));
    });
    assert!(get(&address, "/").is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn taken_address_is_reported() {
    let place = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let said = place.refused(&format!("watch --listen {address} -q -D 1s"), 1);
    assert!(
        said.contains(&format!("cannot listen on {address}")),
        "{said}"
    );
    let said = place.refused("watch --of irq --listen 127.0.0.1:0", 2);
    assert!(said.contains("--listen"), "{said}");
}
