//! The recordings of many machines: in a file, or in a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use punctual_command::Context;
use punctual_postgres::PostgresCollection;
use punctual_store::{Collection, SqliteCollection, Store, is_database};

/// Opens the collection of the store. Creates the file if it is missing.
pub(crate) fn open_or_create(context: &Context) -> Result<Arc<dyn Collection>> {
    if let Some(url) = context.database() {
        return Ok(Arc::new(PostgresCollection::open(url)?));
    }
    punctual_command::upgrade::for_service(context)?;
    // Opening the store in this way marks runs whose program has ended, and denies other users
    // access to the file.
    let path = context.store_to_change()?.path().to_owned();
    Ok(Arc::new(SqliteCollection::open(&path)?))
}

/// Opens the collection of the store, which must exist.
pub(crate) fn open_existing(context: &Context) -> Result<Arc<dyn Collection>> {
    if let Some(file) = file_of_store(context)? {
        punctual_command::upgrade::for_service(context)?;
        Store::open_read_only(&file)?;
    }
    open_or_create(context)
}

/// Opens the collection in a file, or in the database with this URL. Creates the file if it is
/// missing.
pub(crate) fn open_named(name: &str) -> Result<Arc<dyn Collection>> {
    Ok(if is_database(name) {
        Arc::new(PostgresCollection::open(name)?)
    } else {
        Arc::new(SqliteCollection::open(Path::new(name))?)
    })
}

/// Returns the absolute path of the store; `None` if it is a database.
pub(crate) fn file_of_store(context: &Context) -> Result<Option<PathBuf>> {
    match context.database() {
        Some(_) => Ok(None),
        None => context.place_of_store().map(Some),
    }
}
