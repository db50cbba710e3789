//! `watch --listen`: metrics of all wake-ups.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Sandbox, eventually, text};

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

#[test]
fn prometheus_can_scrape_a_watch() {
    let place = Sandbox::new();
    let probe = place.run("watch -q -D 100ms");
    if !probe.status.success() {
        punctual_testing::skip_refused("watch", text(&probe.stderr));
        return;
    }
    let mut child = place
        .command("watch --by cgroup,cpu --listen 127.0.0.1:0 -q -D 60s")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(rest.strip_suffix("/metrics")?.to_owned())
        })
        .unwrap();
    let count = "punctual_wakeup_latency_seconds_count";
    let counted = |before: f64| {
        let metrics = get(&address, "/metrics");
        metrics.filter(|metrics| sum(metrics, count) > before)
    };
    assert!(eventually(|| counted(0.0).is_some()));
    let first = counted(0.0).unwrap();
    assert!(first.contains("_bucket{cpu=\"0\",cgroup=\""), "{first}");
    assert!(
        first.contains("\npunctual_wakeups_lost_total{} "),
        "{first}"
    );
    // The counts grow.
    assert!(eventually(|| counted(sum(&first, count)).is_some()));
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
