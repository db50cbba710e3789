//! The history of tests that passed only when repeated.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

/// Adds a run with these disturbed tests, and returns the printed history.
fn add(history: &Path, disturbed: &str) -> String {
    let file = history.with_extension("disturbed");
    std::fs::write(&file, disturbed).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/history");
    let output = Command::new(script).args([history, &file]).output();
    let output = output.unwrap();
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn repeated_tests_are_counted_over_runs() {
    let folder = std::env::temp_dir().join(format!("history-{}", std::process::id()));
    let history = folder.join("new/repeated-tests");
    std::fs::create_dir_all(history.parent().unwrap()).unwrap();
    let first = add(&history, "");
    assert!(first.starts_with("runs of the gate since 2"), "{first}");
    assert!(first.ends_with("none\n"), "{first}");
    add(
        &history,
        "again c/t b::one\nquiet c/t two: quiet: busy\nagain m:c/u\n",
    );
    let told = add(&history, "again c/t b::one\n");
    std::fs::remove_dir_all(&folder).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].contains(": 3; "), "{told}");
    assert!(
        lines[1].starts_with("    2  2") && lines[1].ends_with("  c/t b::one"),
        "{told}"
    );
    assert!(
        lines[2].starts_with("    1  2") && lines[2].ends_with("  m:c/u"),
        "{told}"
    );
    assert_eq!(lines.len(), 3, "{told}");
}
