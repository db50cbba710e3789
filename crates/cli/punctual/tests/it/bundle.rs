//! `bundle`: packs a recording and everything needed to ask for help into one file.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::common::server::Server;
use crate::common::{Sandbox, text};
use punctual_model::Recording;

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
fn bundle_holds_recording_and_machine() {
    let place = Sandbox::new();
    place.done("measure timer -i 1ms -D 300ms --warm-up 0 --samples -q --policy other");
    let recording = place.last();
    place.done("store bundle last -o b.tar.zst");
    let files = files(&place.path("b.tar.zst"));
    let json = Recording::from_json(&text(&files["recording.json"])).unwrap();
    assert_eq!(json, recording);
    assert!(!files["machine/cmdline.txt"].is_empty());
    let contents = text(&files["CONTENTS.txt"]);
    assert!(contents.contains("trace.dat: missing"), "{contents}");
    for name in [
        "store.db",
        "machine/interrupts.txt",
        "machine/kernel-config.txt",
        "machine/dmesg.txt",
    ] {
        assert!(
            contents.contains(&format!("{name}: ")),
            "{name}: {contents}"
        );
    }
    // The store in the bundle must be valid and contain the samples.
    std::fs::write(place.path("copy.db"), &files["store.db"]).unwrap();
    let copy = place.path("copy.db");
    let shown = place.done(&format!("--store {} show last --json", copy.display()));
    assert_eq!(Recording::from_json(&shown).unwrap(), recording);
    let samples = |store: &str| place.done(&format!("{store} export last -f csv"));
    assert_eq!(samples(&format!("--store {}", copy.display())), samples(""));
}

#[test]
fn bundle_can_omit_the_machine() {
    let place = Sandbox::new();
    place.done("measure timer -i 1ms -D 100ms --warm-up 0 -q --policy other");
    place.done("store bundle last --without-machine");
    let id = place.last().id.short();
    let files = files(&place.path(&format!("punctual-{id}.tar.zst")));
    assert!(
        files.keys().all(|name| !name.starts_with("machine/")),
        "{:?}",
        files.keys()
    );
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let place = Sandbox::new();
    place.refused("store bundle last", 1);
    place.done("measure timer -i 1ms -D 100ms --warm-up 0 -q --policy other");
    let told = place.refused("store bundle last -o nowhere/b.tar.zst", 1);
    assert!(told.contains("nowhere/b.tar.zst"), "{told}");
    let left = std::fs::read_dir(place.path(".")).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains("tar")),
        "{names:?}"
    );
}

#[test]
fn server_sends_bundle_of_kept_recordings() {
    let place = Sandbox::new();
    place.done("measure timer -i 1ms -D 300ms --warm-up 0 --samples -q --policy other");
    let recording = place.last();
    let server = Server::start(place.command("serve --listen 127.0.0.1:0"));
    let address = server.address();
    let mut stream = TcpStream::connect(address).unwrap();
    let path = format!("/recordings/{}/bundle", recording.id);
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
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
    let samples = place.done(&format!("--store {} export last -f csv", copy.display()));
    assert_eq!(samples, place.done("export last -f csv"));
}
