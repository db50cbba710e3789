//! Each row of a table names its tests, and these tests must exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::root;

/// Finds the names of all tests.
fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                let name = line.strip_prefix("async ").unwrap_or(line);
                match name.strip_prefix("fn ") {
                    Some(name) if is_test => {
                        found.extend(name.split('(').next().map(str::to_owned));
                        is_test = false;
                    }
                    _ if line == "#[test]" || line.starts_with("#[tokio::test") => is_test = true,
                    // There may be other attributes and comments in between.
                    _ if line.starts_with('#') || line.starts_with("//") => {}
                    _ => is_test = false,
                }
            }
        }
    }
}

/// Returns the rows of all tables on a page, each with the tests in its last column.
fn named(page: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = page.lines().filter(|line| {
        let is_head =
            line.ends_with("| tests |") || line.ends_with("| test |") || line.starts_with("|---");
        line.starts_with('|') && !is_head
    });
    rows.map(|row| {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or("");
        (row, last.split('`').skip(1).step_by(2).collect())
    })
    .collect()
}

fn assert_each_row_has_its_test(text: &str) {
    let mut known = BTreeSet::new();
    tests(&root().join("crates"), &mut known);
    let rows = named(text);
    assert!(rows.len() > 20, "{} rows", rows.len());
    for (row, names) in rows {
        assert!(!names.is_empty(), "no test is named: {row}");
        for name in names {
            assert!(known.contains(name), "there is no test {name}: {row}");
        }
    }
}

#[test]
fn threat_model_lines_have_tests() {
    let page = std::fs::read_to_string(root().join("docs/subjects/threat-model.md")).unwrap();
    assert_each_row_has_its_test(&page);
}

#[test]
fn architecture_is_short_with_tested_invariants() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(
        page.lines().count() <= 150,
        "{} lines",
        page.lines().count()
    );
    let (_, invariants) = page.split_once("## Invariants").unwrap();
    assert_each_row_has_its_test(invariants);
}
