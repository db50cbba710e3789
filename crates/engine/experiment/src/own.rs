//! The experiments that this user started on this machine. A store may come from another machine,
//! and an experiment in it contains commands, loads, settings and boot parameters. Only experiments
//! with an entry here are continued or undone; all others are only shown.

use std::path::{Path, PathBuf};

use punctual_files::{FileError, Output, folder, trusted};
use punctual_model::{Experiment, ExperimentPlan, RecordingId, WrittenFile};
use serde::{Deserialize, Serialize};

use crate::error::TrialError;

/// The maximum size of an entry in bytes; it contains files of a boot loader.
const LONGEST: u64 = 16 << 20;

/// The entries, one file each, in a private folder of the user.
#[derive(Clone, Debug)]
pub struct OwnExperiments {
    folder: PathBuf,
}

/// The plan of an experiment, and the files to restore.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    plan: ExperimentPlan,
    /// Boot files written so far, in the order of writing.
    files: Vec<WrittenFile>,
    /// Set for the first stage of a search for settings.
    #[serde(default)]
    search: Option<Search>,
}

/// The settings that a search measures and writes, and its plan.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    plan: ExperimentPlan,
    /// The settings as assignments.
    assignments: Vec<String>,
}

impl Search {
    fn from_experiment(experiment: &Experiment) -> Option<Self> {
        let state = experiment.improvement.as_deref()?;
        let tried = state.improvement.tried.iter();
        Some(Self {
            plan: state.plan.clone(),
            assignments: tried.map(|one| one.assignment.clone()).collect(),
        })
    }
}

impl OwnExperiments {
    /// Returns the entries in the folder next to the journal of settings.
    pub fn next_to(journal: &Path) -> Self {
        Self {
            folder: journal.with_file_name("experiments"),
        }
    }

    /// Adds an entry for an experiment that this process created.
    ///
    /// # Errors
    /// [`TrialError::Entry`].
    pub fn enter(&self, experiment: &Experiment) -> Result<(), TrialError> {
        folder::make(&self.folder, 0o700)?;
        let entry = Entry {
            plan: experiment.plan.clone(),
            files: Vec::new(),
            search: Search::from_experiment(experiment),
        };
        self.write(experiment.id, &entry)
    }

    /// Rejects an experiment that this user did not start here, or whose plan has changed since.
    ///
    /// # Errors
    /// [`TrialError::Foreign`] and [`TrialError::Entry`].
    pub fn check(&self, experiment: &Experiment) -> Result<(), TrialError> {
        self.entry(experiment).map(drop)
    }

    /// Returns whether this user started it here, so that [`check`](Self::check) passes.
    pub fn has(&self, experiment: &Experiment) -> bool {
        self.check(experiment).is_ok()
    }

    /// Removes the entry of an experiment that has ended or was deleted. A missing entry is not an
    /// error.
    pub fn forget(&self, id: RecordingId) {
        // An entry that remains permits only the plan that its user started.
        let _ = std::fs::remove_file(self.path(id));
    }

    /// Returns the boot files that are currently written for an experiment.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
    pub(crate) fn files(&self, experiment: &Experiment) -> Result<Vec<WrittenFile>, TrialError> {
        self.entry(experiment).map(|entry| entry.files)
    }

    /// Sets the boot files that are written. The entry survives a power failure once this returns.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
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
        if entry.plan == experiment.plan && entry.search == Search::from_experiment(experiment) {
            Ok(entry)
        } else {
            Err(foreign())
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
