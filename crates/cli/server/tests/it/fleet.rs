//! Tests of a fleet whose store is in PostgreSQL, and of a machine whose service pushes recordings.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Stdio;

use crate::place::{Sandbox, Server, answered, eventually, signal, text};
use punctual_testing::postgres::Cluster;
use serde_json::Value;

#[test]
fn fleet_database_is_served_and_copied() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return punctual_testing::skip!(Program, "a fleet in PostgreSQL: {why}"),
    };
    let (_, database) = cluster.database().unwrap();
    let place = Sandbox::new();
    place.measured("measure timer -q --policy other --dma-latency off -D 200ms --max-latency 100s");
    let mut serve = place.server("run --listen 127.0.0.1:0 --store");
    serve.arg(&database);
    let server = Server::start(serve);
    place.measured(&format!("push --to {}", server.url));
    let rest = server.end();
    // A database client panics if it is dropped inside a task.
    assert!(!rest.contains("panicked"), "{rest}");
    let copied = |from: &str, to: &str| -> Value {
        let output = place.server("copy --json").args([from, to]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let file = place.path("fleet.db").display().to_string();
    assert_eq!(copied(&database, &file)["recordings"], 1);
    let back = copied(&file, &database);
    assert_eq!(
        (&back["recordings"], &back["known"]),
        (&0.into(), &1.into())
    );
    // A statement about the recording is the same after the delivery, in the database and in the copy.
    let digest = |options: &str| {
        place.measured(&format!("sign last -o statement.json {options}"));
        let verified = place.measured("verify statement.json --json");
        let verified: Value = serde_json::from_str(&verified).unwrap();
        let integrity = verified["integrity"].as_array().unwrap();
        let digest = integrity.iter().find(|check| check["what"] == "digest");
        digest.unwrap()["found"].to_string()
    };
    assert_eq!(digest(""), digest(&format!("--store {file}")));
}

/// Returns the finished recordings of a series, by their IDs.
fn finished(place: &Sandbox) -> BTreeMap<String, Value> {
    let output = place
        .machine("list --json --series short")
        .output()
        .unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let id = |one: Value| (one["id"].as_str().unwrap().to_owned(), one);
    all.into_iter()
        .filter(|one| one["completion"] != "running")
        .map(id)
        .collect()
}

/// With `[push]` in the plan, recordings, slots, windows and notes arrive while the service is
/// measuring, even if the collector is unavailable at times.
#[test]
fn a_service_delivers_what_it_records() {
    let (machine, collector) = (Sandbox::new(), Sandbox::new());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let address = free.unwrap().to_string();
    let serve = || Server::start(collector.server(&format!("run --listen {address}")));
    let plan = machine.path("plan.toml");
    let text_of_plan = format!(
        "[[series]]\nname = \"short\"\nprobe = \"timer\"\nparameters = {{ interval = \"1ms\" }}\n\
         duration = \"1s\"\nevery = \"2s\"\n[watch]\nwindow = \"2s\"\n\
         [push]\nto = \"http://{address}\"\nevery = \"1s\"\n"
    );
    std::fs::write(&plan, text_of_plan).unwrap();
    // At first, there is no collector.
    let mut service = machine.machine(&format!("monitor run --plan {}", plan.display()));
    let service = service.stderr(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| !finished(&machine).is_empty()));
    let server = serve();
    assert!(eventually(|| !finished(&collector).is_empty()));
    let first = finished(&collector).into_keys().next().unwrap();
    let mut note = machine.machine("trend note add");
    let noted = note.args([&first, "new fan"]).output().unwrap();
    assert!(noted.status.success(), "{}", text(&noted.stderr));
    let arrived = || {
        collector
            .measured("trend note list --json")
            .contains("new fan")
    };
    assert!(eventually(arrived), "the note does not arrive");
    server.end();
    // While the collector is down, new recordings become due.
    let before = finished(&collector).len();
    assert!(eventually(|| finished(&machine).len() > before + 1));
    let server = serve();
    assert!(eventually(|| finished(&collector).len() > before + 1));
    // The service ends immediately, even if recordings are still due. A separate `push` sends the
    // rest.
    signal(&service, "TERM");
    let output = service.wait_with_output().unwrap();
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(log.contains("trying again"), "{log}");
    machine.measured(&format!("push --to http://{address}"));
    server.end();
    let (sent, kept) = (finished(&machine), finished(&collector));
    assert_eq!(
        sent.keys().collect::<Vec<_>>(),
        kept.keys().collect::<Vec<_>>()
    );
    let stats = |place: &Sandbox| -> Value {
        serde_json::from_str(&place.measured("store stats --json")).unwrap()
    };
    let (of_machine, of_collector) = (stats(&machine), stats(&collector));
    for what in ["recordings", "runs", "slots", "windows"] {
        assert_eq!(of_machine[what], of_collector[what], "{what}: {log}");
    }
    if of_machine["windows"] == 0 {
        // The log also states that the collector could not be reached at first.
        let refusal = log.lines().find(|line| line.contains("watch: "));
        punctual_testing::skip_refused("windows of wake-ups", refusal.unwrap_or(&log));
    }
}

