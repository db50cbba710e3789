//! Names of machines in PostgreSQL.

use std::collections::BTreeMap;

use punctual_model::{FromJson, Note, ToJson};
use punctual_store::{MachineNames, RenameRefusal, StoreError};

use super::link::Link;
use super::rows::plain;
use super::windows;
use crate::PostgresCollection;

impl MachineNames for PostgresCollection {
    fn rename(&self, old: &str, new: &str) -> Result<(), StoreError> {
        let refusal = self.pool.with_link(|link| {
            link.transaction(|link| {
                // Waits for the deliveries that have already read this table.
                link.batch("LOCK TABLE earlier_name IN ACCESS EXCLUSIVE MODE")?;
                let refusal = refusal(link, old, new)?;
                if refusal.is_none() {
                    rename(link, old, new)?;
                }
                Ok(refusal)
            })
        })?;
        match refusal {
            Some(refusal) => Err(StoreError::NotRenamed {
                name: self.pool.name().to_owned(),
                refusal,
            }),
            None => Ok(()),
        }
    }

    fn earlier_names(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.pool.with_link(|link| {
            let rows = link.rows("SELECT name, machine FROM earlier_name", &[])?;
            let pairs = rows
                .iter()
                .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
            pairs.collect()
        })
    }

    fn put_earlier_name(&self, earlier: &str, machine: &str) -> Result<(), StoreError> {
        self.pool.with_link(|link| {
            link.transaction(|link| {
                if !exists(link, earlier)? {
                    put(link, earlier, machine)?;
                }
                Ok(())
            })
        })
    }
}

/// Returns the current name of a machine if `name` is an earlier one. It stays valid until the end of
/// the caller's transaction.
pub(super) fn current(link: &mut Link, name: &str) -> Result<Option<String>, postgres::Error> {
    let sql = "SELECT machine FROM earlier_name WHERE name = $1";
    let row = link.row(sql, &[&plain(name)])?;
    row.map(|row| row.try_get(0)).transpose()
}

/// From now on, `name` is not an earlier name.
pub(super) fn forget(link: &mut Link, name: &str) -> Result<(), postgres::Error> {
    let sql = "DELETE FROM earlier_name WHERE name = $1";
    link.run(sql, &[&plain(name)]).map(drop)
}

fn put(link: &mut Link, earlier: &str, machine: &str) -> Result<(), postgres::Error> {
    let sql = "INSERT INTO earlier_name (name, machine) VALUES ($1, $2)
               ON CONFLICT (name) DO UPDATE SET machine = excluded.machine";
    link.run(sql, &[&plain(earlier), &plain(machine)]).map(drop)
}

fn refusal(
    link: &mut Link,
    old: &str,
    new: &str,
) -> Result<Option<RenameRefusal>, postgres::Error> {
    let is_machine = "SELECT 1 FROM machine WHERE name = $1
                      UNION SELECT 1 FROM token WHERE name = $1 AND role = 'machine'";
    if link.row(is_machine, &[&plain(old)])?.is_none() {
        let now = current(link, old)?;
        let old = old.to_owned();
        return Ok(Some(match now {
            Some(now) => RenameRefusal::Renamed { old, now },
            None => RenameRefusal::NoMachine(old),
        }));
    }
    if exists(link, new)? {
        return Ok(Some(RenameRefusal::Taken(new.to_owned())));
    }
    let now = current(link, new)?.filter(|now| now != old);
    Ok(now.map(|now| RenameRefusal::TakenEarlier {
        new: new.to_owned(),
        now,
    }))
}

/// Returns whether the name is that of a machine with data or of the owner of a token.
fn exists(link: &mut Link, name: &str) -> Result<bool, postgres::Error> {
    let sql = "SELECT 1 FROM machine WHERE name = $1
               UNION SELECT 1 FROM token WHERE name = $1
               UNION SELECT 1 FROM plan_series WHERE $1 IN (machine, host)
               UNION SELECT 1 FROM wake_window WHERE machine = $1";
    Ok(link.row(sql, &[&plain(name)])?.is_some())
}

/// Statements that rename a machine. Rows of the new name are left over from a machine that no
/// longer exists.
const STATEMENTS: [&str; 11] = [
    "UPDATE recording SET machine = $2 WHERE machine = $1",
    "UPDATE machine SET name = $2 WHERE name = $1",
    "UPDATE token SET name = $2 WHERE name = $1",
    "DELETE FROM retired WHERE machine = $2 AND $1::text IS NOT NULL",
    "UPDATE retired SET machine = $2 WHERE machine = $1",
    "DELETE FROM quarantine AS left_over USING quarantine AS own WHERE left_over.machine = $2
         AND own.machine = $1 AND left_over.id = own.id AND left_over.sha256 = own.sha256",
    "UPDATE quarantine SET machine = $2 WHERE machine = $1",
    "DELETE FROM dictionary WHERE machine = $2 AND $1::text IS NOT NULL",
    "UPDATE dictionary SET machine = $2 WHERE machine = $1",
    "UPDATE plan_series SET machine = $2, host = $2 WHERE $1 IN (machine, host)",
    "UPDATE earlier_name SET machine = $2 WHERE machine = $1",
];

fn rename(link: &mut Link, old: &str, new: &str) -> Result<(), postgres::Error> {
    let (old, new) = (plain(old), plain(new));
    for sql in STATEMENTS {
        link.run(sql, &[&old, &new])?;
    }
    forget(link, &new)?;
    put(link, &old, &new)?;
    windows::rename_machine(link, &old, &new)?;
    for row in link.rows("SELECT id, json FROM note", &[])? {
        let (id, json): (uuid::Uuid, String) = (row.try_get(0)?, row.try_get(1)?);
        // A damaged note is reported where it is shown.
        let note = Note::from_json(json.as_bytes()).ok();
        let Some(note) = note.filter(|note| note.machine.as_deref() == Some(&*old)) else {
            continue;
        };
        let note = Note {
            machine: Some(new.clone().into_owned()),
            ..note
        };
        let sql = "UPDATE note SET json = $2 WHERE id = $1";
        link.run(sql, &[&id, &note.to_json()])?;
    }
    Ok(())
}
