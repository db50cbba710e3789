//! How much work a store may make: pages of a damaged or hostile file may lead in
//! circles, and SQLite would follow them for ever.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::beside::beside;

/// Steps of SQLite's virtual machine between two looks.
const BETWEEN: u32 = 10_000;

/// Steps that any work may take: some tenths of a second.
const SMALL: u64 = 10_000_000;

/// Steps for each byte of the file. A row takes some 30 steps and 60 bytes.
const PER_BYTE: u64 = 4;

/// Counts the steps of one piece of work, mostly a transaction.
#[derive(Debug)]
pub(crate) struct Budget {
    path: PathBuf,
    spent: AtomicU64,
}

impl Budget {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            spent: AtomicU64::new(0),
        }
    }

    /// Has `connection` give up ([`rusqlite::ErrorCode::OperationInterrupted`]) where
    /// the budget is used up.
    pub(crate) fn limit(self: &Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        let budget = Arc::clone(self);
        let handler = move || budget.spend();
        connection.progress_handler(BETWEEN.cast_signed(), Some(handler))
    }

    /// Begins the next piece of work.
    pub(crate) fn begin(&self) {
        self.spent.store(0, Ordering::Relaxed);
    }

    /// Counts; whether it is too much.
    fn spend(&self) -> bool {
        let between = u64::from(BETWEEN);
        let spent = self.spent.fetch_add(between, Ordering::Relaxed) + between;
        if spent <= SMALL {
            return false;
        }
        let size = |path: &Path| fs::metadata(path).map_or(0, |data| data.len());
        let bytes = size(&self.path).saturating_add(size(&beside(&self.path, "-wal")));
        spent > SMALL.saturating_add(bytes.saturating_mul(PER_BYTE))
    }
}
