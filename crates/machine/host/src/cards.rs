//! Facts about network cards that are in no file. Each card is asked through the kernel.

use std::collections::BTreeMap;
use std::io;

use punctual_model::Reading;

use crate::root::Root;
use crate::{Coalescing, Eee, Unread};

/// Folder of the network interfaces. Virtual interfaces, such as the loopback, have no `device`.
const CARDS: &str = "/sys/class/net";
/// `ENODEV` from errno(3).
const NO_DEVICE: i32 = 19;

/// Asks a card. The text is empty if the driver reports no parameter.
type Ask = fn(&str) -> io::Result<String>;

/// Patterns that stand not for a file but for a command with the same output.
const PATTERNS: [(&str, Ask); 2] = [
    ("ethtool -c *", |card| {
        Coalescing::read(card).map(|found| found.to_string())
    }),
    ("ethtool --show-eee *", |card| {
        Eee::read(card).map(|found| found.to_string())
    }),
];

/// Reads a fact of each network card, and returns true, if the pattern is one of [`PATTERNS`]. The
/// fact is *absent* for a card whose driver does not support the query.
pub(crate) fn read(root: &Root, pattern: &str, files: &mut BTreeMap<String, Reading>) -> bool {
    let Some((_, ask)) = PATTERNS.into_iter().find(|(known, _)| *known == pattern) else {
        return false;
    };
    match names(root) {
        Ok(cards) if cards.is_empty() => {
            files.insert(pattern.to_owned(), Reading::Absent);
        }
        Ok(cards) => {
            for card in cards {
                files.insert(pattern.replace('*', &card), reading(ask(&card)));
            }
        }
        Err(why) => {
            files.insert(pattern.to_owned(), why);
        }
    }
    true
}

/// Returns the names of the cards, or the reason why they are unknown.
fn names(root: &Root) -> Result<Vec<String>, Reading> {
    if !root.is_live() {
        let why = "not stored in a file: only the kernel of the running machine can be queried";
        return Err(Reading::Unreadable(why.to_owned()));
    }
    let mut names = root.names(CARDS).map_err(|reason| match reason {
        Unread::NotThere => Reading::Absent,
        other => Reading::Unreadable(other.to_string()),
    })?;
    names.retain(|name| {
        root.path()
            .join(format!("sys/class/net/{name}/device"))
            .exists()
    });
    Ok(names)
}

fn reading(answer: io::Result<String>) -> Reading {
    match answer {
        Ok(text) if text.is_empty() => Reading::Absent,
        Ok(text) => Reading::Text(text),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Reading::Absent,
        Err(error) if error.raw_os_error() == Some(NO_DEVICE) => Reading::Unreadable(
            "the network card is not in the network namespace of this process".to_owned(),
        ),
        Err(error) => Reading::Unreadable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    #[test]
    fn cards_of_a_tree_are_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sys/class/net/lo")).unwrap();
        for (pattern, _) in PATTERNS {
            let facts = Host::new(folder.path()).capture(&[pattern]);
            let reading = &facts.files[pattern];
            assert!(
                matches!(reading, Reading::Unreadable(why) if why.contains("of the running machine"))
            );
        }
    }

    #[test]
    fn local_cards_answer_or_give_reason() {
        for (pattern, _) in PATTERNS {
            let facts = Host::live().capture(&[pattern]);
            assert!(!facts.files.is_empty());
            let start = pattern.trim_end_matches('*');
            for (name, reading) in facts.files {
                assert!(name.starts_with(start), "{name}");
                if let Reading::Text(text) = reading {
                    let sound = text.parse::<Coalescing>().is_ok() || text.parse::<Eee>().is_ok();
                    assert!(sound, "{name}: {text}");
                }
            }
        }
    }

    #[test]
    fn silence_and_refusal_differ() {
        let of = |number: i32| reading(Err(io::Error::from_raw_os_error(number)));
        assert_eq!(reading(Ok(String::new())), Reading::Absent);
        assert_eq!(of(95), Reading::Absent);
        assert!(matches!(of(1), Reading::Unreadable(_)));
        assert!(matches!(of(19), Reading::Unreadable(why) if why.contains("namespace")));
        let text = Reading::Text("eee on".to_owned());
        assert_eq!(reading(Ok("eee on".to_owned())), text);
    }
}
