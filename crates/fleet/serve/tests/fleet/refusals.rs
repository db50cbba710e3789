//! Tests that unreadable requests are rejected with our own texts, as a page or as JSON.

use crate::client::send;
use crate::place::{Sandbox, deliver, small};

#[test]
fn refusals_avoid_framework_wording() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = small(1, "board");
    deliver(server.address, &one);
    let outlier = format!("/recordings/{}/outliers/x", one.id);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let pages = [
        ("GET", "/?page=x", 400),
        ("GET", "/?page=1&page=2", 400),
        ("GET", "/?state=drunk", 400),
        ("GET", "/machine", 400),
        ("GET", "/trend", 400),
        ("GET", "/trend/heatmap.svg?series=a&group=x", 400),
        ("GET", "/recordings?outcome=drunk", 400),
        ("GET", "/compare?id=x", 404),
        ("GET", "/login?to=a&to=b", 400),
        ("GET", outlier.as_str(), 400),
        ("GET", "/nowhere", 404),
        ("PUT", "/", 405),
        ("POST", "/notes", 422),
        ("POST", "/changes", 422),
        ("POST", "/login", 422),
    ];
    let api = [
        ("GET", "/v1/longterm", 400),
        ("GET", "/v1/recordings?limit=x", 400),
        ("DELETE", "/v1/machines", 405),
        ("GET", "/v1/nothing", 404),
    ];
    let all = pages
        .iter()
        .map(|one| (one, "text/html"))
        .chain(api.iter().map(|one| (one, "application/json")));
    for ((method, path, status), kind) in all {
        let body: &[u8] = if *method == "GET" { b"" } else { b"a=b" };
        let answer = send(server.address, method, path, &[form], body);
        let text = answer.text();
        assert_eq!(answer.status, *status, "{method} {path}: {text}");
        let found = answer.header("content-type").unwrap_or_default();
        assert!(found.starts_with(kind), "{method} {path}: {found}");
        for word in ["deserialize", "Invalid URL", "Cannot parse value"] {
            assert!(!text.contains(word), "{method} {path}: {text}");
        }
        if kind == "application/json" {
            let why = answer.json()["error"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            assert!(why.len() > 8, "{method} {path}: {text}");
        }
    }
}

#[test]
fn a_login_offers_nothing_that_needs_one() {
    let place = Sandbox::new();
    let server = place.serve_as(|config| config.login = true);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let answers = [
        send(server.address, "GET", "/login", &[], b""),
        send(server.address, "POST", "/login", &[form], b"token=wrong"),
    ];
    for answer in answers {
        let text = answer.text();
        assert!(text.contains("Log in"), "{text}");
        for word in ["Log out", "/recordings", "Overview"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
}
