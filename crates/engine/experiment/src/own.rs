//! The experiments that this user started on this machine. A store may come from another machine,
//! and an experiment in it contains commands, loads, settings and boot parameters. Only experiments
//! that have an entry in this user's folder are continued or undone. All others are only shown.

use std::path::{Path, PathBuf};

use punctual_files::{Output, folder, trusted};
use punctual_model::{
    Experiment, ExperimentPlan, FromJson, RecordingId, ToJson, WrittenFile, from_json, to_json,
};
use serde::{Deserialize, Serialize};

use crate::error::TrialError;

/// Maximum size of an entry in bytes. An entry can be large, because it contains files of a boot
/// loader.
const LONGEST: u64 = 16 << 20;

/// The entries. Each is a file in a private folder of the user.
#[derive(Clone, Debug)]
pub struct OwnExperiments {
    folder: PathBuf,
}

/// The plan of an experiment, and the files to restore.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    plan: ExperimentPlan,
    /// Boot files that have been written so far, in the order in which they were written.
    files: Vec<WrittenFile>,
    /// This is set for the first stage of a search for settings.
    #[serde(default)]
    search: Option<Search>,
}

/// The settings that a search measures and writes, and the plan of the search.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    plan: ExperimentPlan,
    /// The settings as assignments.
    assignments: Vec<String>,
}

to_json!(Entry);
from_json!(Entry);

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
    /// Returns the entries, which are in a folder next to the journal of settings.
    pub fn next_to(journal: &Path) -> Self {
        Self {
            folder: journal.with_file_name("experiments"),
        }
    }

    /// Adds an entry for an experiment that this process created.
    ///
    /// # Errors
    /// Returns [`TrialError::Entry`].
    pub fn enter(&self, experiment: &Experiment) -> Result<(), TrialError> {
        folder::make(&self.folder, 0o700)?;
        let entry = Entry {
            plan: experiment.plan.clone(),
            files: Vec::new(),
            search: Search::from_experiment(experiment),
        };
        self.write(experiment.id, &entry)
    }

    /// Rejects an experiment that this user did not start on this machine, or whose plan has
    /// changed since then.
    ///
    /// # Errors
    /// Returns [`TrialError::Foreign`] and [`TrialError::Entry`].
    pub fn check(&self, experiment: &Experiment) -> Result<(), TrialError> {
        self.entry(experiment).map(drop)
    }

    /// Returns whether this user started the experiment on this machine, so that
    /// [`check`](Self::check) accepts it.
    pub fn has(&self, experiment: &Experiment) -> bool {
        self.check(experiment).is_ok()
    }

    /// Removes the entry of an experiment that has ended or was deleted. A missing entry is not an
    /// error.
    pub fn forget(&self, id: RecordingId) {
        // If this fails, the remaining entry allows only the plan that the user started.
        let _ = std::fs::remove_file(self.path(id));
    }

    /// Returns the boot files that have been written for an experiment and not restored yet.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
    pub(crate) fn files(&self, experiment: &Experiment) -> Result<Vec<WrittenFile>, TrialError> {
        self.entry(experiment).map(|entry| entry.files)
    }

    /// Stores the list of boot files that have been written. Once this returns, the entry survives
    /// a power failure.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
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
        let entry = Entry::from_json(text.as_bytes()).map_err(|_| foreign())?;
        if entry.plan == experiment.plan && entry.search == Search::from_experiment(experiment) {
            Ok(entry)
        } else {
            Err(foreign())
        }
    }

    fn write(&self, id: RecordingId, entry: &Entry) -> Result<(), TrialError> {
        Ok(Output::private(&self.path(id))?.put(entry.to_json().as_bytes())?)
    }

    fn path(&self, id: RecordingId) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}
