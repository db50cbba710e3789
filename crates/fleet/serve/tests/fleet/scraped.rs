//! Tests that a real Prometheus can scrape a collector, and that the shipped rules raise alerts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_model::{
    Nanos, PriorityClass, WaitHistogram, WakeupAxis, WakeupRow, WakeupSource, Wakeups,
};
use serde_json::Value;

use crate::alerts::judged;
use crate::client::get;
use crate::place::{Sandbox, deliver, recording};
use crate::program::{Program, installed};

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/prometheus/punctual.rules.yml")
}

/// Starts Prometheus with the shipped rules, without their delays of minutes.
fn prometheus(place: &Sandbox, target: std::net::SocketAddr) -> Program {
    let rules = std::fs::read_to_string(rules()).unwrap();
    let lines = rules.lines().map(|line| {
        if line.trim().starts_with("for:") {
            "        for: 300ms"
        } else {
            line
        }
    });
    let lines: Vec<&str> = lines.collect();
    std::fs::write(place.file("rules.yml"), lines.join("\n")).unwrap();
    let settings = serde_json::json!({
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [place.file("rules.yml")],
        "scrape_configs": [{
            "job_name": "punctual",
            "static_configs": [{"targets": [target.to_string()]}],
        }],
    });
    Program::configured("prometheus", place, &settings, |setup| {
        vec![
            format!("--config.file={}", setup.settings),
            format!("--storage.tsdb.path={}", setup.data),
            format!("--web.listen-address={}", setup.address),
            "--enable-feature=native-histograms".to_owned(),
        ]
    })
}

/// Returns the active alerts as (name, machine), sorted.
fn firing(answer: &Value) -> Option<Vec<(String, String)>> {
    let alerts = answer["data"]["alerts"].as_array()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let firing = alerts.iter().filter(|one| one["state"] == "firing");
    let mut firing: Vec<(String, String)> = firing
        .map(|one| {
            (
                text(&one["labels"]["alertname"]),
                text(&one["labels"]["machine"]),
            )
        })
        .collect();
    firing.sort();
    Some(firing)
}

#[test]
fn prometheus_raises_the_alerts_of_the_rules() {
    if installed(&["prometheus"]).is_none() {
        return;
    }
    let place = Sandbox::new();
    // Machines count as silent at once, also those with a broken requirement.
    let server = place.serve_as(|config| config.silent_after = Duration::ZERO);
    assert_eq!(deliver(server.address, &judged(1, true)).status, 201);
    assert_eq!(deliver(server.address, &recording(2, "quiet")).status, 201);
    let prometheus = prometheus(&place, server.address);
    let expected = [("PunctualSilent", "board"), ("PunctualSilent", "quiet")];
    let expected = expected.map(|(name, machine)| (name.to_owned(), machine.to_owned()));
    prometheus.until("/api/v1/alerts", |answer| {
        firing(answer).filter(|firing| *firing == expected)
    });
    // The native histograms have the same counts as the text format.
    let text = get(server.address, "/metrics").text();
    let count = "punctual_latency_seconds_count{machine=\"quiet\"} ";
    let count: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix(count))
        .unwrap()
        .parse()
        .unwrap();
    let value = |query: &str| {
        prometheus.until(&format!("/api/v1/query?query={query}"), |answer| {
            let value = answer["data"]["result"][0]["value"][1].as_str()?;
            value.parse::<f64>().ok()
        })
    };
    let machine = "%7Bmachine%3D%22quiet%22%7D";
    assert_eq!(
        value(&format!(
            "histogram_count(punctual_latency_seconds{machine})"
        )),
        count
    );
    let p99 = value(&format!(
        "histogram_quantile(0.99,punctual_latency_seconds{machine})"
    ));
    let all = recording(2, "quiet").all_due();
    let exact = all.known().quantile(0.99).unwrap().0 as f64 / 1e9;
    // Native buckets grow by 4.4%.
    assert!((0.95..1.05).contains(&(p99 / exact)), "{p99} {exact}");
    server.stop();
    prometheus.until("/api/v1/alerts", |answer| {
        let down = ("PunctualCollectorDown".to_owned(), String::new());
        firing(answer).filter(|firing| *firing == [down.clone()])
    });
}

/// Wake-ups on two CPUs, as `watch --listen` serves them.
#[test]
fn prometheus_reads_the_wakeups_of_a_machine() {
    if installed(&["prometheus"]).is_none() {
        return;
    }
    let row = |cpu: u32| {
        let mut waits = WaitHistogram::new();
        (1..=1_000).for_each(|n| waits.record(Nanos(n * 1_000 * u64::from(cpu + 1))));
        WakeupRow {
            cpu,
            class: PriorityClass::RealTime,
            comm: None,
            group: None,
            held_ns: Nanos::ZERO,
            waits,
        }
    };
    let seen = Wakeups {
        source: WakeupSource::Bpf,
        not_bpf: None,
        elapsed_ns: Nanos(1),
        rows: vec![row(0), row(1)],
        longest: Vec::new(),
        open: Vec::new(),
        lost: 0,
        unnamed: 0,
        events_lost: 0,
    };
    let scrape = punctual_metrics::Scrape::start("127.0.0.1:0".parse().unwrap()).unwrap();
    assert_eq!(get(scrape.address, "/metrics").status, 503);
    scrape.publish(&seen, &[WakeupAxis::Cpu]);
    let place = Sandbox::new();
    let prometheus = prometheus(&place, scrape.address);
    let value = |query: &str| {
        prometheus.until(&format!("/api/v1/query?query={query}"), |answer| {
            let value = answer["data"]["result"][0]["value"][1].as_str()?;
            value.parse::<f64>().ok()
        })
    };
    let of_cpu_1 = "punctual_wakeup_latency_seconds%7Bcpu%3D%221%22%7D";
    assert_eq!(value(&format!("histogram_count({of_cpu_1})")), 1_000.0);
    let p99 = value(&format!("histogram_quantile(0.99,{of_cpu_1})"));
    // Buckets of the watch are up to 10% wide, native ones 4.4%.
    assert!((0.9..1.15).contains(&(p99 / 1.98e-3)), "{p99}");
}

#[test]
fn victoria_metrics_reads_the_classic_buckets() {
    if installed(&["victoria-metrics"]).is_none() {
        return;
    }
    let place = Sandbox::new();
    let server = place.serve();
    assert_eq!(deliver(server.address, &recording(2, "quiet")).status, 201);
    let settings = serde_json::json!({
        "global": {"scrape_interval": "300ms"},
        "scrape_configs": [{
            "job_name": "punctual",
            "static_configs": [{"targets": [server.address.to_string()]}],
        }],
    });
    let victoria = Program::configured("victoria-metrics", &place, &settings, |setup| {
        vec![
            format!("-promscrape.config={}", setup.settings),
            format!("-storageDataPath={}", setup.data),
            format!("-httpListenAddr={}", setup.address),
            "-search.latencyOffset=0s".to_owned(),
        ]
    });
    let query = "histogram_quantile(0.99,punctual_latency_seconds_bucket)";
    let p99 = victoria.until(&format!("/api/v1/query?query={query}"), |answer| {
        let value = answer["data"]["result"][0]["value"][1].as_str()?;
        value.parse::<f64>().ok()
    });
    let all = recording(2, "quiet").all_due();
    let exact = all.known().quantile(0.99).unwrap().0 as f64 / 1e9;
    // Bounds are 1, 2 and 5 in each decade.
    assert!((0.4..2.5).contains(&(p99 / exact)), "{p99} {exact}");
}
