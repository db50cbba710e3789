//! A change of a watched application.

use serde::{Deserialize, Serialize};

/// A change of a watched application during a run or block, which went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct ApplicationChange {
    /// What changed.
    pub kind: ChangeKind,
    /// The change with its times and names, as a sentence.
    pub text: String,
}

/// What changed in a watched application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Its processes restarted.
    Restarted,
    /// Threads changed their names.
    Renamed,
    /// New processes joined the watched ones.
    Joined,
    /// Its processes started others, which were not watched.
    Started,
    /// An older version stored the sentence without its kind.
    Unknown,
}

/// The forms in which a change was stored.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Typed { kind: ChangeKind, text: String },
    Text(String),
}

impl From<Stored> for ApplicationChange {
    fn from(stored: Stored) -> Self {
        let (kind, text) = match stored {
            Stored::Typed { kind, text } => (kind, text),
            Stored::Text(text) => (ChangeKind::Unknown, text),
        };
        Self { kind, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_without_a_kind_are_read() {
        let typed = r#"[{"kind":"renamed","text":"a is now b"}]"#;
        let read = |json: &str| serde_json::from_str::<Vec<ApplicationChange>>(json);
        let changes = read(typed).unwrap();
        assert_eq!(changes[0].kind, ChangeKind::Renamed);
        assert_eq!(serde_json::to_string(&changes).unwrap(), typed);
        let old = read(r#"["the watched processes restarted after 3.00 s"]"#).unwrap();
        assert_eq!(old[0].kind, ChangeKind::Unknown);
        assert!(old[0].text.ends_with("after 3.00 s"));
        assert!(read(r#"[{"kind":"renamed"}]"#).is_err());
        assert!(read(r#"[{"kind":"melted","text":""}]"#).is_err());
    }
}
