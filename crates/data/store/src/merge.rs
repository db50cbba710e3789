//! Merges another store into this one. Existing data is not changed.

use std::collections::BTreeSet;

use punctual_model::{Completion, Origin, Recording, RecordingId, Slot, SlotState};
use rusqlite::OptionalExtension;
use serde::Serialize;

use crate::chunk::Packing;
use crate::entry::id_text;
use crate::slots::SlotFilter;
use crate::texts::{self, LeftOut};
use crate::{Lease, Store, StoreError, Writer, plan, slots};

/// Counts of merged data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Merged {
    /// Number of recordings.
    pub recordings: u64,
    /// Number of recordings that already existed.
    pub known: u64,
    /// Number of recordings that are still running; they are not merged.
    pub running: u64,
    /// Number of slots that are new or have ended since.
    pub slots: u64,
    /// Number of wake-up windows.
    pub windows: u64,
    /// Number of notes and decisions on changes.
    pub annotations: u64,
    /// Number of experiments.
    pub experiments: u64,
    /// Entries that were left out.
    #[serde(flatten)]
    pub refused: LeftOut,
}

punctual_model::to_json!(Merged);

fn origin_of_copy(other: &Store) -> Origin {
    Origin {
        format: "store".to_owned(),
        tool: "punctual store merge".to_owned(),
        file: other.path().display().to_string(),
        unknown: BTreeSet::new(),
    }
}

impl Store {
    /// Adds all data of `other` that this store does not have. A repeated merge duplicates nothing,
    /// and continues a merge that was killed. Entries with a text that exceeds its limit are left
    /// out and counted. `lease` is the lease of this process.
    ///
    /// # Errors
    /// [`StoreError::SeriesDiffers`] before anything is merged, or any error while reading or
    /// writing.
    pub fn merge(&self, other: &Self, lease: &Lease) -> Result<Merged, StoreError> {
        let epochs = other.series()?;
        let own = self.series()?;
        for epoch in &epochs {
            let same = |known: &&punctual_model::SeriesEpoch| {
                (&known.machine, &known.name, known.epoch)
                    == (&epoch.machine, &epoch.name, epoch.epoch)
            };
            if own
                .iter()
                .find(same)
                .is_some_and(|known| known.definition != epoch.definition)
            {
                return Err(StoreError::SeriesDiffers {
                    name: epoch.name.clone(),
                    epoch: epoch.epoch,
                });
            }
        }
        let mut merged = Merged::default();
        for summary in other.list()?.into_iter().rev() {
            match self.has(summary.id)? {
                _ if summary.completion == Completion::Running => merged.running += 1,
                true => merged.known += 1,
                false => {
                    let taken = self.take_recording(other, summary.id, lease);
                    if merged.refused.pass(taken)?.is_none() {
                        continue;
                    }
                    merged.recordings += 1;
                }
            }
            // If the program is killed before this step, the next merge adds the recording to its
            // series.
            if summary.completion != Completion::Running {
                self.join_as_in(other, summary.id)?;
            }
        }
        for epoch in &epochs {
            let put = self
                .link
                .write(|connection, context| plan::put_epoch(connection, context, epoch));
            merged.refused.pass(put)?;
        }
        merged.slots = self.take_slots(other, &mut merged.refused)?;
        other.wake_windows(None, &mut |window| -> Result<(), StoreError> {
            let added = merged.refused.pass(self.add_wake_window(&window))?;
            merged.windows += u64::from(added == Some(true));
            Ok(())
        })?;
        self.take_marks(other, &mut merged)?;
        Ok(merged)
    }

    fn has(&self, id: RecordingId) -> Result<bool, StoreError> {
        self.read(|connection, context| {
            connection
                .prepare_cached("SELECT 1 FROM recording WHERE id = ?1")
                .and_then(|mut statement| statement.exists([id_text(id)]))
                .map_err(|error| context.on(error))
        })
    }

    fn take_recording(
        &self,
        other: &Self,
        id: RecordingId,
        lease: &Lease,
    ) -> Result<(), StoreError> {
        let mut recording = other.load(id)?;
        recording.judge_anew();
        let mut writer = self.begin_copy(&mut recording, other, lease)?;
        let copied = (|| {
            for thread in 0..recording.threads.len() as u32 {
                other.samples::<StoreError>(id, thread, &mut |samples| {
                    writer.samples(thread, samples)
                })?;
            }
            for attached in other.attachments(id)? {
                let found = other.attachment(id, &attached.kind, attached.number)?;
                if let Some((about, body)) = found {
                    writer.attach(&attached.kind, attached.number, &about, &body)?;
                }
            }
            writer.seal().map(drop)
        })();
        match copied {
            Ok(()) => writer.finish(&recording),
            Err(error) => {
                // The first error is reported.
                let _ = writer.abandon();
                Err(error)
            }
        }
    }

