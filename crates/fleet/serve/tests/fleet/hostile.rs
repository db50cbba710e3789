//! Tests with malicious clients.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use punctual_model::{FindingState, Severity, StoredAudit, StoredFinding};
use punctual_serve::enrol;
use punctual_store::Role;

use crate::client::{get, raw, send};
use crate::place::{Sandbox, deliver, json, put_recording, recording, sha256};

#[test]
fn oversized_bodies_are_refused_by_length() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.limits.body = 1_000);
    let one = recording(1, "board");
    let answer = deliver(server.address, &one);
    assert_eq!(answer.status, 413, "{answer:?}");
    let head = format!(
        "PUT /v1/recordings/{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Content-Encoding: zstd\r\nPunctual-SHA256: {}\r\n",
        one.id,
        server.address,
        sha256(b"")
    );
    // Without a length, the server could not check the limit.
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(raw(server.address, chunked.as_bytes()).unwrap().status, 411);
    let wrong = format!("{head}Content-Length: 99999999999999999999\r\n\r\n");
    assert_eq!(
        raw(server.address, wrong.as_bytes()).unwrap().status / 100,
        4
    );
    // Other bodies have a separate limit.
    let many = vec![b' '; 2 << 20];
    assert_eq!(
        send(server.address, "POST", "/v1/lacking", &[], &many).status,
        413
    );
}

#[test]
fn a_bomb_is_not_unpacked() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.limits.unpacked = 1 << 20);
    let bomb = vec![b' '; 64 << 20];
    let answer = put_recording(server.address, recording(1, "board").id, &bomb, &[]);
    assert_eq!(answer.status, 413, "{answer:?}");
    // The server still works.
    assert_eq!(deliver(server.address, &recording(1, "board")).status, 201);
}

#[test]
fn a_damaged_body_may_be_sent_again() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = recording(1, "board");
    let path = format!("/v1/recordings/{}", one.id);
    let body = json(&one);
    let packed = zstd::bulk::compress(&body, 3).unwrap();
    let hash = sha256(&body);
    let put = |encoding: &str, hash: &str, body: &[u8]| {
        let headers = [("Content-Encoding", encoding), ("Punctual-SHA256", hash)];
        send(server.address, "PUT", &path, &headers, body).status
    };
    assert_eq!(put("zstd", &sha256(b"x"), &packed), 400);
    assert_eq!(put("zstd", &hash, &packed[..packed.len() / 2]), 400);
    assert_eq!(put("zstd", &hash, &body), 400);
    assert_eq!(put("zstd", "x", &packed), 400);
    assert_eq!(put("gzip", &hash, &packed), 415);
    // None of these bodies was quarantined, because no client meant to deliver them.
    assert_eq!(
        get(server.address, "/v1/quarantine").json(),
        serde_json::json!([])
    );
    assert_eq!(put("zstd", &hash, &packed), 201);
}

#[test]
fn paths_lead_nowhere_else() {
    let place = Sandbox::new();
    let server = place.serve();
    for path in [
        "/assets/1/../../../../etc/passwd",
        "/assets/1/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/%2e%2e/style.css%00",
        "/recordings/..%2f..%2fcollector.db",
        "/v1/recordings/%00",
        "//etc/passwd",
        "/%ff",
    ] {
        let answer = get(server.address, path);
        assert_eq!(answer.status / 100, 4, "{path}: {answer:?}");
        assert!(!answer.text().contains("root:"), "{path}");
    }
    let path = "/v1/recordings/..%2f..%2fx";
    assert_eq!(send(server.address, "PUT", path, &[], b"").status, 400);
}

/// Returns an audit with a finding that differs between recordings.
fn hostile_audit(text: &str, more: String) -> StoredAudit {
    let finding = |state, title: String| StoredFinding {
        id: text.to_owned(),
        state,
        severity: Severity::Fatal,
        title,
        reason: Some(text.to_owned()),
    };
    StoredAudit {
        role: text.to_owned(),
        cpus: "0".parse().unwrap(),
        findings: vec![
            finding(FindingState::Fail, format!("{text}{more}")),
            finding(FindingState::Unknown, text.to_owned()),
        ],
        ok: 0,
        not_applicable: 0,
    }
}

#[test]
fn hostile_names_are_text_on_each_page() {
    const NAME: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}\u{1b}[2J";
    let place = Sandbox::new();
    let server = place.serve();
    let mut both = [recording(1, NAME), recording(2, NAME)];
    for one in &mut both {
        one.label = Some(NAME.to_owned());
        one.warnings = vec![NAME.to_owned()];
        one.host.kernel.release = punctual_model::Fact::known(NAME.to_owned(), NAME);
        one.host
            .kernel
            .options
            .insert(NAME.to_owned(), one.id.to_string());
        one.audit = Some(hostile_audit(NAME, one.id.to_string()));
        one.probe.name = NAME.to_owned();
        one.load[0].name = NAME.to_owned();
        assert_eq!(deliver(server.address, one).status, 201);
    }
    let encoded: String = NAME.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for path in [
        "/".to_owned(),
        format!("/?name={encoded}&state={encoded}"),
        format!("/machine?name={encoded}"),
        format!("/recordings?machine={encoded}"),
        format!("/recordings?probe={encoded}&outcome={encoded}"),
        format!("/recordings/{}", both[0].id),
        format!("/compare?id={}&id={}", both[0].id, both[1].id),
        format!("/compare?id={encoded}&id={encoded}"),
        format!("/login?to={encoded}"),
        format!("/{encoded}"),
    ] {
        let page = get(server.address, &path).text();
        for hostile in ["<script>", "<img", "\u{202e}", "\u{1b}"] {
            assert!(!page.contains(hostile), "{path}: {hostile:?}");
        }
    }
}

