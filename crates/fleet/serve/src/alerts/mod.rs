//! Alerts: what demands attention, sent once when it begins and once when it ends.

mod error;
mod find;
mod send;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use punctual_store::Collection;
use serde::{Deserialize, Serialize};

use crate::worse::Worse;
use find::Found;
use state::State;

/// What raises an alert, and where it goes.
#[derive(Clone, Debug)]
pub struct Alerts {
    /// A URL that takes Alertmanager's webhook payload (version 4), or its own API where
    /// the URL ends with `/api/v2/alerts`.
    pub webhook: Option<String>,
    /// A program with its arguments; it reads the webhook payload from stdin.
    pub command: Vec<String>,
    /// The address of the dashboard, before the path of each link.
    pub link: String,
    /// Where it is kept what was sent.
    pub state: PathBuf,
    /// A machine's requirement is broken in so many...
    pub broken: usize,
    /// ...of its newest so many recordings.
    pub of: usize,
    /// The folder whose disk is watched; `None`: no disk is.
    pub disk: Option<PathBuf>,
    /// Its free share in percent below which it is nearly full.
    pub disk_free: f64,
}

/// The kinds of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A worsening that nobody has acknowledged.
    Worse,
    /// The requirement is broken in several recordings.
    Broken,
    /// Nothing was received for two slots.
    Silent,
    /// The disk of the collector.
    Disk,
}

impl Kind {
    /// The name of the alert, that of the rules for Prometheus.
    const fn name(self) -> &'static str {
        match self {
            Self::Worse => "PunctualWorse",
            Self::Broken => "PunctualRequirementBroken",
            Self::Silent => "PunctualSilent",
            Self::Disk => "PunctualDiskNearlyFull",
        }
    }

    const fn severity(self) -> &'static str {
        match self {
            Self::Broken | Self::Disk => "critical",
            Self::Worse | Self::Silent => "warning",
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
    /// The path of the page that shows it.
    pub(crate) path: String,
    /// When it began, or what it is about began.
    pub(crate) since: Timestamp,
}

/// Looks again and again, and sends what is new.
pub(crate) struct Watch {
    config: Alerts,
    state: Option<State>,
    found: Found,
}

impl Watch {
    /// A machine is silent after `silent_after`, where its slots are not known.
    pub(crate) fn new(config: Alerts, silent_after: Duration) -> Self {
        Self {
            config,
            state: None,
            found: Found::new(silent_after),
        }
    }

    /// Looks, and sends what has begun or ended since. What cannot be sent is tried again
    /// at the next look; failures are in the log.
    pub(crate) fn look(&mut self, collection: &dyn Collection, worse: &Worse) {
        let state = match &mut self.state {
            Some(state) => state,
            None => match State::read(&self.config.state) {
                Ok(read) => self.state.insert(read),
                // An unreadable state would send all again.
                Err(why) => return crate::log::complain(&why.to_string()),
            },
        };
        match self.found.all(collection, worse, &self.config, state) {
            Ok(now) => state.compare(now, Timestamp::now()),
            // What cannot be known neither begins nor ends.
            Err(why) => return crate::log::complain(&format!("alerts: {why}")),
        }
        // Written before sending as well: a kill in between sends again, never nothing.
        let before = state.write(&self.config.state);
        for failed in send::all(&self.config, state) {
            crate::log::complain(&format!("alerts: {failed}"));
        }
        if let Err(why) = before.and_then(|()| state.write(&self.config.state)) {
            crate::log::complain(&format!("alerts: {why}"));
        }
    }
}
