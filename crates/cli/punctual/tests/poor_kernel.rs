//! Tests on a kernel without tracing, types for BPF programs (BTF), symbols and configuration.
//! Everything else must work, and missing features must be reported. `cargo xtask vm poor` and
//! `cargo xtask vm --arch arm64 poor` run these tests in an emulated machine.

#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use common::{Sandbox, text};
use punctual_model::{Audit, Completion, FindingState, Recording};

/// Returns whether this machine has such a kernel. Prints a skip if not.
fn poor() -> bool {
    let yes = std::env::var_os("PUNCTUAL_POOR").is_some();
    if !yes {
        punctual_testing::skip!(
            Emulation,
            "this kernel lacks nothing (cargo xtask vm poor boots one)"
        );
    }
    yes
}

/// Returns whether the text contains the program's reason why tracing is impossible.
fn says_why(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    text.contains("the kernel is locked down") || text.contains("tracefs is not mounted")
}

#[test]
fn latency_is_measured_without_any_of_it() {
    if !poor() {
        return;
    }
    let place = Sandbox::new();
    let json = place.done("measure timer -D 1s -q --json");
    let recording = Recording::from_json(&json).unwrap();
    assert_eq!(recording.completion, Completion::Finished);
    assert!(recording.accounting().recorded > 0);
    // Each of these commands writes a separate file from the recording.
    place.done("report last -o report.html");
    place.done("store bundle last -o bundle.tar.zst");
}

#[test]
fn tracing_commands_are_refused_with_reason() {
    if !poor() {
        return;
    }
    let place = Sandbox::new();
    for line in [
        "measure timer -D 1s -q --threshold 1us --explain",
        "measure timer -D 1s -q --source timerlat",
        "measure hardware -D 1s -q --source hwlat",
        "measure hardware -D 1s -q --source osnoise",
        "watch -D 1s -q",
        "explain --pid 1 -D 1s",
    ] {
        let output = place.run(line);
        let said = text(&output.stderr);
        assert!(says_why(&said), "{line}: {}: {said}", output.status);
        assert!(!said.contains("panicked"), "{line}: {said}");
        assert!(!output.status.success(), "{line}: {said}");
    }
    // Missing kernel types are reported before missing events.
    assert!(place.refused("watch -D 1s -q", 1).contains("BTF"));
}

#[test]
fn check_up_reports_unknowable_causes() {
    if !poor() {
        return;
    }
    let output = Sandbox::new().run("check -D 5s --budget 1us");
    let shown = text(&output.stdout);
    assert!(says_why(&shown), "{}\n{shown}", text(&output.stderr));
}

#[test]
fn unreadable_facts_are_not_fine() {
    if !poor() {
        return;
    }
    let place = Sandbox::new();
    let output = place.run("machine kernel check --json");
    // Every result is unknown, and an unknown result does not count as good.
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let audit: Audit = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!audit.findings.is_empty());
    for finding in &audit.findings {
        let unknown = [FindingState::Unknown, FindingState::NotApplicable];
        assert!(unknown.contains(&finding.state), "{finding:?}");
    }
    let output = place.run("doctor --json");
    let audit: Audit = serde_json::from_slice(&output.stdout).unwrap();
    let of_kernel = |id: &str| id.starts_with("kernel-config-");
    for finding in audit
        .findings
        .iter()
        .filter(|finding| of_kernel(&finding.id))
    {
        assert_ne!(finding.state, FindingState::Ok, "{finding:?}");
    }
}

#[test]
fn lint_works_with_remaining_sources() {
    if !poor() {
        return;
    }
    // Exit code 4 means that the result of a relevant rule is unknown.
    let output = Sandbox::new().run("app lint --pid 1 -D 1s");
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{shown}");
    assert!(says_why(&shown), "{shown}");
}