/// Returns the first line of a server's answer.
fn asked(address: &str, head: &str) -> String {
    let answer = text(&answered(address, head));
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn server_shows_late_reactions_of_imported_trace() {
    let place = Sandbox::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = folder.join("../punctual/tests/fixtures/traces/above.trace-cmd.txt.xz");
    place.measured(&format!("import {}", file.display()));
    let recording = place.last();
    let explanation = recording.explanation.unwrap();
    let largest = explanation
        .outliers
        .iter()
        .max_by_key(|outlier| outlier.latency_ns);
    let largest = largest.unwrap();
    let server = Server::start(place.server("run --listen 127.0.0.1:0"));
    let get = |path: &str| text(&answered(server.address(), &format!("GET {path} HTTP/1.1")));
    let path = format!("/recordings/{}", recording.id);
    let outlier = format!("{path}/outliers/{}", largest.number);
    let page = get(&path);
    assert!(page.contains(&outlier), "{page}");
    assert!(page.contains("higher priority: hog"), "{page}");
    let page = get(&outlier);
    assert!(
        page.contains("<svg") && page.contains(&largest.blame.sentence()),
        "{page}"
    );
    server.end();
}

#[test]
fn refusal_is_logged_once_with_address() {
    let place = Sandbox::new();
    let server = Server::start(place.server("run --listen 127.0.0.1:0"));
    let path = "PUT /v1/recordings/0190163d-8694-739b-aea5-966c26f8ad91 HTTP/1.1";
    let hash = format!("Punctual-SHA256: {}", "0".repeat(64));
    let packed = format!("{path}\r\n{hash}\r\nContent-Encoding: zstd");
    let refused = [
        ("400", "GET /?page=x HTTP/1.1".to_owned()),
        (
            "403",
            "POST /notes HTTP/1.1\r\nSec-Fetch-Site: cross-site".to_owned(),
        ),
        ("411", packed.clone()),
        ("413", format!("{packed}\r\nContent-Length: 99999999999")),
        ("415", format!("{path}\r\n{hash}\r\nContent-Length: 0")),
    ];
    for (status, head) in &refused {
        for _ in 0..3 {
            let answer = asked(server.address(), head);
            assert!(answer.contains(status), "{head}: {answer}");
        }
    }
    // Successful requests are not logged.
    assert!(asked(server.address(), "GET / HTTP/1.1").contains("200"));
    let log = server.end();
    for (status, _) in refused {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(status)).collect();
        assert_eq!(lines.len(), 1, "{status}: {log}");
        assert!(lines[0].contains("refused 127.0.0.1: "), "{log}");
    }
    assert_eq!(log.matches("refused ").count(), 5, "{log}");
}
