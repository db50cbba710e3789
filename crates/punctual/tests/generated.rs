//! The generated pages are those of the program.
//!
//! `PUNCTUAL_UPDATE_PAGES=1 cargo test -p punctual --test generated` writes them.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::Place;

#[test]
fn the_checks_have_their_page() {
    let page = Place::new().done("doctor --list");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/checks.md is not what `punctual doctor --list` says"
    );
}

#[test]
fn the_rules_of_lint_have_their_page() {
    let page = Place::new().done("lint --list");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lint.md");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept, page,
        "docs/lint.md is not what `punctual lint --list` says"
    );
}

#[test]
fn each_probe_has_its_page() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/probes");
    let update = std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some();
    let mut names: Vec<String> = Vec::new();
    for probe in punctual_probes::PROBES {
        let page = place.done(&format!("probes {}", probe.name));
        let path = folder.join(format!("{}.md", probe.name));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &page).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            kept,
            page,
            "{} is not what `punctual probes {}` says",
            path.display(),
            probe.name
        );
        names.push(format!("{}.md", probe.name));
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(names.contains(&name), "docs/probes/{name} is of no probe");
    }
}

#[test]
fn the_compatible_commands_have_their_page() {
    let page = Place::new().done("compat --page");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compat.md");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept,
        page,
        "{} is not what `punctual compat --page` says",
        path.display()
    );
}

#[test]
fn all_settings_have_their_page() {
    let place = Place::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = place.done("tune settings --markdown");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let says = "is not what `punctual tune settings --markdown` says";
    assert_eq!(kept, page, "{} {says}", path.display());
}
