//! Changes the names of machines in SQLite.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::{Context, RenameRefusal};
use crate::{StoreError, annotations, plan, wake_windows};

/// Returns all earlier names.
pub(super) fn earlier(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    connection
        .prepare_cached("SELECT name, machine FROM earlier_name")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Returns the current name of a machine if `name` is an earlier one.
pub(super) fn current(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT machine FROM earlier_name WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// From now on, `name` is not an earlier name.
pub(super) fn forget(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM earlier_name WHERE name = ?1")?
        .execute([name])
        .map(drop)
}

pub(super) fn put(connection: &Connection, earlier: &str, machine: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO earlier_name (name, machine) VALUES (?1, ?2)")?
        .execute([earlier, machine])
        .map(drop)
}

/// Returns why the machine cannot be renamed; `None` if it can.
pub(super) fn refusal(
    connection: &Connection,
    old: &str,
    new: &str,
) -> rusqlite::Result<Option<RenameRefusal>> {
    if is_local(connection, old)? {
        return Ok(Some(RenameRefusal::Local(old.to_owned())));
    }
    let is_machine = "SELECT 1 FROM machine WHERE name = ?1 UNION \
                      SELECT 1 FROM token WHERE name = ?1 AND role = 'machine'";
    if !connection.prepare_cached(is_machine)?.exists([old])? {
        let now = current(connection, old)?;
        let old = old.to_owned();
        return Ok(Some(match now {
            Some(now) => RenameRefusal::Renamed { old, now },
            None => RenameRefusal::NoMachine(old),
        }));
    }
    if exists(connection, new)? {
        return Ok(Some(RenameRefusal::Taken(new.to_owned())));
    }
    let now = current(connection, new)?.filter(|now| now != old);
    Ok(now.map(|now| RenameRefusal::TakenEarlier {
        new: new.to_owned(),
        now,
    }))
}

/// Returns whether the name is that of a machine with data or of the owner of a token.
pub(super) fn exists(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM machine WHERE name = ?1 \
               UNION SELECT 1 FROM token WHERE name = ?1 \
               UNION SELECT 1 FROM plan_series WHERE ?1 IN (machine, host) \
               UNION SELECT 1 FROM wake_window WHERE machine = ?1";
    Ok(connection.prepare_cached(sql)?.exists([name])? || is_local(connection, name)?)
}

/// Returns whether recordings of this machine were not delivered.
fn is_local(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM recording WHERE host = ?1 AND \
               key NOT IN (SELECT recording FROM collected)";
    connection.prepare_cached(sql)?.exists([name])
}

/// Columns with the name of a machine that no checksum covers.
const COLUMNS: [(&str, &str); 6] = [
    ("collected", "machine"),
    ("machine", "name"),
    ("token", "name"),
    ("retired", "machine"),
    ("quarantine", "machine"),
    ("plan_state", "machine"),
];

/// Renames the machine in all tables.
pub(super) fn rename(
    connection: &Connection,
    context: &Context,
    old: &str,
    new: &str,
) -> Result<(), StoreError> {
    let plain = || -> rusqlite::Result<()> {
        for (table, column) in COLUMNS {
            // A row of the new name is left over from a machine that no longer exists.
            let sql = format!("UPDATE OR REPLACE {table} SET {column} = ?2 WHERE {column} = ?1");
            connection.execute(&sql, params![old, new])?;
        }
        let sql = "UPDATE earlier_name SET machine = ?2 WHERE machine = ?1";
        connection.execute(sql, params![old, new])?;
        forget(connection, new)?;
        put(connection, old, new)
    };
    plain().map_err(|error| context.on(error))?;
    plan::rename_machine(connection, context, old, new)?;
    wake_windows::rename_machine(connection, context, old, new)?;
    annotations::rename_machine(connection, context, old, new)
}
