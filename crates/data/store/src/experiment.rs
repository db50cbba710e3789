//! Experiments in the store: their JSON, and the recordings that belong to them as blocks.

use std::cmp::Reverse;

use punctual_files::lease::Lease as Held;
use punctual_model::{
    Completion, Experiment, ExperimentState, FromJson, Judgement, RecordingId, ToJson,
};
use rusqlite::{Connection, params};

use crate::bits::Crc;
use crate::entry::{Entry, id_text};
use crate::error::Context;
use crate::load::load;
use crate::parts::head_json;
use crate::select::Selector;
use crate::{Lease, Store, StoreError, facts, lease, pack, texts};

/// Lease held by the process that is running an experiment, and released on drop.
#[derive(Debug)]
pub struct ExperimentLease {
    _held: Option<Held>,
}

impl Store {
    /// Stores an experiment. Replaces its earlier state. Once this returns, the experiment survives
    /// a power cut.
    ///
    /// # Errors
    /// [`StoreError::LongText`] for a new experiment, or any error while writing.
    pub fn put_experiment(&self, experiment: &Experiment) -> Result<(), StoreError> {
        let json = experiment.to_json();
        let id = id_text(experiment.id);
        let crc = crc(&id, &json);
        self.link.write(|connection, context| {
            let is_known = connection
                .prepare_cached("SELECT 1 FROM experiment WHERE id = ?1")
                .and_then(|mut statement| statement.exists([&id]))
                .map_err(|error| context.on(error))?;
            // Limits apply to new experiments only, so that an experiment of an earlier program can
            // continue.
            if !is_known {
                texts::check(&context.path, format!("experiment {id}"), experiment)?;
            }
            connection
                .prepare_cached(
                    "INSERT INTO experiment (id, json, crc) VALUES (?1, ?2, ?3)
                     ON CONFLICT (id) DO UPDATE SET json = ?2, crc = ?3",
                )
                .and_then(|mut statement| statement.execute(params![id, json, crc]))
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }

    /// Returns all experiments, newest first.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn experiments(&self) -> Result<Vec<Experiment>, StoreError> {
        let rows = self.read(|connection, context| -> Result<_, StoreError> {
            let on = |error| context.on(error);
            let mut statement = connection
                .prepare_cached("SELECT id, json, crc FROM experiment")
                .map_err(on)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            rows.and_then(Iterator::collect::<rusqlite::Result<Vec<(String, String, u32)>>>)
                .map_err(on)
        })?;
        let mut all = (rows.iter())
            .map(|(id, json, found)| read(&self.link.context, id, json, *found))
            .collect::<Result<Vec<_>, _>>()?;
        for experiment in &mut all {
            if experiment.state == ExperimentState::Running && !self.experiment_lives(experiment.id)
            {
                experiment.state = ExperimentState::Interrupted;
            }
        }
        all.sort_by_key(|experiment| Reverse((experiment.started, experiment.id)));
        Ok(all)
    }

    /// Finds the experiment for `selector`, in the same way as [`find`](Self::find) for recordings.
    ///
    /// # Errors
    /// Same as [`find`](Self::find), with [`StoreError::NoSuchExperiment`].
    pub fn find_experiment(&self, selector: &str) -> Result<Experiment, StoreError> {
        let all = self.experiments()?;
        let mut found = Selector::first(selector, |reading| {
            let all = all.iter().cloned();
            Ok(match reading {
                Selector::Last(back) => all.skip(*back as usize).take(1).collect(),
                Selector::Digits(digits) => all
                    .filter(|experiment| {
                        let id = id_text(experiment.id);
                        id.starts_with(digits) || id.ends_with(digits)
                    })
                    .collect(),
                Selector::Label(label, back) => all
                    .filter(|experiment| experiment.label.as_ref() == Some(label))
                    .skip(*back as usize)
                    .take(1)
                    .collect(),
            })
        })?;
        match found.len() {
            0 => Err(StoreError::NoSuchExperiment {
                path: self.path().to_owned(),
                selector: selector.to_owned(),
            }),
            1 => Ok(found.remove(0)),
            _ => Err(StoreError::Ambiguous {
                selector: selector.to_owned(),
                candidates: found.iter().map(|experiment| experiment.id).collect(),
            }),
        }
    }

    /// Marks a recording as a block of an experiment.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn mark_block(
        &self,
        recording: RecordingId,
        experiment: RecordingId,
    ) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
            connection
                .prepare_cached("UPDATE recording SET experiment = ?2 WHERE id = ?1")
                .and_then(|mut statement| {
                    statement.execute(params![id_text(recording), id_text(experiment)])
                })
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }

    /// Adds the verdict of the experiment to a finished recording.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::NotFinal`] if it is still running, or any error while
    /// reading or writing.
    pub fn put_judgement(&self, id: RecordingId, judgement: &Judgement) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
            let (key, mut entry) = Entry::find(connection, id, context)?;
            if entry.summary.completion == Completion::Running {
                return Err(StoreError::NotFinal { id });
            }
            let mut recording = load(connection, context, id, false)?;
            recording.be_judged(judgement.clone());
            entry.summary.outcome = recording.verdict.outcome;
            let head = facts::take_out(&head_json(&recording, recording.samples));
            pack::write(connection, key, &head, &recording.threads)
                .and_then(|()| entry.write(connection, Some(key)))
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }

    /// Deletes an experiment and all recordings that are marked as its blocks.
    ///
    /// # Errors
    /// Same as [`delete`](Self::delete).
    pub fn delete_experiment(&self, id: RecordingId) -> Result<(), StoreError> {
        let blocks = self.read(|connection, context| {
            marked(connection, id).map_err(|error| context.on(error))
        })?;
        for block in blocks {
            self.delete(self.find(&block)?)?;
        }
        self.link.write_on_a_full_disk(|connection, context| {
            connection
                .prepare_cached("DELETE FROM experiment WHERE id = ?1")
                .and_then(|mut statement| statement.execute([id_text(id)]))
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }

    /// Takes the lease of an experiment before it runs. Returns `None` if another live process
    /// holds it.
    pub fn lease_experiment(&self, id: RecordingId, own: &Lease) -> Option<ExperimentLease> {
        if self.experiment_lives(id) {
            return None;
        }
        lease::remove(self.path(), id);
        Some(ExperimentLease {
            _held: lease::take(self.path(), id, own),
        })
    }

    /// Returns whether a process is running the experiment.
    pub fn experiment_lives(&self, id: RecordingId) -> bool {
        lease::lives(self.path(), id, None, &|_| true)
    }
}

fn crc(id: &str, json: &str) -> u32 {
    Crc::new("experiment", 0).text(id).text(json).end()
}

fn read(context: &Context, id: &str, json: &str, found: u32) -> Result<Experiment, StoreError> {
    if crc(id, json) != found {
        return Err(context.damaged(format!("experiment {id} was changed")));
    }
    Experiment::from_json(json.as_bytes())
        .map_err(|error| context.damaged(format!("experiment {id} cannot be read: {error}")))
}

/// Returns the recordings that are marked as blocks of an experiment.
fn marked(connection: &Connection, id: RecordingId) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached("SELECT id FROM recording WHERE experiment = ?1")?
        .query_map([id_text(id)], |row| row.get(0))?
        .collect()
}
