//! The version of the tables: creates them, and converts those of earlier versions.

use punctual_store::StoreError;

use crate::link::{Link, Pool};
use crate::schema;

/// Creates the tables if there are none. Refuses those of another version.
pub(super) fn make_tables(pool: &Pool) -> Result<(), StoreError> {
    let found = pool.with_link(|link| {
        link.transaction(|link| {
            let found = found_version(link)?;
            if found.is_none() {
                link.batch(schema::TABLES)?;
                add_version(link)?;
            }
            Ok(found.unwrap_or(schema::VERSION))
        })
    })?;
    if found == schema::VERSION {
        return Ok(());
    }
    Err(pool.failed(other_version(found)))
}

/// Converts the tables of an earlier version.
pub(super) fn upgrade(pool: &Pool, dry_run: bool) -> Result<Option<(i32, i32)>, StoreError> {
    let found = pool.with_link(|link| {
        link.transaction(|link| {
            let found = found_version(link)?;
            let first = found.and_then(|found| usize::try_from(found - schema::OLDEST).ok());
            let steps = first.and_then(|first| schema::STEPS.get(first..));
            link.batch("SAVEPOINT earlier")?;
            for step in steps.unwrap_or_default() {
                link.batch(step)?;
            }
            if steps.is_some_and(|steps| !steps.is_empty()) {
                add_version(link)?;
            }
            if dry_run {
                link.batch("ROLLBACK TO earlier")?;
            }
            Ok(found)
        })
    })?;
    match found {
        None => Err(pool.failed("it has no tables of punctual".to_owned())),
        Some(schema::VERSION) => Ok(None),
        Some(found) if (schema::OLDEST..schema::VERSION).contains(&found) => {
            Ok(Some((found, schema::VERSION)))
        }
        Some(found) => Err(pool.failed(other_version(found))),
    }
}

/// Returns the version of the tables, `None` if there are none. No other program changes it until
/// the end of the transaction.
fn found_version(link: &mut Link) -> Result<Option<i32>, postgres::Error> {
    link.run("SELECT pg_advisory_xact_lock($1)", &[&schema::LOCK])?;
    link.batch("CREATE TABLE IF NOT EXISTS punctual_schema (version integer NOT NULL)")?;
    let row = link.row("SELECT max(version) FROM punctual_schema", &[])?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.flatten())
}

fn add_version(link: &mut Link) -> Result<(), postgres::Error> {
    let sql = "INSERT INTO punctual_schema VALUES ($1)";
    link.run(sql, &[&schema::VERSION]).map(drop)
}

/// Says what to do with tables of another version.
fn other_version(found: i32) -> String {
    let known = schema::VERSION;
    let remedy = if found > known {
        "use a newer punctual"
    } else if found >= schema::OLDEST {
        "end the other servers and run punctual-server upgrade. The database is unchanged"
    } else {
        "copy the database to a file with the punctual that created it (punctual-server copy) and \
         export that file, or specify another database. The database is unchanged"
    };
    format!(
        "its tables have version {found}, but this program reads only version {known}: {remedy}"
    )
}
