//! Alerts, which are sent once when they begin and once when they end.

mod error;
mod find;
mod send;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use punctual_store::Collection;
use serde::{Deserialize, Serialize};

use crate::worse::SeriesVerdicts;
use find::Found;
use state::State;

/// The conditions that raise an alert, and the receivers.
#[derive(Clone, Debug)]
pub struct Alerts {
    /// A URL that accepts Alertmanager's webhook payload (version 4). If it ends with
    /// `/api/v2/alerts`, it is the API of Alertmanager itself.
    pub webhook: Option<String>,
    /// A program with its arguments, which reads the webhook payload from stdin.
    pub command: Vec<String>,
    /// The address of the dashboard, which all links begin with.
    pub link: String,
    /// The file that records which alerts were sent.
    pub state: PathBuf,
    /// The number of broken recordings that raises an alert...
    pub broken: usize,
    /// ...among this many newest recordings of a machine.
    pub of: usize,
    /// A folder on the disk to watch; `None` to watch no disk.
    pub disk: Option<PathBuf>,
    /// The disk is nearly full if less than this is free, in percent.
    pub disk_free: f64,
}

/// The kinds of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// An open regression.
    Worse,
    /// The requirement is broken in several recordings, or over the runs of a sampled series.
    Broken,
    /// Runs of a sampled series are missing, so its requirement is not proven.
    NotProven,
    /// No data was received for two slots.
    Silent,
    /// The disk of the collector is nearly full.
    Disk,
}

impl Kind {
    /// Returns the name of the alert, the same as in the Prometheus rules.
    const fn name(self) -> &'static str {
        match self {
            Self::Worse => "PunctualWorse",
            Self::Broken => "PunctualRequirementBroken",
            Self::NotProven => "PunctualNotProven",
            Self::Silent => "PunctualSilent",
            Self::Disk => "PunctualDiskNearlyFull",
        }
    }

    const fn severity(self) -> &'static str {
        match self {
            Self::Broken | Self::Disk => "critical",
            Self::Worse | Self::Silent | Self::NotProven => "warning",
        }
    }
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alert {
    pub(crate) kind: Kind,
    pub(crate) machine: String,
    pub(crate) series: String,
    pub(crate) summary: String,
    /// The path of the page about the alert.
    pub(crate) path: String,
    /// When the alert began, or when its cause began.
    pub(crate) since: Timestamp,
}

/// Polls for alerts, and sends new ones.
pub(crate) struct Watch {
    config: Alerts,
    state: Option<State>,
    found: Found,
}

impl Watch {
    /// Returns a watch. `silent_after` is the time after which a machine whose slots are unknown is
    /// silent.
    pub(crate) fn new(config: Alerts, silent_after: Duration) -> Self {
        Self {
            config,
            state: None,
            found: Found::new(silent_after),
        }
    }

    /// Polls, and sends the alerts that began or ended since the last poll. Failures are logged,
    /// and the next poll retries.
    pub(crate) fn look(&mut self, collection: &dyn Collection, worse: &SeriesVerdicts) {
        let state = match &mut self.state {
            Some(state) => state,
            None => match State::read(&self.config.state) {
                Ok(read) => self.state.insert(read),
                // Do not continue without the state, because all alerts would be sent again.
                Err(why) => return crate::log::complain(&why.to_string()),
            },
        };
        match self.found.all(collection, worse, &self.config, state) {
            Ok(now) => state.compare(now, Timestamp::now()),
            // If the search fails, no alert begins or ends.
            Err(why) => return crate::log::complain(&format!("alerts: {why}")),
        }
        // The state is also written before sending. If the process is killed in between, alerts are
        // sent twice rather than never.
        let before = state.write(&self.config.state);
        for failed in send::all(&self.config, state) {
            crate::log::complain(&format!("alerts: {failed}"));
        }
        if let Err(why) = before.and_then(|()| state.write(&self.config.state)) {
            crate::log::complain(&format!("alerts: {why}"));
        }
    }
}
