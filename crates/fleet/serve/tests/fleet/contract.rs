//! The guarantees of the API.

use std::collections::BTreeSet;

use punctual_model::{Recording, RecordingId};

use crate::client::{get, send};
use crate::place::{Sandbox, deliver, json, put_recording, recording};

#[test]
fn delivery_is_stored_once_and_reads_back() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = recording(1, "board");
    assert_eq!(deliver(server.address, &one).status, 201);
    assert_eq!(deliver(server.address, &one).status, 200);
    let mut other = one.clone();
    other.label = Some("changed".to_owned());
    assert_eq!(deliver(server.address, &other).status, 409);

    let read = get(server.address, &format!("/v1/recordings/{}", one.id));
    assert_eq!(Recording::from_json(&read.text()).unwrap(), one);
    let list = get(server.address, "/v1/recordings").json();
    assert_eq!(list["recordings"].as_array().unwrap().len(), 1);
    assert_eq!(list["recordings"][0]["machine"], "board");
    // The other delivery is quarantined, and the API lists it.
    let aside = get(server.address, "/v1/quarantine").json();
    assert_eq!(aside.as_array().unwrap().len(), 1);
    assert_eq!(aside[0]["id"], one.id.to_string());
    let log = get(server.address, "/v1/audit").json();
    assert_eq!(log[0]["action"], "quarantine");
    // The result is the same after a restart.
    drop(server);
    let server = place.serve();
    assert_eq!(deliver(server.address, &one).status, 200);
    let machines = get(server.address, "/v1/machines").json();
    assert_eq!(machines[0]["recordings"], 1);
}

#[test]
fn non_recording_is_quarantined_with_reason() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = recording(1, "board");
    let id = one.id;
    let mut running = one.clone();
    running.completion = punctual_model::Completion::Running;
    let bodies: [(Vec<u8>, &str); 4] = [
        (b"{}".to_vec(), "missing field"),
        (b"\xff".to_vec(), "UTF-8"),
        (json(&recording(2, "board")), "ID"),
        (json(&running), "not finished"),
    ];
    for (body, why) in &bodies {
        let answer = put_recording(server.address, id, body, &[]);
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.text().contains(why), "{answer:?}");
    }
    let aside = get(server.address, "/v1/quarantine").json();
    assert_eq!(aside.as_array().unwrap().len(), bodies.len());
    // A repeated delivery takes no additional space.
    put_recording(server.address, id, &bodies[0].0, &[]);
    let aside = get(server.address, "/v1/quarantine").json();
    assert_eq!(aside.as_array().unwrap().len(), bodies.len());
    assert_eq!(deliver(server.address, &one).status, 201);
}

/// A newer machine keeps its recordings until the collector is updated.
#[test]
fn recording_of_a_newer_schema_is_left_to_its_machine() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = recording(1, "board");
    let mut newer: serde_json::Value = serde_json::from_slice(&json(&one)).unwrap();
    newer["schema"] = 999.into();
    let answer = put_recording(server.address, one.id, newer.to_string().as_bytes(), &[]);
    assert_eq!(answer.status, 501, "{answer:?}");
    let text = answer.text();
    assert!(
        text.contains("upgrade punctual-server") && text.contains("999"),
        "{text}"
    );
    let aside = get(server.address, "/v1/quarantine").json();
    assert!(aside.as_array().unwrap().is_empty(), "{aside}");
}

/// A machine that is not updated yet delivers the schemas of earlier versions.
#[test]
fn recordings_of_earlier_schemas_are_converted() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../base/model/tests/fixtures"
    );
    for schema in 1..=punctual_model::SCHEMA_VERSION {
        // All have the same ID.
        let place = Sandbox::new();
        let server = place.serve();
        let body = std::fs::read(format!("{folder}/recording-{schema}.json")).unwrap();
        let older: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(older["schema"], schema);
        let id = RecordingId(older["id"].as_str().unwrap().parse().unwrap());
        let answer = put_recording(server.address, id, &body, &[]);
        assert_eq!(answer.status, 201, "{answer:?}");
        let read = get(server.address, &format!("/v1/recordings/{id}")).json();
        assert_eq!(read["schema"], punctual_model::SCHEMA_VERSION);
        assert_eq!(
            read["threads"].as_array().map(Vec::len),
            older["threads"].as_array().map(Vec::len)
        );
    }
}

