//! Where a recording goes while it is made.

use std::cell::OnceCell;

use punctual_model::{Recording, RecordingId};
use punctual_store::{Lease, Store, StoreError, Writer};

/// Where a recording goes while it is made.
pub trait RecordingSink {
    /// Begins it.
    ///
    /// # Errors
    /// Those of [`Store::begin`].
    fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError>;

    /// Removes one of which nothing was measured.
    ///
    /// # Errors
    /// Those of [`Store::delete`].
    fn delete(&self, id: RecordingId) -> Result<(), StoreError>;

    /// Whether it begins before anything is measured, so that a store that
    /// refuses is known then. Else it begins beside the measurement, which need
    /// not wait for a disk; a refusal is a store error of the outcome.
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

/// A store that is opened when the measurement runs already.
pub struct LaterStore {
    open: Box<dyn Fn() -> Result<Store, StoreError>>,
    store: OnceCell<Store>,
}

impl LaterStore {
    /// The one that `open` opens.
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