    /// Until the copy is complete, it is an import: a sweep removes an incomplete import, so that the
    /// next merge copies the recording again. [`Writer::finish`] writes the true origin.
    fn begin_copy(
        &self,
        recording: &mut Recording,
        other: &Self,
        lease: &Lease,
    ) -> Result<Writer, StoreError> {
        let origin = recording.origin.take();
        let packing = Packing::of(origin.as_ref());
        recording.origin = origin.clone().or_else(|| Some(origin_of_copy(other)));
        let writer = self.begin(recording, lease);
        recording.origin = origin;
        let mut writer = writer?;
        writer.packing = packing;
        Ok(writer)
    }

    /// Adds a recording to the series and the experiment that it belongs to in `other`.
    fn join_as_in(&self, other: &Self, id: RecordingId) -> Result<(), StoreError> {
        let (series, experiment): (Option<i64>, Option<String>) =
            other.read(|connection, context| {
                connection
                    .prepare_cached("SELECT series, experiment FROM recording WHERE id = ?1")
                    .and_then(|mut statement| {
                        let id = id_text(id);
                        statement
                            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
                            .optional()
                    })
                    .map(Option::unwrap_or_default)
                    .map_err(|error| context.on(error))
            })?;
        if let Some(key) = series
            && self.series_of(id)?.is_none()
        {
            let epochs = other.read(plan::epochs)?;
            if let Some((_, epoch)) = epochs.iter().find(|(known, _)| *known == key) {
                match self.join_series(id, epoch) {
                    // A refused series is counted when the series itself is refused, not here.
                    Err(StoreError::LongText { .. }) => {}
                    other => other?,
                }
            }
        }
        let experiment = experiment.and_then(|text| uuid::Uuid::try_parse(&text).ok());
        match experiment {
            Some(experiment) => self.mark_block(id, RecordingId(experiment)),
            None => Ok(()),
        }
    }

    /// A slot that has ended in `other` but is still running here is marked as ended.
    fn take_slots(&self, other: &Self, refused: &mut LeftOut) -> Result<u64, StoreError> {
        let epochs = other.series()?;
        let own = self.slots(&SlotFilter::default())?;
        let key = |slot: &Slot| {
            (
                slot.machine.clone(),
                slot.series.clone(),
                slot.epoch,
                slot.due,
            )
        };
        let own: std::collections::BTreeMap<_, SlotState> =
            own.iter().map(|slot| (key(slot), slot.state)).collect();
        let mut taken = 0;
        for slot in other.slots(&SlotFilter::default())? {
            let known = own.get(&key(&slot));
            let newer = known == Some(&SlotState::Running) && slot.state != SlotState::Running;
            if known.is_some() && !newer {
                continue;
            }
            let epoch = epochs.iter().find(|epoch| {
                (&epoch.machine, &epoch.name, epoch.epoch)
                    == (&slot.machine, &slot.series, slot.epoch)
            });
            if let Some(epoch) = epoch {
                let written = texts::check(self.path(), "a slot", &slot).and_then(|()| {
                    self.link.write(|connection, context| {
                        slots::write(connection, context, epoch, &slot, false)
                    })
                });
                taken += u64::from(refused.pass(written)?.is_some());
            }
        }
        Ok(taken)
    }

    fn take_marks(&self, other: &Self, merged: &mut Merged) -> Result<(), StoreError> {
        let notes = self.notes()?;
        for note in other.notes()? {
            if !notes.iter().any(|known| known.id == note.id) {
                let put = merged.refused.pass(self.put_note(&note))?;
                merged.annotations += u64::from(put.is_some());
            }
        }
        let marks = self.change_marks(None)?;
        for mark in other.change_marks(None)? {
            if !marks.iter().any(|known| known.id == mark.id) {
                let put = merged.refused.pass(self.put_change_mark(&mark))?;
                merged.annotations += u64::from(put.is_some());
            }
        }
        let experiments = self.experiments()?;
        for experiment in other.experiments()? {
            if !experiments.iter().any(|known| known.id == experiment.id) {
                let put = merged.refused.pass(self.put_experiment(&experiment))?;
                merged.experiments += u64::from(put.is_some());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Store;
    use crate::tests::{lease, recording, store_path};

    #[test]
    fn killed_merge_is_repeated() {
        let (_here, path) = store_path();
        let (_there, other_path) = store_path();
        let (store, other) = (
            Store::open(&path).unwrap(),
            Store::open(&other_path).unwrap(),
        );
        let one = recording(1);
        other.begin(&one, &lease()).unwrap().finish(&one).unwrap();
        // The program is killed after the first commit of the copy.
        let mut half = other.load(one.id).unwrap();
        drop(store.begin_copy(&mut half, &other, &lease()).unwrap());
        assert_eq!(half, other.load(one.id).unwrap());
        assert_eq!(store.sweep(&|_| false).unwrap(), 1);
        assert_eq!(store.merge(&other, &lease()).unwrap().recordings, 1);
        assert_eq!(store.load(one.id).unwrap(), other.load(one.id).unwrap());
    }
}
