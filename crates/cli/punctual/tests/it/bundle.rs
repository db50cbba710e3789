//! `bundle`: packs a recording and everything needed to ask for help into one file.

use crate::common::{Sandbox, files_of_bundle, text};
use punctual_model::Recording;

#[test]
fn bundle_holds_recording_and_machine() {
    let place = Sandbox::new();
    place.done("measure timer -i 1ms -D 300ms --warm-up 0 --samples -q --policy other");
    let recording = place.last();
    place.done("store bundle last -o b.tar.zst");
    let files = files_of_bundle(&place.path("b.tar.zst"));
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
    let files = files_of_bundle(&place.path(&format!("punctual-{id}.tar.zst")));
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
