//! The bundle of a recording, as the server sends it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use punctual_model::Recording;

use crate::place::{Sandbox, Server, answered, text};

/// Returns the files of a bundle by name. The names do not include the folder.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let packed = std::fs::File::open(path).unwrap();
    let mut archive = tar::Archive::new(zstd::Decoder::new(packed).unwrap());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let (folder, name) = name.split_once('/').unwrap();
        assert!(folder.starts_with("punctual-"), "{folder}");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (name.to_owned(), content)
    });
    entries.collect()
}

#[test]
fn server_sends_bundle_of_kept_recordings() {
    let place = Sandbox::new();
    place.measured("measure timer -i 1ms -D 300ms --warm-up 0 --samples -q --policy other");
    let recording = place.last();
    let server = Server::start(place.server("run --listen 127.0.0.1:0"));
    let head = format!("GET /recordings/{}/bundle HTTP/1.1", recording.id);
    let answer = answered(server.address(), &head);
    server.end();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        text(&answer[..end])
    );
    std::fs::write(place.path("served.tar.zst"), &answer[end + 4..]).unwrap();
    let files = files(&place.path("served.tar.zst"));
    let json = Recording::from_json(&text(&files["recording.json"])).unwrap();
    assert_eq!(json, recording);
    // The bundle does not contain facts about the collector's machine, because the recording may be
    // from another machine.
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["CONTENTS.txt", "host.json", "recording.json", "store.db"]
    );
    std::fs::write(place.path("copy.db"), &files["store.db"]).unwrap();
    let copy = place.path("copy.db");
    let samples = place.measured(&format!("--store {} export last -f csv", copy.display()));
    assert_eq!(samples, place.measured("export last -f csv"));
}
