//! Writes a run to the store. An error of the store does not end the run: the first error is
//! remembered, data is kept in memory, and writing is retried at the end.

use punctual_host::Host;
use punctual_model::{Completion, Recording};
use punctual_store::{Batch, StoreError, Writer};

use super::recording_sink::RecordingSink;

/// Begins the recording in a store that is opened later.
type Begin<'a> = Box<dyn FnOnce() -> Result<Writer, StoreError> + 'a>;

/// Writes a recording, if there is a store.
pub(crate) struct StoreWriter<'a> {
    begin: Option<Begin<'a>>,
    writer: Option<Writer>,
    error: Option<StoreError>,
}

impl<'a> StoreWriter<'a> {
    /// Begins the recording now, or in [`open`](Self::open) if the store is to be opened later.
    ///
    /// # Errors
    /// Returns an error if the store rejects the recording now.
    pub(super) fn begin(
        store: Option<&'a dyn RecordingSink>,
        recording: &Recording,
        host: &Host,
    ) -> Result<Self, StoreError> {
        let mut this = Self {
            begin: None,
            writer: None,
            error: None,
        };
        if let Some(store) = store {
            let lease = host.lease();
            if store.comes_first() {
                this.writer = Some(store.begin(recording, &lease)?);
            } else {
                let recording = recording.clone();
                this.begin = Some(Box::new(move || store.begin(&recording, &lease)));
            }
        }
        Ok(this)
    }

    /// Opens the store if it is to be opened later.
    pub(crate) fn open(&mut self) {
        match self.begin.take().map(|begin| begin()) {
            Some(Ok(writer)) => self.writer = Some(writer),
            Some(Err(error)) => self.note(Err(error)),
            None => {}
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.writer.is_some()
    }

    /// Returns the writer, if the store is open.
    pub(crate) fn writer(&mut self) -> Option<&mut Writer> {
        self.writer.as_mut()
    }

    /// Keeps the error, unless there is an earlier one.
    pub(crate) fn note(&mut self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    /// Commits a batch. Returns whether the store has it.
    pub(super) fn commit(&mut self, batch: &Batch) -> bool {
        let Some(writer) = &mut self.writer else {
            return false;
        };
        let result = writer.commit(batch);
        let is_in = result.is_ok();
        self.note(result);
        is_in
    }

    /// Completes the recording. Returns the reason if the store does not have all of it.
    pub(super) fn finish(self, recording: &Recording) -> Option<StoreError> {
        match self.writer.map(|writer| writer.finish(recording)) {
            // Finishing has also written everything that an earlier error had delayed.
            Some(Ok(())) => None,
            Some(Err(error)) => Some(self.error.unwrap_or(error)),
            None => self.error,
        }
    }

    /// Removes a recording without measurements.
    pub(super) fn take_back(self, store: Option<&dyn RecordingSink>, mut recording: Recording) {
        recording.completion = Completion::Interrupted;
        let finish = |writer: Writer| writer.finish(&recording);
        if let (Some(store), Some(Ok(()))) = (store, self.writer.map(finish)) {
            // The error of the run is reported anyway, and an empty recording that remains does no
            // harm.
            let _ = store.delete(recording.id);
        }
    }
}