#[test]
fn who_is_too_slow_is_cut_off() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.limits.patience = Duration::from_millis(300));
    let slow = |start: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(start.as_bytes()).unwrap();
        let mut answer = String::new();
        // The loop ends when the server closes the connection.
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    slow("GET / HTTP/1.1\r\nHost: loc");
    let id = recording(1, "board").id;
    let hash = sha256(b"");
    let answer = slow(&format!(
        "PUT /v1/recordings/{id} HTTP/1.1\r\nHost: {}\r\nContent-Encoding: zstd\r\n\
         Punctual-SHA256: {hash}\r\nConnection: close\r\nContent-Length: 100\r\n\r\nabc",
        server.address
    ));
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// Connections with incomplete requests do not block others.
#[test]
fn incomplete_requests_do_not_block_others() {
    let place = Sandbox::new();
    let token = enrol(&place.collection(), "board", Role::Machine).unwrap();
    let bearer = format!("Bearer {token}");
    let server = place.serve_as(|config| {
        config.login = true;
        config.limits.connections = 24;
        config.limits.connections_by_address = 16;
    });
    let head = format!("POST /login HTTP/1.1\r\nHost: {}\r\n", server.address);
    let half = |head: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000";
    let mut held: Vec<TcpStream> = Vec::new();
    for number in 0..3_u128 {
        held.extend((0..40).map(|_| half(&format!("{head}{kind}\r\n\r\ntok"))));
        held.extend((0..40).map(|_| half(&head)));
        // During the flood, a machine delivers and a user views a page.
        let headers = [("Authorization", &*bearer)];
        let one = recording(number, "board");
        let answer = put_recording(server.address, one.id, &json(&one), &headers);
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(get(server.address, "/health").status, 200);
    }
}

/// Machines that announce large bodies but do not send them take no memory from others.
#[test]
fn announced_bodies_take_no_room() {
    let place = Sandbox::new();
    let server = place.serve();
    let id = recording(1, "board").id;
    let head = format!(
        "PUT /v1/recordings/{id} HTTP/1.1\r\nHost: {}\r\nContent-Encoding: zstd\r\n\
         Punctual-SHA256: {}\r\nContent-Length: 16000000\r\n\r\nabc",
        server.address,
        sha256(b"")
    );
    let held: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(deliver(server.address, &recording(2, "board")).status, 201);
    drop(held);
}

/// A client that sends requests but never reads is disconnected.
#[test]
fn client_that_never_reads_is_disconnected() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.limits.patience = Duration::from_millis(300));
    let mut stream = TcpStream::connect(server.address).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let before = Instant::now();
    // Send until the buffers of both sides are full and the server closes the connection.
    stream
        .set_write_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let error = loop {
        if let Err(error) = stream.write_all(request.repeat(100).as_bytes()) {
            break error;
        }
        assert!(before.elapsed() < Duration::from_secs(600), "never cut off");
    };
    let closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(closed.contains(&error.kind()), "{error}");
}

/// A form sent one byte at a time ends at its deadline.
#[test]
fn a_request_has_a_deadline() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.limits.deadline = Duration::from_millis(300));
    let mut stream = TcpStream::connect(server.address).unwrap();
    let request = format!(
        "POST /v1/lacking HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Content-Length: 100\r\n\r\n{{",
        server.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[test]
fn excess_deliveries_are_deferred() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.limits.in_flight = 1 << 10);
    let one = recording(1, "board");
    assert!(zstd::bulk::compress(&json(&one), 3).unwrap().len() > 1 << 10);
    let answer = deliver(server.address, &one);
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.header("retry-after").is_some());
}

#[test]
fn long_labels_are_quarantined_within_quota() {
    let place = Sandbox::new();
    let server = place.serve();
    for number in 0..102_u32 {
        let mut one = recording(u128::from(number) + 1, "board");
        one.label = Some("x".repeat(60_000));
        let answer = deliver(server.address, &one);
        assert_eq!(answer.status, 422, "{answer:?}");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(text.contains("the label has 60000 characters"), "{text}");
        assert_eq!(text.contains("not quarantined"), number >= 100, "{text}");
    }
    let mut one = recording(1_000, "board");
    one.label = Some("x".repeat(256));
    assert_eq!(deliver(server.address, &one).status, 201);
}
