//! Access control: which clients may do what.

use punctual_serve::{PROXY_SECRET, SignOn, enrol};
use punctual_store::{Collection, Role};

use crate::client::{get, raw, send};
use crate::place::{Sandbox, json, put_recording, recording};

#[test]
fn each_role_has_its_permissions() {
    let place = Sandbox::new();
    let collection = place.collection();
    let token = |name: &str, role| {
        let token = enrol(&collection, name, role).unwrap();
        format!("Bearer {token}")
    };
    let [machine, viewer, admin] = [
        token("board-1", Role::Machine),
        token("eve", Role::Viewer),
        token("root", Role::Admin),
    ];
    let server = place.serve_as(|config| config.login = true);
    let status = |path: &str, token: &str| {
        let headers = [("Authorization", token)];
        send(server.address, "GET", path, &headers, b"").status
    };
    for (path, allowed) in [
        ("/v1/recordings", [403, 200, 200]),
        ("/v1/audit", [403, 403, 200]),
        ("/metrics", [403, 200, 200]),
    ] {
        let found = [&machine, &viewer, &admin].map(|token| status(path, token));
        assert_eq!(found, allowed, "{path}");
        assert_eq!(status(path, "Bearer wrong"), 401);
    }
    assert_eq!(get(server.address, "/v1/recordings").status, 401);
    assert_eq!(get(server.address, "/health").status, 200);

    // The name comes from the token, not from the recording.
    let one = recording(1, "somebody-else");
    let deliver = |token: &str| {
        let headers = [("Authorization", token)];
        put_recording(server.address, one.id, &json(&one), &headers).status
    };
    assert_eq!(
        [&viewer, &admin, &machine].map(|token| deliver(token)),
        [403, 403, 201]
    );
    let machines = collection.machines().unwrap();
    assert_eq!(machines.len(), 1);
    assert_eq!(machines[0].name, "board-1");
    // The tokens themselves are not stored.
    assert!(
        collection
            .tokens()
            .unwrap()
            .iter()
            .all(|one| !machine.contains(&one.sha256))
    );
    // A revoked token gives no access.
    assert!(collection.remove_token("board-1").unwrap());
    assert_eq!(deliver(&machine), 401);
    let log = collection.audit(10).unwrap();
    assert!(
        log.iter().filter(|line| line.action == "enrol").count() == 3,
        "{log:?}"
    );
}

#[test]
fn enrolled_machine_without_recordings_is_shown() {
    let place = Sandbox::new();
    enrol(&place.collection(), "board-9", Role::Machine).unwrap();
    assert!(enrol(&place.collection(), "board-9", Role::Viewer).is_err());
    let server = place.serve();
    let machines = get(server.address, "/v1/machines").json();
    assert_eq!(machines[0]["state"], "never-measured");
}

#[test]
fn guesses_are_limited() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.login = true);
    let guess = || {
        let headers = [("Authorization", "Bearer punctual_00")];
        send(server.address, "GET", "/v1/machines", &headers, b"")
    };
    let statuses: Vec<u16> = (0..12).map(|_| guess().status).collect();
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    assert!(guess().header("retry-after").is_some());
    // Guesses from the same address do not lock out a client with a valid token.
    let token = enrol(&place.collection(), "eve", Role::Viewer).unwrap();
    let headers = [("Authorization", format!("Bearer {token}"))];
    let headers = headers
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let found = send(server.address, "GET", "/v1/machines", &headers, b"");
    assert_eq!(found.status, 200, "{found:?}");
}

#[test]
fn proxied_guesses_count_against_the_client() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| {
        config.login = true;
        config.proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    let status = |client: &str, number: usize| {
        // The tokens begin differently, so the guesses have only the address in common.
        let token = format!("Bearer punctual_{number:08}");
        let headers = [("Authorization", &*token), ("X-Forwarded-For", client)];
        send(server.address, "GET", "/v1/machines", &headers, b"").status
    };
    let statuses: Vec<u16> = (0..11)
        .map(|n| status("192.0.2.1", n * 1_000_000))
        .collect();
    assert_eq!((statuses[0], statuses[10]), (401, 429));
    assert_eq!(status("192.0.2.2", 11_000_000), 401);
}

/// Another user of this machine reaches the server in the same way as the proxy.
#[test]
fn proxy_secret_is_required_to_name_user() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| {
        config.proxies = vec!["127.0.0.1".parse().unwrap()];
        config.sign_on = Some(SignOn {
            header: "x-forwarded-user".to_owned(),
            secret: "correct-horse-battery".to_owned(),
            admins: vec!["root".to_owned()],
        });
    });
    let ask =
        |headers: &[(&str, &str)]| send(server.address, "GET", "/v1/audit", headers, b"").status;
    let user = ("X-Forwarded-User", "root");
    assert_eq!(ask(&[user]), 403);
    assert_eq!(ask(&[user, (PROXY_SECRET, "guess")]), 403);
    assert_eq!(ask(&[user, (PROXY_SECRET, "correct-horse-battery")]), 200);
}

