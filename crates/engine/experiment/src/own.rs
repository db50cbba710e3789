//! The experiments that this user began on this machine. A store may come from elsewhere, and
//! an experiment in it holds commands, loads, settings and boot parameters: only one that has
//! an entry here is carried on or undone. Every other is only shown.

use std::path::{Path, PathBuf};

use punctual_files::{FileError, Output, folder, trusted};
use punctual_model::{Experiment, ExperimentPlan, RecordingId, WrittenFile};
use serde::{Deserialize, Serialize};

use crate::error::TrialError;

/// An entry is no longer, in bytes: it holds files of a boot loader.
const LONGEST: u64 = 16 << 20;

/// The entries, a file each, in a folder of the user's own.
#[derive(Clone, Debug)]
pub struct OwnExperiments {
    folder: PathBuf,
}

/// What was begun, and what is to be put back.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    plan: ExperimentPlan,
    /// Boot files that are written now, in the order of writing.
    files: Vec<WrittenFile>,
    /// Where it is the first stage of a search for settings.
    #[serde(default)]
    search: Option<Search>,
}

/// What a search for settings measures and writes.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    plan: ExperimentPlan,
    /// The settings, as they are assigned.
    assignments: Vec<String>,
}

impl Search {
    fn of(experiment: &Experiment) -> Option<Self> {
        let state = experiment.improvement.as_deref()?;
        let tried = state.improvement.tried.iter();
        Some(Self {
            plan: state.plan.clone(),
            assignments: tried.map(|one| one.assignment.clone()).collect(),
        })
    }
}

impl OwnExperiments {
    /// The entries beside the journal of settings.
    pub fn beside(journal: &Path) -> Self {
        Self {
            folder: journal.with_file_name("experiments"),
        }
    }

    /// Enters an experiment that this process has made.
    ///
    /// # Errors
    /// [`TrialError::Entry`].
    pub fn enter(&self, experiment: &Experiment) -> Result<(), TrialError> {
        folder::make(&self.folder, 0o700)?;
        let entry = Entry {
            plan: experiment.plan.clone(),
            files: Vec::new(),
            search: Search::of(experiment),
        };
        self.write(experiment.id, &entry)
    }

    /// Refuses an experiment that was not begun here by this user, or whose plan was changed
    /// since.
    ///
    /// # Errors
    /// [`TrialError::Foreign`] and [`TrialError::Entry`].
    pub fn check(&self, experiment: &Experiment) -> Result<(), TrialError> {
        self.entry(experiment).map(drop)
    }

    /// Whether this user began it here: [`check`](Self::check) would pass.
    pub fn has(&self, experiment: &Experiment) -> bool {
        self.check(experiment).is_ok()
    }

    /// Forgets an experiment that has ended or was deleted. One that is not there is no error.
    pub fn forget(&self, id: RecordingId) {
        // An entry that stays allows nothing but what its user began.
        let _ = std::fs::remove_file(self.path(id));
    }

    /// The boot files of an experiment that are written now.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn files(&self, experiment: &Experiment) -> Result<Vec<WrittenFile>, TrialError> {
        self.entry(experiment).map(|entry| entry.files)
    }

    /// Says which boot files are written. Survives a power cut from here on.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn set_files(
        &self,
        experiment: &Experiment,
        files: &[WrittenFile],
    ) -> Result<(), TrialError> {
        let mut entry = self.entry(experiment)?;
        entry.files = files.to_vec();
        self.write(experiment.id, &entry)
    }

    fn entry(&self, experiment: &Experiment) -> Result<Entry, TrialError> {
        let foreign = || TrialError::Foreign {
            id: experiment.id.short(),
        };
        let path = self.path(experiment.id);
        let text = match trusted::text(&path, LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(foreign()),
            Err(error) => return Err(error.into()),
        };
        let entry: Entry = serde_json::from_str(&text).map_err(|_| foreign())?;
        match entry.plan == experiment.plan && entry.search == Search::of(experiment) {
            true => Ok(entry),
            false => Err(foreign()),
        }
    }

    fn write(&self, id: RecordingId, entry: &Entry) -> Result<(), TrialError> {
        let path = self.path(id);
        let json = serde_json::to_vec(entry).map_err(|error| FileError::Write {
            path: path.clone(),
            source: error.into(),
        })?;
        Ok(Output::private(&path)?.put(&json)?)
    }

    fn path(&self, id: RecordingId) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}
