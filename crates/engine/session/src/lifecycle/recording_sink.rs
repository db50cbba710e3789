//! Destination of a recording while it is made.

use std::cell::OnceCell;

use punctual_model::{Recording, RecordingId};
use punctual_store::{Lease, Store, StoreError, Writer};

/// Destination of a recording while it is made.
pub trait RecordingSink {
    /// Begins the recording.
    ///
    /// # Errors
    /// Same as [`Store::begin`].
    fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError>;

    /// Deletes a recording without measurements.
    ///
    /// # Errors
    /// Same as [`Store::delete`].
    fn delete(&self, id: RecordingId) -> Result<(), StoreError>;

    /// Returns whether the recording begins before the measurement, so that an error of the store
    /// is known early. Otherwise, the recording begins during the measurement, which then does not
    /// have to wait for a disk, and an error becomes the store error of the outcome.
    fn comes_first(&self) -> bool;
}

impl RecordingSink for Store {
    fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError> {
        Self::begin(self, recording, lease)
    }

    fn delete(&self, id: RecordingId) -> Result<(), StoreError> {
        Self::delete(self, id)
    }

    fn comes_first(&self) -> bool {
        true
    }
}

/// A store that is opened after the measurement has begun.
pub struct LaterStore {
    open: Box<dyn Fn() -> Result<Store, StoreError>>,
    store: OnceCell<Store>,
}

impl LaterStore {
    /// Creates a sink with the store that `open` opens.
    pub fn new(open: impl Fn() -> Result<Store, StoreError> + 'static) -> Self {
        Self {
            open: Box::new(open),
            store: OnceCell::new(),
        }
    }

    fn store(&self) -> Result<&Store, StoreError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = (self.open)()?;
        Ok(self.store.get_or_init(|| store))
    }
}

impl RecordingSink for LaterStore {
    fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError> {
        self.store()?.begin(recording, lease)
    }

    fn delete(&self, id: RecordingId) -> Result<(), StoreError> {
        self.store()?.delete(id)
    }

    fn comes_first(&self) -> bool {
        false
    }
}
