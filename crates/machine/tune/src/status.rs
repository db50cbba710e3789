//! What is applied, and whether it still holds.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use punctual_host::Host;
use serde::Serialize;

use crate::JsonSchema;
use crate::TuneError;
use crate::accessors::access;
use crate::fs::{FileSystem, Files};
use crate::record::Pending;
use crate::setting::{setting, shown};
use crate::undo::Book;

/// What a user has applied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Status {
    /// The profile's name, or the settings.
    pub label: String,
    /// The CPUs that it is for.
    pub cpus: Option<String>,
    /// When it was applied; nothing where that is not finished.
    pub applied: Option<Timestamp>,
    /// How far it is.
    pub phase: Phase,
    /// Where the old values are.
    pub journal: PathBuf,
    /// Each setting, in the order in which they were changed.
    pub settings: Vec<SettingStatus>,
}

/// How far a tune is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Applied, to stay until it is reverted.
    Applied,
    /// Applied before the machine was last booted, which has undone what is
    /// not on disk.
    BeforeBoot,
    /// A process is at it.
    InProgress,
    /// It was begun, or is being undone, by a process that is gone.
    Unfinished,
}

/// One setting that was changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingStatus {
    /// `name`, or `name@instance`, as a person names it.
    #[serde(rename = "setting")]
    pub label: String,
    /// Its name.
    #[serde(rename = "knob")]
    pub setting: String,
    /// Which of several; empty where there is one only.
    pub instance: String,
    /// What it was, and will be again.
    pub old: String,
    /// What it was set to.
    pub target: String,
    /// What it is.
    pub now: Option<String>,
    /// Whether that is what it was set to.
    pub state: Hold,
    /// What the reader must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Whether a setting is what it was set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Hold {
    /// It is.
    InForce,
    /// Someone else has changed it since.
    Changed,
    /// It is what it was before.
    Old,
    /// It belonged to a thread that has ended.
    Gone,
    /// It cannot be read.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Status {
    /// What a user has applied; nothing where nothing is.
    ///
    /// # Errors
    /// [`TuneError::Journal`], [`TuneError::Damaged`],
    /// [`TuneError::Unidentified`].
    pub fn read(journal: &Path, host: &Host) -> Result<Option<Self>, TuneError> {
        Self::read_on(Box::new(Files), journal, host)
    }

    pub(crate) fn read_on(
        files: Box<dyn FileSystem>,
        journal: &Path,
        host: &Host,
    ) -> Result<Option<Self>, TuneError> {
        let book = Book::read(files, journal, host)?;
        let state = &book.state;
        if state.is_settled() {
            return Ok(None);
        }
        let this_boot = book.is_of_this_boot()?;
        if let Some(line) = state.damaged_line
            && this_boot
        {
            return Err(book.damaged(line));
        }
        let lives = match &state.owner {
            Some(owner) => owner.lives(host)?,
            None => false,
        };
        let phase = match (this_boot, state.stays()) {
            (false, _) => Phase::BeforeBoot,
            (true, true) => Phase::Applied,
            (true, false) if lives && !state.reverting => Phase::InProgress,
            (true, false) => Phase::Unfinished,
        };
        Ok(Some(Self {
            label: state
                .kept
                .as_ref()
                .map_or_else(|| "unfinished".to_owned(), |kept| kept.label.clone()),
            cpus: state.kept.as_ref().and_then(|kept| kept.cpus.clone()),
            applied: state.kept.as_ref().map(|kept| kept.at),
            phase,
            journal: journal.to_owned(),
            settings: state
                .pending
                .iter()
                .map(|change| one(&book, change))
                .collect(),
        }))
    }

    /// Whether all is as it was set.
    pub fn holds(&self) -> bool {
        let in_force = |one: &SettingStatus| one.state == Hold::InForce;
        self.phase == Phase::Applied && self.settings.iter().all(in_force)
    }
}

fn one(book: &Book, change: &Pending) -> SettingStatus {
    let target = book.target();
    let mut status = SettingStatus {
        label: change.setting.clone(),
        setting: change.setting.clone(),
        instance: change.instance.clone(),
        old: change.old.clone(),
        target: change.new.clone(),
        now: None,
        state: Hold::Gone,
        remark: None,
    };
    let setting = match setting(&change.setting) {
        Ok(setting) => setting,
        Err(error) => {
            status.state = Hold::Unknown {
                reason: error.to_string(),
            };
            return status;
        }
    };
    status.label = shown(setting, &change.instance);
    let access = access(setting);
    if access.is_gone(&target, &change.instance) {
        return status;
    }
    match access.read(&target, &change.instance) {
        Ok(now) => {
            status.state = if access.same(&now, &change.new) {
                status.remark = access.remark(&target, &change.instance, &change.new);
                Hold::InForce
            } else if access.same(&now, &change.old) {
                Hold::Old
            } else {
                Hold::Changed
            };
            status.now = Some(now);
        }
        Err(error) => {
            status.state = Hold::Unknown {
                reason: error.to_string(),
            };
        }
    }
    status
}
