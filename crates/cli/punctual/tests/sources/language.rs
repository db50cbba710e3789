//! The sources must not contain any of the listed phrases.

use std::path::{Path, PathBuf};

/// Phrases that must not occur in any crate.
const EVERYWHERE: &str = include_str!("language/everywhere.txt");

/// Phrases that must not occur in the [`REVIEWED`] crates, but still occur in other crates. When
/// the last occurrence of a phrase is gone, move its line to `everywhere.txt`.
const IN_REVIEWED: &str = include_str!("language/reviewed.txt");

/// Crates that contain no phrases from either list.
const REVIEWED: [&str; 5] = ["compat", "formats", "host", "loads", "trace"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folders of all crates: `crates/GROUP/NAME`.
fn folders() -> impl Iterator<Item = PathBuf> {
    let groups = std::fs::read_dir(crates()).unwrap();
    groups
        .flat_map(|group| std::fs::read_dir(group.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("src").is_dir())
}

/// Finds the Rust files below a folder, and the texts that they include.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "md")
        {
            into.push(path);
        }
    }
}

/// Returns a source as running text: comments and strings of several lines are joined.
fn running(source: &str) -> String {
    let mut words = Vec::new();
    for line in source.lines() {
        let line = line.trim();
        let comment = line
            .strip_prefix("//")
            .map(|rest| rest.trim_start_matches(['/', '!']));
        let text = comment.unwrap_or(line).trim_end_matches('\\');
        words.extend(text.split_whitespace().map(str::to_lowercase));
    }
    words.join(" ")
}

/// Returns whether `text` contains `phrase` as whole words.
fn contains(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let after = &text[at + phrase.len()..];
        !text[..at].ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    })
}

fn phrases(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.is_empty())
}

/// Returns `crate/src/file.rs: phrase` for each phrase of the list that occurs in the sources of a
/// crate.
fn found(name: &str, list: &'static str) -> Vec<String> {
    let folder = folders().find(|path| path.ends_with(name)).unwrap();
    let folder = folder.join("src");
    let mut files = Vec::new();
    sources(&folder, &mut files);
    assert!(!files.is_empty(), "{} has no sources", folder.display());
    let mut found = Vec::new();
    for path in files {
        let text = running(&std::fs::read_to_string(&path).unwrap());
        let here = phrases(list).filter(|phrase| contains(&text, phrase));
        found.extend(here.map(|phrase| format!("{}: {phrase}", path.display())));
    }
    found
}

#[test]
fn no_crate_has_a_forbidden_phrase() {
    let mut all = Vec::new();
    for folder in folders() {
        all.extend(found(
            &folder.file_name().unwrap().to_string_lossy(),
            EVERYWHERE,
        ));
    }
    assert!(all.is_empty(), "reword:\n{}", all.join("\n"));
}

#[test]
fn reviewed_crates_stay_free_of_further_phrases() {
    let all: Vec<String> = (REVIEWED.iter())
        .flat_map(|name| found(name, IN_REVIEWED))
        .collect();
    assert!(all.is_empty(), "reword:\n{}", all.join("\n"));
}

#[test]
fn phrases_are_found_across_lines() {
    let source = "/// None\n/// found here.\nlet a = \"what is \\\n    told from\";\n";
    let text = running(source);
    assert!(contains(&text, "none found"));
    assert!(contains(&text, "is told"));
    assert!(!contains(&running("retold from"), "told from"));
    assert!(!contains(&running("there was something"), "was so"));
}

#[test]
fn phrases_are_lower_case_in_single_list() {
    for list in [EVERYWHERE, IN_REVIEWED] {
        for phrase in phrases(list) {
            assert_eq!(phrase, phrase.trim().to_lowercase());
        }
    }
    assert!(!phrases(EVERYWHERE).any(|phrase| phrases(IN_REVIEWED).any(|other| other == phrase)));
}
