//! A collector from its first start: an empty page, tokens for many machines, a check of the
//! connection, and its service.

use std::path::Path;
use std::process::Command;

use crate::place::{Sandbox, Server, answered, text};

#[test]
fn machines_are_enrolled_together_or_not_at_all() {
    let place = Sandbox::new();
    let names = place.path("names");
    let enrolled = || {
        let listed = place.done("tokens");
        listed
            .lines()
            .map(|line| line.split(' ').next_back().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    place.done("enrol board-2");
    for (list, reason) in [
        (
            "board-1\n\n# a comment\nboard 3\n",
            "names:4: 'board 3' is not a valid machine name",
        ),
        (
            "board-1\nboard-3\nboard-1\n",
            "names:3: 'board-1' is listed twice",
        ),
        (
            "board-1\n  board-2 \n",
            "names:2: 'board-2' already has a token",
        ),
    ] {
        std::fs::write(&names, list).unwrap();
        let output = place.server("enrol --file names").output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{stderr}");
        assert!(stderr.contains("no token was created"), "{stderr}");
        assert!(output.stdout.is_empty());
        assert_eq!(enrolled(), ["board-2"]);
    }
    std::fs::write(&names, "board-1\r\n# two\nboard-3").unwrap();
    let told = place.done("enrol --file names");
    let told: Vec<(&str, &str)> = told
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    assert!(
        matches!(told[..], [("board-1", a), ("board-3", b)] if a != b),
        "{told:?}"
    );
    assert_eq!(enrolled().len(), 3);
}

#[test]
fn push_check_sends_nothing() {
    let (machine, collector) = (Sandbox::new(), Sandbox::new());
    let token = collector.done("enrol board-17");
    let server = Server::start(collector.server("run --listen 127.0.0.1:0 --login"));
    machine.measured("measure timer -q --policy other --dma-latency off -D 200ms");
    let url = server.url.clone();
    let check = |token: &str| {
        let mut command = machine.machine(&format!("push --check --to {url}"));
        let output = command.env("PUNCTUAL_TOKEN", token).output().unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (status, out, said) = check(token.trim());
    assert_eq!(
        (status, out),
        (Some(0), format!("{url} accepts this machine\n")),
        "{said}"
    );
    for wrong in ["punctual_00", ""] {
        let (status, out, said) = check(wrong);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{said}");
        assert!(said.contains("the collector refuses this token"), "{said}");
    }
    server.end();
    assert_eq!(collector.measured("list --json").trim(), "[]");
    let (status, _, said) = check(token.trim());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("cannot reach"), "{said}");
}

#[test]
fn empty_collector_says_how_to_fill_it() {
    let place = Sandbox::new();
    let server = Server::start(place.server("run --listen 127.0.0.1:0"));
    let page = text(&answered(server.address(), "GET / HTTP/1.1"));
    assert!(page.contains("The store is empty"), "{page}");
    assert!(page.contains("punctual measure timer"), "{page}");
    server.end();
    let token = place.done("enrol eve --role viewer");
    let server = Server::start(place.server("run --listen 127.0.0.1:0 --login"));
    let head = format!("GET / HTTP/1.1\r\nAuthorization: Bearer {}", token.trim());
    let page = text(&answered(server.address(), &head));
    assert!(page.contains("punctual-server enrol NAME"), "{page}");
    server.end();
}

#[test]
fn service_of_the_collector_is_valid() {
    let place = Sandbox::new();
    let unit = place.done("install --listen [::1]:8090 --silent-after 90m");
    let line = unit
        .lines()
        .find(|line| line.starts_with("ExecStart="))
        .unwrap();
    for part in [
        "\"run\" \"--listen\" \"[::1]:8090\"",
        "\"--store\"",
        "\"--silent-after\" \"5400s\"",
    ] {
        assert!(line.contains(part), "{line}");
    }
    place.refused("install --listen 0.0.0.0:8090", 1);
    let missing = place.refused("install --listen 0.0.0.0:8090 --tls no.pem no.key", 1);
    assert!(missing.contains("no.pem"), "{missing}");
    std::fs::write(place.path("c.pem"), "").unwrap();
    let data = Path::new("/var/lib/punctual-server");
    let existed = data.exists();
    let own = place.done("install --store /var/lib/punctual-server/store.db --tls c.pem c.pem");
    assert!(own.contains("DynamicUser=yes") && !unit.contains("DynamicUser"));
    assert_eq!(data.exists(), existed);
    for unit in [unit, own] {
        assert_valid(&place, &unit);
    }
}

/// Checks a unit file with systemd, if it is installed.
fn assert_valid(place: &Sandbox, unit: &str) {
    let file = place.path("punctual-server.service");
    std::fs::write(&file, unit).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output();
    match verified {
        Ok(output) => {
            let said = text(&output.stderr);
            let about = said
                .lines()
                .filter(|line| line.contains("punctual-server.service"));
            // The manual page is not installed here.
            let faults: Vec<&str> = about
                .filter(|line| !line.contains("man:punctual"))
                .collect();
            assert!(faults.iter().all(|line| line.contains("man ")), "{said}");
        }
        Err(error) => punctual_testing::skip!(Program, "systemd-analyze: {error}"),
    }
}
