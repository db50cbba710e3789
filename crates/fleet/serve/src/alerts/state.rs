//! The state of sent alerts, stored on disk.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use punctual_files::{Budget, FileError, Output};
use punctual_model::{FromJson, ToJson, from_json, to_json};
use serde::{Deserialize, Serialize};

use super::Alert;
use super::error::AlertError;

/// Maximum size of a state file in bytes, enough for some 100,000 alerts.
const MOST: u64 = 64 << 20;

/// The receivers that an alert was sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) webhook: bool,
    pub(super) command: bool,
}

/// An active alert, or an ended one whose end has not been sent to all receivers yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) alert: Alert,
    pub(super) ended: Option<Timestamp>,
    pub(super) sent: Sent,
}

/// All alerts, by their subject.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) alerts: BTreeMap<String, Standing>,
}

to_json!(State);
from_json!(State);

fn unusable(path: &Path, source: FileError) -> AlertError {
    AlertError::StateFile {
        path: path.to_owned(),
        source,
    }
}

fn damaged(path: &Path, source: serde_json::Error) -> AlertError {
    AlertError::StateJson {
        path: path.to_owned(),
        source,
    }
}

impl State {
    /// Reads the state. It is empty if the file is missing.
    pub(super) fn read(path: &Path) -> Result<Self, AlertError> {
        match Budget::bytes(MOST).read_text(path) {
            Ok(text) => Self::from_json(text.as_bytes()).map_err(|source| damaged(path, source)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(unusable(path, error)),
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), AlertError> {
        let written = Output::private(path).and_then(|file| file.put(self.to_json().as_bytes()));
        written.map_err(|source| unusable(path, source))
    }

    /// Returns whether an alert is active.
    pub(super) fn stands(&self, key: &str) -> bool {
        self.alerts.get(key).is_some_and(|one| one.ended.is_none())
    }

    /// Updates the state with the alerts that are active now.
    pub(super) fn compare(&mut self, now: BTreeMap<String, Alert>, at: Timestamp) {
        for (key, standing) in &mut self.alerts {
            if standing.ended.is_none() && !now.contains_key(key) {
                standing.ended = Some(at);
                standing.sent = Sent::default();
            }
        }
        for (key, alert) in now {
            match self.alerts.get_mut(&key) {
                // An alert that is already active keeps its start time, but may have a new text.
                Some(known) if known.ended.is_none() => {
                    let since = known.alert.since;
                    known.alert = Alert { since, ..alert };
                }
                _ => {
                    let standing = Standing {
                        alert,
                        ended: None,
                        sent: Sent::default(),
                    };
                    self.alerts.insert(key, standing);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::Kind;

    fn alert(summary: &str, second: i64) -> Alert {
        Alert {
            kind: Kind::Silent,
            machine: "a".to_owned(),
            series: String::new(),
            summary: summary.to_owned(),
            path: "/".to_owned(),
            since: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn an_alert_begins_once_and_ends_once() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let one = |summary, second| BTreeMap::from([("k".to_owned(), alert(summary, second))]);
        let mut state = State::default();
        state.compare(one("x", 1), at(1));
        state.alerts.get_mut("k").unwrap().sent.webhook = true;
        state.compare(one("y", 5), at(5));
        let known = &state.alerts["k"];
        assert!(known.sent.webhook, "it is sent once");
        assert_eq!(
            (known.alert.since, known.alert.summary.as_str()),
            (at(1), "y")
        );
        state.compare(BTreeMap::new(), at(9));
        let known = &state.alerts["k"];
        assert_eq!((known.ended, known.sent.webhook), (Some(at(9)), false));
        assert!(!state.stands("k"));
        // The alert begins again before its end has been sent.
        state.compare(one("z", 12), at(12));
        assert_eq!(state.alerts["k"].alert.since, at(12));
    }

    #[test]
    fn state_reads_back_and_damage_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alerts.json");
        assert_eq!(State::read(&path).unwrap(), State::default());
        let mut state = State::default();
        let now = BTreeMap::from([("k".to_owned(), alert("x", 1))]);
        state.compare(now, Timestamp::from_second(1).unwrap());
        state.write(&path).unwrap();
        assert_eq!(State::read(&path).unwrap(), state);
        std::fs::write(&path, "{").unwrap();
        let error = State::read(&path).unwrap_err().to_string();
        let expected = format!("state of alerts {}: EOF while parsing", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
