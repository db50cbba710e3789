//! Stores that the server must not change: of a newer program, in use by a service, or missing.

use std::path::Path;
use std::process::Stdio;

use punctual_testing::Running;
use serde_json::Value;

use crate::place::{Sandbox, Server, answered, eventually, signal, text};

/// Returns the content of each file in the folder of a store. SQLite creates empty companion files to
/// read a store.
fn files(place: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(place.path(".")).unwrap().flatten();
    let is_kept = |path: &Path| {
        let name = path.display().to_string();
        path.is_file() && !name.ends_with("-wal") && !name.ends_with("-shm")
    };
    let entries = entries.filter(|entry| is_kept(&entry.path()));
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Command lines that need a store.
const LINES: [&str; 10] = [
    "run --listen 127.0.0.1:0",
    "enrol board-17",
    "revoke board-17",
    "moved board-17",
    "tokens",
    "retire board-17",
    "rename board-17 board-18",
    "upgrade",
    "export --to file:///nowhere",
    "copy store.db postgres://nobody@127.0.0.1:1/none",
];

#[test]
fn store_of_earlier_version_is_converted_by_itself() {
    let packed = include_bytes!("../../../../data/store/tests/fixtures/schema-13.db.zst");
    let place = Sandbox::new();
    std::fs::write(
        place.path("store.db"),
        zstd::decode_all(&packed[..]).unwrap(),
    )
    .unwrap();
    let tried = place.done("upgrade --dry-run");
    assert!(tried.contains("can be converted from schema 13"), "{tried}");
    // Nobody runs a command after the package of a service was updated.
    place.done("enrol board-17");
    assert!(place.path("store.db.schema-13").exists());
    let done = place.done("upgrade");
    assert!(done.contains("needs no conversion"), "{done}");
    assert!(place.done("tokens").contains("board-17"));
}

#[test]
fn machine_is_retired_and_back_in_service() {
    let place = Sandbox::new();
    place.done("enrol board-17");
    let unknown = place.refused("retire board-18", 2);
    assert!(unknown.contains("no machine 'board-18'"), "{unknown}");
    let said = |line: &str| {
        let output = place.server(line).output().unwrap();
        assert!(output.status.success());
        text(&output.stderr)
    };
    assert!(said("retire board-17").contains("is retired"));
    assert!(said("retire board-17").contains("is retired since 20"));
    assert!(said("retire board-17 --undo").contains("in service again"));
    assert!(said("retire board-17 --undo").contains("is in service"));
}

#[test]
fn machine_is_renamed_or_the_reason_is_shown() {
    let place = Sandbox::new();
    for name in ["board-17", "board-18"] {
        place.done(&format!("enrol {name}"));
    }
    let unknown = place.refused("rename board-19 other", 2);
    assert!(unknown.contains("no machine 'board-19'"), "{unknown}");
    let taken = place.refused("rename board-17 board-18", 2);
    assert!(taken.contains("'board-18' already exists"), "{taken}");
    let same = place.refused("rename board-17 board-17", 2);
    assert!(same.contains("already exists"), "{same}");
    let bad = place.refused("rename board-17 ../x", 2);
    assert!(bad.contains("not a valid machine name"), "{bad}");
    let said = |line: &str| {
        let output = place.server(line).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(said("rename board-17 press-3").contains("'board-17' is now named 'press-3'"));
    let tokens = place.done("tokens");
    assert!(tokens.contains("press-3") && !tokens.contains("board-17"));
    let again = place.refused("rename board-17 press-4", 2);
    assert!(again.contains("is now named 'press-3'"), "{again}");
    said("rename press-3 board-17");
    // A new machine may have the earlier name.
    place.done("enrol press-3");
    assert!(place.done("tokens").contains("press-3"));
}

#[test]
fn store_of_newer_program_is_refused_unchanged() {
    let place = Sandbox::new();
    place.done("enrol board-17");
    let connection = rusqlite::Connection::open(place.path("store.db")).unwrap();
    connection
        .pragma_update(None, "user_version", 9_999)
        .unwrap();
    connection.close().unwrap();
    let before = files(&place);
    for line in LINES {
        let told = place.refused(line, 1);
        assert!(
            told.contains("store.db") && told.contains("newer"),
            "{line}: {told}"
        );
        assert!(told.starts_with("punctual-server: "), "{line}: {told}");
        assert_eq!(files(&place), before, "{line}");
    }
}

#[test]
fn missing_store_is_not_created_to_read_it() {
    let place = Sandbox::new();
    for line in &LINES[2..] {
        let told = place.refused(line, 1);
        assert!(told.contains("store.db"), "{line}: {told}");
        assert_eq!(files(&place), [], "{line}");
    }
    // Nor by a server that cannot start.
    let told = place.refused("run --listen 0.0.0.0:0", 1);
    assert!(told.contains("use --tls"), "{told}");
    assert_eq!(files(&place), []);
    for line in LINES {
        let line = format!("--store none {line}");
        let is_copy = line.contains("copy");
        let told = place.refused(&line, 1);
        assert!(
            told.contains("the store is 'none'") || is_copy,
            "{line}: {told}"
        );
        assert_eq!(files(&place), [], "{line}");
    }
}

#[test]
fn store_of_running_service_is_shown_unchanged() {
    let place = Sandbox::new();
    let plan = "[[series]]\nname = \"short\"\nprobe = \"timer\"\nparameters = { interval = \"1ms\" }\n\
        duration = \"3s\"\nevery = \"4s\"\n";
    std::fs::write(place.path("plan.toml"), plan).unwrap();
    let mut service = place.machine("monitor run --plan plan.toml");
    let mut service = Running(service.stderr(Stdio::null()).spawn().unwrap());
    let completions = || -> Vec<String> {
        let listed = place.machine("list --json").output().unwrap().stdout;
        let all: Vec<Value> = serde_json::from_slice(&listed).unwrap_or_default();
        let text = |one: &Value| one["completion"].as_str().unwrap_or_default().to_owned();
        all.iter().map(text).collect()
    };
    let is_running = || completions().iter().any(|one| one == "running");
    assert!(eventually(is_running), "the service does not measure");
    let server = Server::start(place.server("run --listen 127.0.0.1:0"));
    let page = text(&answered(server.address(), "GET / HTTP/1.1"));
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    place.done("enrol board-17");
    assert!(place.done("tokens").contains("board-17"));
    let before = completions().len();
    assert!(
        eventually(|| completions().len() > before + 1),
        "the service no longer measures"
    );
    server.end();
    let all = completions();
    let is_sound = |one: &String| matches!(one.as_str(), "running" | "finished");
    assert!(all.iter().all(is_sound), "{all:?}");
    signal(&service.0, "TERM");
    assert!(service.0.wait().unwrap().success());
}
