//! Tests that, with dictionaries, the common parts of a machine's recordings are sent only once.

use std::time::Duration;

use punctual_model::{FindingState, Recording, Severity, StoredAudit, StoredFinding};
use punctual_store::{Collection, Store, TextStore, text_hash};

use crate::client::send;
use crate::faults::deliver;
use crate::place::{Sandbox, all_are_kept, json, measured, put_recording, sha256, small};

/// Returns a recording with an audit.
fn audited(number: u128) -> Recording {
    let mut one = small(number, "board");
    let finding = |number: usize| StoredFinding {
        id: format!("check-{number}"),
        state: FindingState::Warn,
        severity: Severity::High,
        title: format!("setting {number} is {number}"),
        reason: None,
    };
    one.audit = Some(StoredAudit {
        role: "control".to_owned(),
        cpus: "0".parse().unwrap(),
        findings: (0..40).map(finding).collect(),
        ok: 3,
        not_applicable: 1,
    });
    one
}

#[test]
fn lost_dictionary_is_resent_to_collector() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all: Vec<Recording> = (0..4).map(audited).collect();
    let server = place.serve();
    let deliver = || deliver(server.address, &machine, Duration::ZERO).unwrap().0;
    // Removes the dictionaries, and returns their number.
    let lost = || {
        let connection = rusqlite::Connection::open(&place.store).unwrap();
        let sql = "DELETE FROM facts WHERE hash NOT IN
                   (SELECT facts FROM recording UNION SELECT audit FROM recording)";
        connection.execute(sql, []).unwrap()
    };
    measured(&machine, &all[..2]);
    deliver();
    assert_eq!(lost(), 1);
    measured(&machine, &all[2..]);
    let done = deliver();
    assert_eq!((done.due, done.delivered, done.refused), (0, 4, 0));
    assert_eq!(lost(), 1);
    all_are_kept(&place.collection(), &all);
}

#[test]
fn dictionary_not_matching_name_is_refused() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = audited(1);
    let text = "{\"host\":1}";
    let to = |hash: &str, body: &[u8]| {
        let headers = [("Content-Encoding", "zstd")];
        let path = format!("/v1/dictionaries/{hash}");
        send(server.address, "PUT", &path, &headers, body).status
    };
    let packed = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
    let hash = text_hash(text);
    assert_eq!(to(&hash, &packed(b"another")), 400);
    assert_eq!(to(&hash, text.as_bytes()), 400);
    assert_eq!(to(&hash, &packed(b"\xff")), 400);
    assert_eq!(to("%2E%2E%2Fetc", &packed(text.as_bytes())), 400);
    assert_eq!(place.collection().text(&hash).unwrap(), None);
    let named = [("Punctual-Dictionary", hash.as_str())];
    let early = put_recording(server.address, one.id, &json(&one), &named);
    assert_eq!(early.status, 424, "{early:?}");
    assert_eq!(to(&hash, &packed(text.as_bytes())), 200);
    let collection = place.collection();
    assert_eq!(collection.text(&hash).unwrap().as_deref(), Some(text));
    // The body is compressed with the dictionary. It is sent first with a wrong name in the header,
    // then with the right one.
    let body = json(&one);
    let mut compressor = zstd::bulk::Compressor::with_dictionary(3, text.as_bytes()).unwrap();
    let packed = compressor.compress(&body).unwrap();
    let sha256 = sha256(&body);
    let path = format!("/v1/recordings/{}", one.id);
    let mut headers = vec![("Content-Encoding", "zstd"), ("Punctual-SHA256", &*sha256)];
    let put = |headers: &[(&str, &str)]| {
        let answer = send(server.address, "PUT", &path, headers, &packed);
        answer.status
    };
    headers.push(("Punctual-Dictionary", "00112233445566778899aabbccddeeff"));
    assert_eq!(put(&headers), 424);
    headers.pop();
    headers.push(named[0]);
    assert_eq!(put(&headers), 201);
    assert!(collection.quarantined(9).unwrap().is_empty());
    all_are_kept(&collection, [&one]);
}
