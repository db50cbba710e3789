//! The recordings of many machines: in a file, or in a database.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use punctual_postgres::PostgresCollection;
use punctual_store::{Collection, SqliteCollection, is_database};

use crate::context::Context;

/// Opens the collection of the store.
pub(super) fn of_store(context: &Context) -> Result<Arc<dyn Collection>> {
    if let Some(url) = context.database() {
        return Ok(Arc::new(PostgresCollection::open(url)?));
    }
    // Opening the store in this way marks runs whose program has ended, and denies other users
    // access to the file.
    let path = context.store_to_change()?.path().to_owned();
    Ok(Arc::new(SqliteCollection::open(&path)?))
}

/// Opens the collection in a file, or in the database with this URL. Creates the file if it is
/// missing.
pub(super) fn named(name: &str) -> Result<Arc<dyn Collection>> {
    Ok(if is_database(name) {
        Arc::new(PostgresCollection::open(name)?)
    } else {
        Arc::new(SqliteCollection::open(Path::new(name))?)
    })
}
