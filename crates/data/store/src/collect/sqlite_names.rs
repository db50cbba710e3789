//! Names of machines in SQLite.

use std::collections::BTreeMap;

use super::MachineNames;
use super::name_rows::{earlier, exists, put, refusal, rename};
use crate::{SqliteCollection, StoreError};

impl MachineNames for SqliteCollection {
    fn rename(&self, old: &str, new: &str) -> Result<(), StoreError> {
        self.write(|connection, context| {
            let refused = refusal(connection, old, new).map_err(|error| context.on(error))?;
            match refused {
                Some(refusal) => Err(StoreError::NotRenamed {
                    name: self.path().display().to_string(),
                    refusal,
                }),
                None => rename(connection, context, old, new),
            }
        })
    }

    fn earlier_names(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.read(|connection, context| earlier(connection).map_err(|error| context.on(error)))
    }

    fn put_earlier_name(&self, earlier: &str, machine: &str) -> Result<(), StoreError> {
        self.write(|connection, context| {
            let put = || -> rusqlite::Result<()> {
                if !exists(connection, earlier)? {
                    put(connection, earlier, machine)?;
                }
                Ok(())
            };
            put().map_err(|error| context.on(error))
        })
    }
}
