//! Stores the recordings of an experiment.

use punctual_model::{Recording, RecordingId};
use punctual_session::RecordingSink;
use punctual_store::{Lease, Store, StoreError, Writer};

/// A store that saves each recording as a block of an experiment.
pub(crate) struct BlockStore<'a> {
    pub(crate) store: &'a Store,
    pub(crate) experiment: RecordingId,
}

impl RecordingSink for BlockStore<'_> {
    fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError> {
        let writer = self.store.begin(recording, lease)?;
        self.store.mark_block(recording.id, self.experiment)?;
        Ok(writer)
    }

    fn delete(&self, id: RecordingId) -> Result<(), StoreError> {
        self.store.delete(id)
    }

    fn comes_first(&self) -> bool {
        true
    }
}
