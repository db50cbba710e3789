//! Reports which settings are applied and whether they are still in force.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use punctual_host::Host;
use serde::Serialize;

use crate::TuneError;
use crate::accessors::access;
use crate::fs::{FileSystem, Files};
use crate::record::Pending;
use crate::setting::{setting, shown};
use crate::undo::UndoJournal;

/// Settings that a user has applied.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Name of the profile. If there is no profile, the list of settings.
    pub label: String,
    /// CPUs for which the settings were applied.
    pub cpus: Option<String>,
    /// Time when the settings were applied; absent if they have not been applied completely.
    pub applied: Option<Timestamp>,
    /// Progress.
    pub phase: Phase,
    /// Path of the journal with the old values.
    pub journal: PathBuf,
    /// Each setting, in the order of the changes.
    pub settings: Vec<SettingStatus>,
}

punctual_model::to_json!(Status);

/// The progress of applying settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The settings are applied until they are reverted.
    Applied,
    /// The settings were applied before the last boot, which undid all changes except those of
    /// files on disk.
    BeforeBoot,
    /// A process is applying or reverting them.
    InProgress,
    /// A process began to apply or revert them but ended before it had finished.
    Unfinished,
}

/// A setting that was changed.
#[derive(Clone, Debug, Serialize)]
pub struct SettingStatus {
    /// `name`, or `name@instance`, as a user writes it.
    #[serde(rename = "setting")]
    pub label: String,
    /// Name of the setting.
    pub setting: String,
    /// Name of the instance; empty if there is only one.
    pub instance: String,
    /// Old value, which a revert restores.
    pub old: String,
    /// Value that was set.
    pub target: String,
    /// Current value.
    pub now: Option<String>,
    /// Result of comparing the current value with the one that was set.
    pub state: Hold,
    /// Note for the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Whether a setting still has the value that was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Hold {
    /// The value is in force.
    InForce,
    /// The value has been changed since it was set.
    Changed,
    /// It has its old value again.
    Old,
    /// It belonged to a thread that has ended.
    Gone,
    /// It cannot be read.
    Unknown {
        /// The reason.
        reason: String,
    },
}

impl Status {
    /// Reads the settings that a user has applied. Returns `None` if there are none.
    ///
    /// # Errors
    /// Returns [`TuneError::Journal`], [`TuneError::Damaged`] or [`TuneError::Unidentified`].
    pub fn read(journal: &Path, host: &Host) -> Result<Option<Self>, TuneError> {
        Self::read_on(Box::new(Files), journal, host)
    }

    pub(crate) fn read_on(
        files: Box<dyn FileSystem>,
        journal: &Path,
        host: &Host,
    ) -> Result<Option<Self>, TuneError> {
        let book = UndoJournal::read(files, journal, host)?;
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

    /// Returns whether all settings still have the values that were set.
    pub fn holds(&self) -> bool {
        let in_force = |one: &SettingStatus| one.state == Hold::InForce;
        self.phase == Phase::Applied && self.settings.iter().all(in_force)
    }
}

fn one(book: &UndoJournal, change: &Pending) -> SettingStatus {
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