#[test]
fn list_pages_hold_each_recording_once() {
    let place = Sandbox::new();
    let server = place.serve();
    for number in 0..7 {
        let host = if number % 2 == 0 { "even" } else { "odd" };
        let answer = deliver(server.address, &recording(number, host));
        assert_eq!(answer.status, 201);
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/v1/recordings?limit=3{after}");
        let page = get(server.address, &path).json();
        for one in page["recordings"].as_array().unwrap() {
            seen.push(one["started"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
    let odd = get(server.address, "/v1/recordings?machine=odd").json();
    assert_eq!(odd["recordings"].as_array().unwrap().len(), 3);
    for bad in [
        "limit=0",
        "limit=9999",
        "limit=x",
        "after=x",
        "outcome=x",
        "x=1",
    ] {
        let answer = get(server.address, &format!("/v1/recordings?{bad}"));
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[test]
fn what_is_not_kept_is_named() {
    let place = Sandbox::new();
    let server = place.serve();
    let [one, two] = [1, 2].map(|number| recording(number, "board"));
    deliver(server.address, &one);
    let body = serde_json::json!({"ids": [one.id, two.id]}).to_string();
    let json = [("Content-Type", "application/json")];
    let answer = send(
        server.address,
        "POST",
        "/v1/lacking",
        &json,
        body.as_bytes(),
    );
    assert_eq!(answer.json(), serde_json::json!({"ids": [two.id]}));
    let answer = send(
        server.address,
        "POST",
        "/v1/lacking",
        &json,
        b"{\"ids\": [1]}",
    );
    assert_eq!(answer.status, 400);
}

/// All references in the description can be resolved, and each path responds with a documented
/// status.
#[test]
fn the_description_of_the_api_is_true() {
    fn references(value: &serde_json::Value, found: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(object) => {
                let reference = object.get("$ref").and_then(|one| one.as_str());
                found.extend(reference.map(str::to_owned));
                object.values().for_each(|inner| references(inner, found));
            }
            serde_json::Value::Array(array) => {
                array.iter().for_each(|inner| references(inner, found));
            }
            _ => {}
        }
    }
    let place = Sandbox::new();
    let server = place.serve();
    deliver(server.address, &recording(1, "board"));
    let id = recording(1, "board").id.to_string();
    let description = get(server.address, "/v1/openapi.json").json();
    assert_eq!(description["openapi"], "3.1.0");
    let mut found = BTreeSet::new();
    references(&description, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.len() >= 10, "{paths:?}");
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let path = path.replace("{id}", &id);
            let answer = send(server.address, &method.to_uppercase(), &path, &[], b"");
            let known = &operation["responses"];
            let status = answer.status.to_string();
            // An empty body is invalid for all methods with a body.
            let wrong = method != "get" && answer.status / 100 == 4;
            assert!(
                wrong || known.get(&status).is_some(),
                "{method} {path}: {answer:?}"
            );
        }
    }
}

#[test]
fn pages_answer_and_carry_a_strict_policy() {
    let place = Sandbox::new();
    let server = place.serve();
    let [one, two] = [1, 2].map(|number| recording(number, "board"));
    deliver(server.address, &one);
    deliver(server.address, &two);
    let paths = [
        "/".to_owned(),
        "/?state=held&name=b&page=9".to_owned(),
        "/machine?name=board".to_owned(),
        "/recordings".to_owned(),
        format!("/recordings/{}", one.id),
        "/compare".to_owned(),
        format!("/compare?id={}&id={}", one.id, two.id),
        "/login".to_owned(),
    ];
    for path in paths {
        let answer = get(server.address, &path);
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let page = answer.text();
        // The page contains nothing that the policy forbids, and nothing from other servers.
        for forbidden in [
            " style=",
            "<style",
            "<script>",
            "onclick",
            "src=\"http",
            "href=\"http",
        ] {
            assert!(!page.contains(forbidden), "{path}: {forbidden}");
        }
    }
    for missing in [
        "/nothing",
        "/recordings/ffffffff",
        "/machine?name=x",
        "/assets/1/x",
    ] {
        assert_eq!(get(server.address, missing).status, 404, "{missing}");
    }
    assert_eq!(get(server.address, "/machine").status, 400);
    assert_eq!(get(server.address, "/health").status, 200);
    assert_eq!(get(server.address, "/ready").status, 200);
    let style = send(
        server.address,
        "GET",
        "/assets/1/style.css",
        &[("Accept-Encoding", "gzip")],
        b"",
    );
    assert_eq!(style.header("content-encoding"), Some("gzip"));
}

#[test]
fn counters_are_the_same_after_a_restart() {
    let place = Sandbox::new();
    let count = |server: &punctual_serve::Running| {
        let text = get(server.address, "/metrics").text();
        let line = text
            .lines()
            .find(|line| line.starts_with("punctual_latency_seconds_count"));
        line.unwrap().to_owned()
    };
    let server = place.serve();
    deliver(server.address, &recording(1, "board"));
    let first = count(&server);
    deliver(server.address, &recording(2, "board"));
    let second = count(&server);
    assert_ne!(first, second);
    drop(server);
    let server = place.serve();
    assert_eq!(count(&server), second);
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
    let answer = send(
        server.address,
        "GET",
        "/metrics",
        &[("Accept", accept)],
        b"",
    );
    assert!(answer.header("content-type").unwrap().contains("delimited"));
}

/// Measurements made in the store itself are shown and counted as well.
#[test]
fn recordings_of_this_machine_need_no_delivery() {
    let place = Sandbox::new();
    let store = punctual_store::Store::open(&place.store).unwrap();
    crate::place::measured(&store, &[recording(1, "here"), recording(2, "here")]);
    let server = place.serve();
    let machines = get(server.address, "/v1/machines").json();
    assert_eq!(machines[0]["name"], "here");
    assert_eq!(machines[0]["recordings"], 2);
    let metrics = get(server.address, "/metrics").text();
    assert!(metrics.contains("punctual_recordings_total{machine=\"here\"} 2"));
    assert!(get(server.address, "/").text().contains("here"));
}
