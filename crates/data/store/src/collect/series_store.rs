//! Parts of a store that retrospective analysis needs: series, their runs and users' annotations.

use jiff::Timestamp;
use punctual_model::{
    ChangeAnnotation, HostFacts, Note, Recording, RecordingId, SeriesEpoch, SeriesRun, Slot,
};

use crate::{Filter, SlotFilter, Store, StoreError, Summary, texts};

/// Series over time, of one or many machines.
pub trait SeriesStore {
    /// Returns the epochs of all series, ordered by name, machine and number.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn series(&self) -> Result<Vec<SeriesEpoch>, StoreError>;

    /// Returns the epochs of one series. `host` limits them to epochs of the machine with this ID
    /// or host name, and epochs without a host name.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn series_named(&self, name: &str, host: Option<&str>) -> Result<Vec<SeriesEpoch>, StoreError>;

    /// Returns the runs of a series in order of start time. `host` limits them to one machine.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn runs(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
    ) -> Result<Vec<SeriesRun>, StoreError>;

    /// Passes each run that [`runs`](Self::runs) would return to `take`. The store of a single
    /// machine reads a few hundred at a time to limit memory.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
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

    /// Returns the facts with this hash (`SeriesRun::facts`); `None` if there are none.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn facts(&self, hash: &str) -> Result<Option<HostFacts>, StoreError>;

    /// Loads a recording.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], or any error while reading.
    fn recording(&self, id: RecordingId) -> Result<Recording, StoreError>;

    /// Returns the matching recordings, newest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn list_by(&self, filter: &Filter) -> Result<Vec<Summary>, StoreError>;

    /// Returns the matching slots, newest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn slots(&self, filter: &SlotFilter) -> Result<Vec<Slot>, StoreError>;

    /// Returns all notes, ordered by the time that they refer to.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn notes(&self) -> Result<Vec<Note>, StoreError>;

    /// Stores a note. Replaces a note with the same ID.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn put_note(&self, note: &Note) -> Result<(), StoreError>;

    /// Returns all decisions on changes of one series or of all series, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn change_marks(&self, series: Option<&str>) -> Result<Vec<ChangeAnnotation>, StoreError>;

    /// Stores a decision on a change. Earlier decisions are kept.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn put_change_mark(&self, mark: &ChangeAnnotation) -> Result<(), StoreError>;

    /// Stores the result of a slot of this epoch. Replaces its earlier state.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn put_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<(), StoreError>;

    /// Stores several slots, like [`put_slot`](Self::put_slot). If two have the same due time, the
    /// later one is kept.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. In that case, some of the slots may have
    /// been stored.
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
        self.runs_of::<StoreError>(series, host, since, &mut |run| {
            take(run);
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

    fn change_marks(&self, series: Option<&str>) -> Result<Vec<ChangeAnnotation>, StoreError> {
        Self::change_marks(self, series)
    }

    fn put_change_mark(&self, mark: &ChangeAnnotation) -> Result<(), StoreError> {
        Self::put_change_mark(self, mark)
    }

    fn put_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<(), StoreError> {
        texts::check(self.path(), "a series", epoch)?;
        texts::check(self.path(), "a slot", slot)?;
        self.set_slot(epoch, slot)
    }
}
