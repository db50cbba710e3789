//! What the store of a server has beside the recordings that were delivered.

use std::path::PathBuf;

use anyhow::Result;
use punctual_model::Recording;
use punctual_report::OutlierTimeline;
use punctual_serve::SourceError;
use punctual_serve::evidence::Evidence;
use punctual_store::Store;

use crate::verbs::{bundle, explain::timelines};

/// That of a file; a database keeps no trace events.
pub(super) struct Stored(pub(super) Option<PathBuf>);

impl Stored {
    fn open(&self) -> Result<Option<Store>> {
        let path = self.0.as_deref();
        Ok(path.map(Store::open_read_only).transpose()?)
    }
}

impl Evidence for Stored {
    fn timeline(
        &self,
        recording: &Recording,
        number: u64,
    ) -> Result<Option<OutlierTimeline>, SourceError> {
        let found = self.open().and_then(|store| match store {
            Some(store) => timelines::timeline(&store, recording, number),
            None => Ok(None),
        });
        found.map_err(SourceError::new)
    }

    fn bundle(&self, recording: &Recording) -> Result<Vec<u8>, SourceError> {
        let mut packed = Vec::new();
        let written = self.open().and_then(|store| {
            let readers = bundle::Readers::Owner;
            bundle::pack(&mut packed, store.as_ref(), recording, readers, false)
        });
        written.map(|()| packed).map_err(SourceError::new)
    }
}
