//! Tests complete audits of each kind of machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use punctual_checks::{Request, audit, patterns};
use punctual_host::Host;
use punctual_model::FactSet;

use crate::machines::server;

fn tree(name: &str) -> FactSet {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machine/host/tests/trees");
    Host::new(trees.join(name)).capture(&patterns())
}

/// Formats an audit as lines, so that snapshots show when the result of a check changes.
fn lines(facts: &FactSet, role: &str, cpus: Option<&str>) -> String {
    let request = Request {
        role: role.parse().unwrap(),
        cpus: cpus.map(|list| list.parse().unwrap()),
    };
    let audit = audit(facts, &request).unwrap();
    let mut text = format!(
        "CPU {} ({})\n{}\nworst expected: {:?}\n",
        audit.cpus,
        audit.cpus_because,
        audit.summary(),
        audit.expectation.max_ns
    );
    for finding in &audit.findings {
        let _ = writeln!(
            text,
            "{:<14} {:<6} {}: {}",
            finding.state,
            finding.severity,
            finding.id,
            finding.line()
        );
    }
    text
}

#[test]
fn controller() {
    insta::assert_snapshot!(lines(&tree("controller"), "control", None));
}

#[test]
fn laptop() {
    insta::assert_snapshot!(lines(&tree("laptop"), "audio", None));
}

#[test]
fn cloud() {
    insta::assert_snapshot!(lines(&tree("cloud"), "control", None));
}

#[test]
fn arm_board() {
    insta::assert_snapshot!(lines(&tree("arm-board"), "control", Some("2")));
}

#[test]
fn server_with_two_nodes() {
    let folder = tempfile::tempdir().unwrap();
    server(folder.path());
    let facts = Host::new(folder.path()).capture(&patterns());
    insta::assert_snapshot!(lines(&facts, "telco", None));
}

#[test]
fn saved_facts_give_the_same_audit() {
    let folder = tempfile::tempdir().unwrap();
    server(folder.path());
    for facts in [
        tree("controller"),
        Host::new(folder.path()).capture(&patterns()),
    ] {
        let json = serde_json::to_string(&facts).unwrap();
        let again = FactSet::from_json(&json).unwrap();
        assert_eq!(
            lines(&facts, "control", None),
            lines(&again, "control", None)
        );
    }
}

#[test]
fn empty_folder_has_no_ok_finding() {
    let folder = tempfile::tempdir().unwrap();
    let facts = Host::new(PathBuf::from(folder.path())).capture(&patterns());
    let text = lines(&facts, "control", Some("0"));
    assert!(!text.lines().any(|line| line.starts_with("ok ")), "{text}");
}
