//! Converts a store of an earlier schema to that of this program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Transaction, TransactionBehavior};

use crate::open::Link;
use crate::schema::{check_objects, found_schema};
use crate::sidecar::sidecar;
use crate::steps::{OLDEST, STEPS, remedy};
use crate::tables::SCHEMA;
use crate::{Store, StoreError};

/// How long to wait for other programs. A program that has the store open keeps it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A conversion of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The store.
    pub path: PathBuf,
    /// Its schema before the conversion.
    pub from: i64,
    /// Its schema after the conversion.
    pub to: i64,
    /// The copy of the store with the earlier schema.
    pub backup: PathBuf,
}

impl Store {
    /// Converts the store at `path` to the schema of this program, in one transaction, after it has
    /// been copied to [`Upgrade::backup`]. An earlier copy with that name is replaced. With
    /// `dry_run`, converts nothing and copies nothing, but tries each statement. Returns `None` if
    /// the store already has the schema of this program.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another program has the store open; otherwise any error while
    /// reading or writing. In each case, the store is unchanged.
    pub fn upgrade(path: &Path, dry_run: bool) -> Result<Option<Upgrade>, StoreError> {
        let link = Link::open_alone(path, PATIENCE)?;
        let context = &link.context;
        let path = context.path.clone();
        let from = match found_schema(&link.connection, context).map_err(in_use)? {
            None => return Err(StoreError::NotThere { path }),
            Some(SCHEMA) => return Ok(None),
            Some(from) => from,
        };
        let first = usize::try_from(from - OLDEST).map_err(|_| StoreError::Older {
            path: path.clone(),
            found: from,
            known: SCHEMA,
            remedy: remedy(from),
        })?;
        let done = Upgrade {
            backup: sidecar(&path, &format!(".schema-{from}")),
            path,
            from,
            to: SCHEMA,
        };
        // Nothing is copied of a store that cannot be converted.
        drop(convert(&link, first).map_err(in_use)?);
        if !dry_run {
            let store = Self::new(link);
            store.backup_over(&done.backup)?;
            let transaction = convert(&store.link, first)?;
            transaction
                .commit()
                .map_err(|error| store.link.context.on(error))?;
        }
        Ok(Some(done))
    }
}

fn in_use(error: StoreError) -> StoreError {
    match error {
        StoreError::Locked { path, .. } => StoreError::InUse { path },
        error => error,
    }
}

/// Runs the statements in a transaction, which is undone unless it is committed.
fn convert(link: &Link, first: usize) -> Result<Transaction<'_>, StoreError> {
    let context = &link.context;
    let on = |error| context.on(error);
    link.begin_work();
    let transaction =
        Transaction::new_unchecked(&link.connection, TransactionBehavior::Exclusive).map_err(on)?;
    for step in &STEPS[first..] {
        transaction.execute_batch(step).map_err(on)?;
    }
    transaction
        .pragma_update(None, "user_version", SCHEMA)
        .map_err(on)?;
    check_objects(&transaction, context)?;
    Ok(transaction)
}
