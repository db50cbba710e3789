//! Links that call the command by the name of a tool.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use punctual_compat::{Family, Tool};

use crate::common::{Sandbox, text};

#[test]
fn links_are_made_and_called() {
    let place = Sandbox::new();
    // The folder is created.
    place.done("compat --install made/too");
    assert!(place.path("made/too/cyclictest").is_symlink());
    let out = place.done("compat --install bin");
    assert!(out.contains("bin/cyclictest: made"), "{out}");
    let output = Command::new(place.path("bin/cyclictest"))
        .env("PUNCTUAL_STORE", "none")
        .args(["-q", "-l", "2"])
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("T: 0 ("));
    // argv[0] can be a path, as with `exec -a` and in login shells.
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .arg0("/some/where/cyclictest")
        .env("PUNCTUAL_STORE", "none")
        .args(["-q", "-l", "2"])
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("T: 0 ("));
    // A link that an older version made.
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .arg0("/usr/local/bin/hackbench")
        .args(["-l", "100"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("does not replace hackbench: "), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
    fs::remove_file(place.path("bin/cyclictest")).unwrap();
    fs::write(place.path("bin/cyclictest"), "other").unwrap();
    place.refused("compat --install bin", 1);
    place.done("compat --install bin --force");
    assert!(place.done("compat").contains("PUNCTUAL_STRICT"));
}

/// Scripts read the version under `set -euo pipefail`.
#[test]
fn each_tool_prints_its_version() {
    let place = Sandbox::new();
    let has_version = |tool: &&Tool| tool.family == Family::RtTests;
    for tool in punctual_compat::TOOLS.iter().filter(has_version) {
        let name = tool.name;
        let out = place.done(&format!("compat {name} --version"));
        assert_eq!(out, format!("{name} V 2.10\n"));
        let help = place.done(&format!("compat {name} --help"));
        assert!(help.contains("--version"), "{help}");
    }
    // Abbreviations have the same meaning as in the original.
    let out = place.done("compat cyclictest --verb -t1 -l 2 -q");
    assert!(out.contains("Max CPUs = "), "{out}");
}
