//! The dashboard's script: its own tests and rules, which need no browser.

use std::path::Path;
use std::process::Command;

/// Returns whether the interpreter is installed and has a test runner. Otherwise prints the reason.
fn has_test_runner() -> bool {
    let version = match Command::new("node").arg("--version").output() {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(error) => {
            punctual_testing::skip!(Program, "the dashboard's script: node: {error}");
            return false;
        }
    };
    let major = version.trim_start_matches('v').split('.').next();
    let is_new = major.is_some_and(|major| major.parse::<u32>().unwrap() >= 18);
    if !is_new {
        punctual_testing::skip!(
            Program,
            "the dashboard's script: node {version} is older than 18"
        );
    }
    is_new
}

#[test]
fn script_passes_its_tests_and_rules() {
    if !has_test_runner() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let files = std::fs::read_dir(&folder).unwrap();
    let files: Vec<_> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(".test.mjs"))
        .collect();
    assert!(files.len() >= 3, "{files:?}");
    let output = Command::new("node").arg("--test").args(&files).output();
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
}
