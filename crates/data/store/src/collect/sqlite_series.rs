//! Series of a collection in one SQLite file: the series of its store.

use jiff::Timestamp;
use punctual_model::{
    ChangeAnnotation, HostFacts, Note, Recording, RecordingId, SeriesEpoch, SeriesRun, Slot,
};

use super::{SeriesStore, SqliteCollection};
use crate::{Filter, SlotFilter, Store, StoreError, Summary};

impl SeriesStore for SqliteCollection {
    fn series(&self) -> Result<Vec<SeriesEpoch>, StoreError> {
        self.with_store(Store::series)
    }

    fn series_named(&self, name: &str, host: Option<&str>) -> Result<Vec<SeriesEpoch>, StoreError> {
        self.with_store(|store| store.series_named(name, host))
    }

    fn runs(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
    ) -> Result<Vec<SeriesRun>, StoreError> {
        self.with_store(|store| store.runs(series, host, since))
    }

    fn facts(&self, hash: &str) -> Result<Option<HostFacts>, StoreError> {
        self.with_store(|store| store.facts(hash))
    }

    fn recording(&self, id: RecordingId) -> Result<Recording, StoreError> {
        self.with_store(|store| store.load(id))
    }

    fn list_by(&self, filter: &Filter) -> Result<Vec<Summary>, StoreError> {
        self.with_store(|store| store.list_by(filter))
    }

    fn slots(&self, filter: &SlotFilter) -> Result<Vec<Slot>, StoreError> {
        self.with_store(|store| store.slots(filter))
    }

    fn notes(&self) -> Result<Vec<Note>, StoreError> {
        self.with_store(Store::notes)
    }

    fn put_note(&self, note: &Note) -> Result<(), StoreError> {
        self.with_store(|store| store.put_note(note))
    }

    fn change_marks(&self, series: Option<&str>) -> Result<Vec<ChangeAnnotation>, StoreError> {
        self.with_store(|store| store.change_marks(series))
    }

    fn put_change_mark(&self, mark: &ChangeAnnotation) -> Result<(), StoreError> {
        self.with_store(|store| store.put_change_mark(mark))
    }

    fn put_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<(), StoreError> {
        self.with_store(|store| store.put_slot(epoch, slot))
    }
}
