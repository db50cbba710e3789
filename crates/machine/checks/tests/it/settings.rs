//! Tests that every setting from guides and tools is judged by a finding, or that there is a reason
//! why it is not.

use std::collections::BTreeSet;

use punctual_checks::{TOPICS, kernel};

/// Returns the names of all possible findings.
fn findings() -> BTreeSet<String> {
    let checks = TOPICS.iter().flat_map(|topic| {
        let checks = topic.checks.iter();
        checks.map(move |check| format!("{}-{}", topic.name, check.name))
    });
    let config = punctual_model::Fact::known(String::new(), "/boot/config");
    let options = kernel::findings(&config, punctual_checks::Role::Control, None);
    let options = options.into_iter().map(|finding| finding.id);
    checks.chain(options).collect()
}

#[test]
fn each_setting_is_judged_or_excused() {
    let findings = findings();
    let mut named = BTreeSet::new();
    for line in include_str!("../settings.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts: Vec<&str> = line.splitn(3, " | ").collect();
        let [_, setting, judged] = parts[..] else {
            panic!("not three parts: {line}");
        };
        assert!(named.insert(setting), "{setting} twice");
        let (ids, reason) = judged.split_once(" ; ").unwrap_or((judged, ""));
        if ids == "-" {
            assert!(reason.len() > 20, "{setting} has no reason");
            continue;
        }
        for id in ids.split(", ") {
            assert!(findings.contains(id), "{setting}: there is no finding {id}");
        }
    }
    assert_eq!(named.len(), 111, "the list is whole");
}
