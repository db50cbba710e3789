//! Limit on the amount of work that a store file may cause. Pages of a damaged or hostile file may
//! form cycles, and SQLite would follow them forever.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::sidecar::sidecar;

/// Steps of SQLite's virtual machine between two checks.
const BETWEEN: u32 = 10_000;

/// Steps that are always allowed: a few tenths of a second.
const SMALL: u64 = 10_000_000;

/// Additional steps per byte of the file. A row takes about 30 steps and 60 bytes.
const PER_BYTE: u64 = 4;

/// Counts the steps of one unit of work, usually a transaction.
#[derive(Debug)]
pub(crate) struct StepLimit {
    path: PathBuf,
    steps: AtomicU64,
}

impl StepLimit {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            steps: AtomicU64::new(0),
        }
    }

    /// Makes `connection` give up ([`rusqlite::ErrorCode::OperationInterrupted`]) when the limit
    /// is reached.
    pub(crate) fn apply_to(self: &Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        let counter = Arc::clone(self);
        let handler = move || counter.count();
        connection.progress_handler(BETWEEN.cast_signed(), Some(handler))
    }

    /// Starts a new unit of work.
    pub(crate) fn begin(&self) {
        self.steps.store(0, Ordering::Relaxed);
    }

    /// Counts one check interval; returns whether the limit is exceeded.
    fn count(&self) -> bool {
        let between = u64::from(BETWEEN);
        let steps = self.steps.fetch_add(between, Ordering::Relaxed) + between;
        if steps <= SMALL {
            return false;
        }
        let size = |path: &Path| fs::metadata(path).map_or(0, |data| data.len());
        let bytes = size(&self.path).saturating_add(size(&sidecar(&self.path, "-wal")));
        steps > SMALL.saturating_add(bytes.saturating_mul(PER_BYTE))
    }
}
