//! Schema of a store file: reads and checks it, and creates it in a new file.

use std::collections::BTreeMap;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::Context;
use crate::tables::{SCHEMA, TABLES};
use crate::{StoreError, steps};

/// `punc` in ASCII: distinguishes our files from those of other programs (file(1) shows it).
pub(crate) const APPLICATION_ID: i64 = 0x7075_6e63;

/// Reads a number from SQLite's header.
pub(crate) fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Returns whether the file is a store with this program's schema; `false` for a file without
/// content. Rejects a file of another program or with another schema.
pub(crate) fn is_made(connection: &Connection, context: &Context) -> Result<bool, StoreError> {
    match found_schema(connection, context)? {
        None => Ok(false),
        Some(SCHEMA) => Ok(true),
        Some(found) => Err(StoreError::Older {
            path: context.path.clone(),
            found,
            known: SCHEMA,
            remedy: steps::remedy(found),
        }),
    }
}

/// Returns the schema of a store, which is not later than that of this program; `None` for a file
/// without content. Rejects a file of another program.
pub(crate) fn found_schema(
    connection: &Connection,
    context: &Context,
) -> Result<Option<i64>, StoreError> {
    let read = |name: &str| pragma(connection, name).map_err(|error| context.on(error));
    if is_blank(connection).map_err(|error| context.on(error))? {
        return Ok(None);
    }
    let application = read("application_id")?;
    let found = read("user_version")?;
    if application != APPLICATION_ID {
        return Err(StoreError::NotAStore {
            path: context.path.clone(),
            what: match application {
                0 => "it is an SQLite database of another program".to_owned(),
                id => format!("it is an SQLite database of another program (application ID {id})"),
            },
        });
    }
    match found {
        found if found > SCHEMA => Err(StoreError::Newer {
            path: context.path.clone(),
            found,
            known: SCHEMA,
        }),
        // The application ID and the version are written in one transaction.
        found if found < 1 => Err(context.damaged(format!("its schema version is {found}"))),
        found => Ok(Some(found)),
    }
}

/// Type and name of each database object, with its SQL statement. Indexes of constraints have no
/// statement.
type Objects = BTreeMap<(String, String), Option<String>>;

/// Rejects a store that contains anything but our tables. A view instead of a table, a trigger or a
/// virtual table would run statements written by the creator of the file.
pub(crate) fn check_objects(connection: &Connection, context: &Context) -> Result<(), StoreError> {
    let on = |error| context.on(error);
    let model = Connection::open_in_memory().map_err(on)?;
    model.execute_batch(TABLES).map_err(on)?;
    let ours = objects(&model).map_err(on)?;
    let theirs = objects(connection).map_err(on)?;
    if let Some((_, name)) = ours.keys().find(|object| !theirs.contains_key(object)) {
        return Err(context.damaged(format!("the table or index {name} is missing")));
    }
    for ((kind, name), sql) in &theirs {
        let fits = match ours.get(&(kind.clone(), name.clone())) {
            Some(our) => our == sql,
            None => kind == "table" && is_by_product(name, sql.as_deref()),
        };
        if !fits {
            let name = name.escape_debug();
            return Err(context.damaged(format!("its {kind} {name} was not created by punctual")));
        }
    }
    Ok(())
}

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    rows.collect()
}

/// Returns whether this is a table of plain columns created by the sqlite3 program: the statistics
/// of ANALYZE, or rows that .recover could not assign.
fn is_by_product(name: &str, sql: Option<&str>) -> bool {
    let Some(sql) = sql else { return false };
    let columns = match name {
        "sqlite_stat1" => return sql == "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "sqlite_stat4" => return sql == "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
        _ => sql.strip_prefix("CREATE TABLE "),
    };
    let columns = columns.map(|rest| rest.replace(['"', '\''], ""));
    let columns = columns.as_deref().and_then(|rest| {
        let rest = rest.strip_prefix(name)?.trim_start();
        rest.strip_prefix('(')?.strip_suffix(')')
    });
    let plain = |column: &str| {
        let number = column.strip_prefix('c');
        matches!(
            column,
            "rootpgno INTEGER" | "pgno INTEGER" | "nfield INTEGER" | "id INTEGER"
        ) || number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    };
    name.starts_with("lost_and_found")
        && columns.is_some_and(|columns| columns.split(',').map(str::trim).all(plain))
}

/// Creates the tables in a file without content, in one transaction. Another process may do the
/// same concurrently, so the file is checked again under the lock.
pub(crate) fn make(connection: &mut Connection, context: &Context) -> Result<(), StoreError> {
    let on = |error| context.on(error);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(on)?;
    if is_made(&transaction, context)? {
        return Ok(());
    }
    transaction.execute_batch(TABLES).map_err(on)?;
    for (name, value) in [("application_id", APPLICATION_ID), ("user_version", SCHEMA)] {
        transaction.pragma_update(None, name, value).map_err(on)?;
    }
    transaction.commit().map_err(on)
}

/// Returns whether the file is still unused: empty, or an SQLite database without any table (a
/// crash can leave that behind while a store is created).
fn is_blank(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0
        && pragma(connection, "application_id")? == 0
        && pragma(connection, "user_version")? == 0)
}
