//! What looking back needs of a store: series, their runs, and what users wrote of them.

use jiff::Timestamp;
use punctual_model::{
    ChangeMark, HostFacts, Note, Recording, RecordingId, SeriesEpoch, SeriesRun, Slot,
};

use crate::{Filter, SlotFilter, Store, StoreError, Summary};

/// Series over time, of one machine or of many.
pub trait SeriesStore {
    /// The epochs of all series, by name, machine and number.
    ///
    /// # Errors
    /// What reading can fail with.
    fn series(&self) -> Result<Vec<SeriesEpoch>, StoreError>;

    /// The epochs of one series; only of the machine `host`, by its number or name, where it
    /// is given, and those whose machine has no name.
    ///
    /// # Errors
    /// What reading can fail with.
    fn series_named(&self, name: &str, host: Option<&str>) -> Result<Vec<SeriesEpoch>, StoreError>;

    /// The runs of a series by the time they began; only of the machine `host` where it
    /// is given.
    ///
    /// # Errors
    /// What reading can fail with.
    fn runs(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
    ) -> Result<Vec<SeriesRun>, StoreError>;

    /// Hands each of these runs to `take`, as [`runs`](Self::runs); a store of one machine
    /// reads some hundred at a time, so that memory stays small.
    ///
    /// # Errors
    /// What reading can fail with.
    fn each_run(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
        take: &mut dyn FnMut(SeriesRun),
    ) -> Result<(), StoreError> {
        self.runs(series, host, since)?.into_iter().for_each(take);
        Ok(())
    }

    /// The facts with this hash (`SeriesRun::facts`); `None` where there are none.
    ///
    /// # Errors
    /// What reading can fail with.
    fn facts(&self, hash: &str) -> Result<Option<HostFacts>, StoreError>;

    /// A recording.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], and what reading can fail with.
    fn recording(&self, id: RecordingId) -> Result<Recording, StoreError>;

    /// The recordings that fit, the newest first.
    ///
    /// # Errors
    /// What reading can fail with.
    fn list_by(&self, filter: &Filter) -> Result<Vec<Summary>, StoreError>;

    /// The slots that fit, the newest first.
    ///
    /// # Errors
    /// What reading can fail with.
    fn slots(&self, filter: &SlotFilter) -> Result<Vec<Slot>, StoreError>;

    /// All notes, by the moment that they are about.
    ///
    /// # Errors
    /// What reading can fail with.
    fn notes(&self) -> Result<Vec<Note>, StoreError>;

    /// Keeps a note, in place of one of the same identity.
    ///
    /// # Errors
    /// What writing can fail with.
    fn put_note(&self, note: &Note) -> Result<(), StoreError>;

    /// All decisions on changes of a series, or of all, the oldest first.
    ///
    /// # Errors
    /// What reading can fail with.
    fn change_marks(&self, series: Option<&str>) -> Result<Vec<ChangeMark>, StoreError>;

    /// Keeps a decision on a change. Earlier ones stay.
    ///
    /// # Errors
    /// What writing can fail with.
    fn put_change_mark(&self, mark: &ChangeMark) -> Result<(), StoreError>;

    /// Keeps what became of a slot of this epoch, in place of its earlier state.
    ///
    /// # Errors
    /// What writing can fail with.
    fn put_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<(), StoreError>;

    /// Keeps several slots, each as [`put_slot`](Self::put_slot) does; of two of one due
    /// time the later one stays.
    ///
    /// # Errors
    /// What writing can fail with; some may be kept then.
    fn put_slots(&self, slots: &[(SeriesEpoch, Slot)]) -> Result<(), StoreError> {
        slots
            .iter()
            .try_for_each(|(epoch, slot)| self.put_slot(epoch, slot))
    }
}

impl SeriesStore for Store {
    fn series(&self) -> Result<Vec<SeriesEpoch>, StoreError> {
        Self::series(self)
    }

    fn series_named(&self, name: &str, host: Option<&str>) -> Result<Vec<SeriesEpoch>, StoreError> {
        Self::series_named(self, name, host)
    }

    fn runs(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
    ) -> Result<Vec<SeriesRun>, StoreError> {
        let mut runs = Vec::new();
        self.each_run(series, host, since, &mut |run| runs.push(run))?;
        Ok(runs)
    }

    fn each_run(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
        take: &mut dyn FnMut(SeriesRun),
    ) -> Result<(), StoreError> {
        self.runs_of::<StoreError>(series, since, &mut |run| {
            if host.is_none_or(|host| run.host.as_deref() == Some(host)) {
                take(run);
            }
            Ok(())
        })
        .map(drop)
    }

    fn facts(&self, hash: &str) -> Result<Option<HostFacts>, StoreError> {
        Self::facts(self, hash)
    }

    fn recording(&self, id: RecordingId) -> Result<Recording, StoreError> {
        self.load(id)
    }

    fn list_by(&self, filter: &Filter) -> Result<Vec<Summary>, StoreError> {
        Self::list_by(self, filter)
    }

    fn slots(&self, filter: &SlotFilter) -> Result<Vec<Slot>, StoreError> {
        Self::slots(self, filter)
    }

    fn notes(&self) -> Result<Vec<Note>, StoreError> {
        Self::notes(self)
    }

    fn put_note(&self, note: &Note) -> Result<(), StoreError> {
        Self::put_note(self, note)
    }

    fn change_marks(&self, series: Option<&str>) -> Result<Vec<ChangeMark>, StoreError> {
        Self::change_marks(self, series)
    }

    fn put_change_mark(&self, mark: &ChangeMark) -> Result<(), StoreError> {
        Self::put_change_mark(self, mark)
    }

    fn put_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<(), StoreError> {
        self.set_slot(epoch, slot)
    }
}