#[test]
fn a_browser_logs_in_and_out() {
    let place = Sandbox::new();
    let token = enrol(&place.collection(), "eve", Role::Viewer).unwrap();
    let server = place.serve_as(|config| config.login = true);
    let asked = get(server.address, "/machine?name=a");
    assert_eq!(asked.status, 303);
    assert_eq!(
        asked.header("location"),
        Some("/login?to=%2Fmachine%3Fname%3Da")
    );
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let login = |body: &str| send(server.address, "POST", "/login", &form, body.as_bytes());
    assert_eq!(login("token=wrong").status, 401);
    let answer = login(&format!("token={token}&to=%2F%2Fevil.example"));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(
        send(server.address, "GET", "/", &[("Cookie", pair)], b"").status,
        200
    );
    // A page of another site cannot change anything.
    let foreign = [form[0], ("Origin", "http://evil.example"), ("Cookie", pair)];
    assert_eq!(
        send(server.address, "POST", "/logout", &foreign, b"").status,
        403
    );
}

/// A foreign page whose name resolves to this machine (DNS rebinding) cannot read anything.
#[test]
fn only_local_name_is_answered_without_login() {
    let place = Sandbox::new();
    let server = place.serve();
    let ask = |host: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        raw(server.address, request.as_bytes()).unwrap().status
    };
    assert_eq!(ask("localhost"), 200);
    assert_eq!(ask("evil.example"), 403);
}

#[test]
fn plain_http_is_refused_outside_of_loopback() {
    let config = punctual_serve::Config::new("0.0.0.0:0".parse().unwrap());
    let refused = punctual_serve::start(config, std::sync::Arc::new(Sandbox::new().collection()));
    assert!(refused.unwrap_err().to_string().contains("--tls"));
}

#[test]
fn renamed_machine_keeps_token_and_history() {
    let place = Sandbox::new();
    let (collection, server) = (
        place.collection(),
        place.serve_as(|config| config.login = true),
    );
    let token = punctual_serve::enrol(&collection, "board-1", Role::Machine).unwrap();
    let admin = punctual_serve::enrol(&collection, "root", Role::Admin).unwrap();
    let put = |number, host: &str, secret: &str| {
        let one = recording(number, host);
        let bearer = format!("Bearer {secret}");
        let headers = [("Authorization", bearer.as_str())];
        put_recording(server.address, one.id, &json(&one), &headers)
    };
    put(1, "host", &token);
    punctual_serve::rename(&collection, "board-1", "press-3").unwrap();
    put(2, "host", &token);
    let bearer = format!("Bearer {admin}");
    let headers = [("Authorization", bearer.as_str())];
    let shown = |path: &str| send(server.address, "GET", path, &headers, b"").text();
    for path in ["/", "/metrics", "/v1/recordings", "/v1/machines"] {
        let text = shown(path);
        assert!(text.contains("press-3"), "{path}: {text}");
        assert!(!text.contains("board-1"), "{path}: {text}");
    }
    assert!(shown("/v1/audit").contains("board-1 to press-3"));
}

/// Without tokens, the recording names its machine.
#[test]
fn push_that_names_the_old_host_reaches_renamed_machine() {
    let place = Sandbox::new();
    let (collection, server) = (place.collection(), place.serve());
    for number in 1..3 {
        let one = recording(number, "board-1");
        put_recording(server.address, one.id, &json(&one), &[]);
        if number == 1 {
            punctual_serve::rename(&collection, "board-1", "press-3").unwrap();
        }
    }
    let machines = get(server.address, "/v1/machines").json();
    assert_eq!(machines.as_array().unwrap().len(), 1, "{machines}");
    assert_eq!(machines[0]["name"], "press-3");
    assert_eq!(machines[0]["recordings"], 2);
}

#[test]
fn retired_machine_is_left_out_but_kept() {
    let place = Sandbox::new();
    let collection = place.collection();
    let server = place.serve();
    for (number, host) in [(1, "board-1"), (2, "board-2")] {
        let one = recording(number, host);
        put_recording(server.address, one.id, &json(&one), &[]);
    }
    let shown = |path: &str| get(server.address, path).text();
    collection
        .set_retired("board-2", Some(jiff::Timestamp::now()))
        .unwrap();
    for path in ["/", "/metrics"] {
        let text = shown(path);
        assert!(text.contains("board-1"), "{path}: {text}");
        assert!(!text.contains("board-2"), "{path}: {text}");
    }
    assert!(shown("/").contains("<b>1</b> all"), "{}", shown("/"));
    let retired = shown("/?state=retired");
    assert!(retired.contains("board-2") && !retired.contains("board-1"));
    let page = shown("/machine?name=board-2");
    assert!(
        page.contains("punctual-server retire --undo board-2"),
        "{page}"
    );
    assert!(shown("/recordings").contains("board-2"));
    let machines = get(server.address, "/v1/machines").json();
    assert_eq!(machines[1]["state"], "retired");
    collection.set_retired("board-2", None).unwrap();
    assert!(shown("/").contains("board-2") && shown("/metrics").contains("board-2"));
}
