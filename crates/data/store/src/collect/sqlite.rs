//! A collection in one SQLite file, which is the store of one machine, or of a few hundred.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use punctual_model::{Histogram, Recording, RecordingId, WakeWindow};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::days::days;
use super::insert::{count, insert, join_series};
use super::name_rows::{current, forget};
use super::names::{Redirected, redirect_windows};
use super::packing::{compressed, unpacked};
use super::rows::{MACHINE, condition, delivered, id_of, local, merge, token_of};
use super::{
    AuditLine, Collection, Delivery, Listed, Machine, MachineDay, MachineNames, Provenance,
    Quarantined, Received, Refused, Token, Total, Wanted,
};
use crate::bits::Bits;
use crate::entry::{COLUMNS, Entry, id_text, started_ns, time};
use crate::error::Context;
use crate::load::load;
use crate::{Store, StoreError};

/// Maximum number of idle connections.
const IDLE: usize = 4;

/// A collection in one SQLite file.
#[derive(Debug)]
pub struct SqliteCollection {
    path: PathBuf,
    idle: Mutex<Vec<Store>>,
    /// Running totals of the recordings that were measured in this store.
    local: Mutex<LocalTotals>,
}

/// Sums over the recordings that were not delivered, for each machine.
#[derive(Debug, Default)]
struct LocalTotals {
    counted: BTreeSet<i64>,
    by_machine: BTreeMap<String, Total>,
}

impl SqliteCollection {
    /// Opens the store at `path`, which is created if it does not exist.
    ///
    /// # Errors
    /// Same as [`Store::open`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let store = Store::open(path)?;
        Ok(Self {
            path: store.path().to_owned(),
            idle: Mutex::new(vec![store]),
            local: Mutex::default(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn with_store<T>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let store = match taken {
            Some(store) => store,
            None => Store::open(&self.path)?,
        };
        let result = work(&store);
        let mut idle = idle();
        if idle.len() < IDLE {
            idle.push(store);
        }
        result
    }

    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &Context) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_store(|store| store.read(work))
    }

    /// Runs `work` in a transaction that is on the disk when this returns.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection, &Context) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_store(|store| {
            full_sync(store)?;
            store.link.write(work)
        })
    }
}

/// From now on, each write is on the disk when it returns.
fn full_sync(store: &Store) -> Result<(), StoreError> {
    let link = &store.link;
    let set = link.connection.pragma_update(None, "synchronous", "full");
    set.map_err(|error| link.context.on(error))
}

impl Collection for SqliteCollection {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.read(|connection, context| {
            connection
                .query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))
                .map_err(|error| context.on(error))
        })
    }

    fn list(&self, wanted: &Wanted) -> Result<Vec<Listed>, StoreError> {
        let (condition, values) = condition(wanted);
        let sql = format!(
            "SELECT {COLUMNS}, {MACHINE} FROM recording {condition} \
             ORDER BY started_ns DESC, id DESC LIMIT ?"
        );
        self.read(|connection, context| {
            let on = |error| context.on(error);
            let mut statement = connection.prepare_cached(&sql).map_err(on)?;
            let columns = statement.column_count();
            let read = |row: &Row<'_>| Ok((Entry::read(row)?, row.get::<_, String>(columns - 1)?));
            let rows: Vec<_> = statement
                .query_map(params_from_iter(values), read)
                .and_then(Iterator::collect)
                .map_err(on)?;
            (rows.into_iter())
                .map(|(entry, machine)| match entry {
                    Ok(Entry { summary, .. }) => Ok(Listed { machine, summary }),
                    Err(changed) => Err(context.damaged(changed.to_string())),
                })
                .collect()
        })
    }

    fn find(&self, selector: &str) -> Result<RecordingId, StoreError> {
        self.with_store(|store| store.find(selector))
    }

    fn load(&self, id: RecordingId) -> Result<(String, Recording), StoreError> {
        self.read(|connection, context| {
            let recording = load(connection, context, id, false)?;
            let machine = connection
                .prepare_cached(&format!("SELECT {MACHINE} FROM recording WHERE id = ?1"))
                .and_then(|mut one| one.query_row([id_text(id)], |row| row.get(0)))
                .map_err(|error| context.on(error))?;
            Ok((machine, recording))
        })
    }

    fn machines(&self) -> Result<Vec<Machine>, StoreError> {
        self.read(|connection, context| {
            let mut all = local(connection, context)?;
            let delivered = delivered(connection).map_err(|error| context.on(error))?;
            for machine in delivered {
                let place = all.entry(machine.name.clone()).or_insert_with(|| Machine {
                    recordings: 0,
                    ..machine.clone()
                });
                merge(place, machine);
            }
            let sql = "SELECT machine, at_ns FROM retired";
            let retired: Vec<(String, i64)> = connection
                .prepare_cached(sql)
                .and_then(|mut rows| {
                    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                    rows.collect()
                })
                .map_err(|error| context.on(error))?;
            for (name, at) in retired {
                if let Some(machine) = all.get_mut(&name) {
                    machine.retired = Some(time(at));
                }
            }
            Ok(all.into_values().collect())
        })
    }

    fn days(&self, since: Timestamp) -> Result<Vec<MachineDay>, StoreError> {
        self.read(|connection, context| days(connection, since).map_err(|error| context.on(error)))
    }

    fn set_retired(&self, machine: &str, retired: Option<Timestamp>) -> Result<(), StoreError> {
        let changed = match retired {
            Some(at) => self.changed(
                "INSERT INTO retired (machine, at_ns) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![machine, started_ns(at)],
            ),
            None => self.changed("DELETE FROM retired WHERE machine = ?1", [machine]),
        };
        changed.map(drop)
    }

    fn totals(&self) -> Result<Vec<(String, Total)>, StoreError> {
        let mut all = self.local_totals()?;
        let sql = "SELECT name, recordings, due, missed, unknown FROM machine \
                   ORDER BY name LIMIT ?1";
        let delivered = self.rows(sql, usize::MAX, |row| {
            let due: Vec<u8> = row.get(2)?;
            let total = Total {
                recordings: row.get::<_, Bits>(1)?.0,
                due: Histogram::decode(&due).unwrap_or_default(),
                missed: row.get::<_, Bits>(3)?.0,
                unknown: row.get::<_, Bits>(4)?.0,
            };
            Ok((row.get::<_, String>(0)?, total))
        })?;
        for (name, total) in delivered {
            all.entry(name).or_default().merge(&total);
        }
        Ok(all.into_iter().collect())
    }

    fn receive(&self, delivery: &Delivery<'_>) -> Result<Received, StoreError> {
        delivery.check(&self.path)?;
        let id = delivery.recording.id;
        let found = self.write(|connection, context| {
            let on = |error| context.on(error);
            let current = current(connection, delivery.machine).map_err(on)?;
            let redirected = current.map(|machine| Redirected::new(delivery, machine));
            let redirected = redirected.as_ref().map(|one| one.delivery(delivery));
            let delivery = redirected.as_ref().unwrap_or(delivery);
            let there: Option<(i64, Option<String>)> = connection
                .prepare_cached(
                    "SELECT key, (SELECT sha256 FROM collected WHERE recording = key) \
                     FROM recording WHERE id = ?1",
                )
                .and_then(|mut one| {
                    one.query_row([id_text(id)], |row| Ok((row.get(0)?, row.get(1)?)))
                        .optional()
                })
                .map_err(on)?;
            match there {
                Some((_, Some(sha256))) if sha256 == delivery.sha256 => {
                    join_series(connection, context, delivery)?;
                    Ok(Received::Known)
                }
                Some(_) => Ok(Received::Conflict { aside: false }),
                None => {
                    let summary = insert(connection, delivery).map_err(on)?;
                    count(connection, delivery, &summary).map_err(on)?;
                    join_series(connection, context, delivery)?;
                    Ok(Received::New)
                }
            }
        })?;
        match found {
            Received::Conflict { .. } => self.put_conflict_aside(delivery),
            other => Ok(other),
        }
    }

    fn quarantine(&self, refused: &Refused<'_>) -> Result<(), StoreError> {
        let body = compressed(refused.body)?;
        self.write(|connection, context| {
            connection
                .prepare_cached(
                    "INSERT INTO quarantine (id, machine, sha256, received_ns, reason, bytes, body)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
                )
                .and_then(|mut one| {
                    one.execute(params![
                        id_text(refused.id),
                        refused.machine,
                        refused.sha256,
                        started_ns(refused.received),
                        refused.reason,
                        Bits(refused.body.len() as u64),
                        body,
                    ])
                })
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }

    fn quarantined(&self, most: usize) -> Result<Vec<Quarantined>, StoreError> {
        let sql = "SELECT id, machine, sha256, received_ns, reason, bytes FROM quarantine \
                   ORDER BY key DESC LIMIT ?1";
        self.rows(sql, most, |row| {
            Ok(Quarantined {
                id: id_of(&row.get::<_, String>(0)?),
                machine: row.get(1)?,
                sha256: row.get(2)?,
                received: time(row.get(3)?),
                reason: row.get(4)?,
                bytes: row.get::<_, Bits>(5)?.0,
            })
        })
    }

    fn quarantined_of(&self, machine: &str) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT count(*), coalesce(sum(bytes), 0) FROM quarantine WHERE machine = ?1";
        self.read(|connection, context| {
            connection
                .prepare_cached(sql)
                .and_then(|mut statement| {
                    statement.query_row([machine], |row| {
                        Ok((row.get::<_, Bits>(0)?.0, row.get::<_, Bits>(1)?.0))
                    })
                })
                .map_err(|error| context.on(error))
        })
    }

    fn quarantined_body(&self, one: &Quarantined) -> Result<Vec<u8>, StoreError> {
        let sql = "SELECT body FROM quarantine WHERE id = ?1 AND machine = ?2 AND sha256 = ?3";
        let body: Vec<u8> = self.read(|connection, context| {
            connection
                .prepare_cached(sql)
                .and_then(|mut statement| {
                    let values = params![id_text(one.id), one.machine, one.sha256];
                    statement.query_row(values, |row| row.get(0))
                })
                .map_err(|error| context.on(error))
        })?;
        unpacked(&body)
    }

    fn provenance(&self, id: RecordingId) -> Result<Provenance, StoreError> {
        let series = self.with_store(|store| store.epoch_of(id))?;
        self.read(|connection, context| {
            let sql = format!(
                "SELECT {MACHINE}, collected.sha256, collected.received_ns FROM recording \
                 LEFT JOIN collected ON collected.recording = key WHERE id = ?1"
            );
            let found = connection.prepare_cached(&sql).and_then(|mut statement| {
                let read = |row: &Row<'_>| {
                    Ok(Provenance {
                        machine: row.get(0)?,
                        sha256: row.get(1)?,
                        received: row.get::<_, Option<i64>>(2)?.map(time),
                        series: None,
                    })
                };
                statement.query_row([id_text(id)], read).optional()
            });
            let found = found.map_err(|error| context.on(error))?;
            let found = found.ok_or_else(|| context.no_such(id))?;
            Ok(Provenance { series, ..found })
        })
    }

    fn lacking(&self, ids: &[RecordingId]) -> Result<Vec<RecordingId>, StoreError> {
        self.read(|connection, context| {
            let on = |error| context.on(error);
            let mut statement = connection
                .prepare_cached("SELECT 1 FROM recording WHERE id = ?1")
                .map_err(on)?;
            let mut lacking = Vec::new();
            for id in ids {
                if !statement.exists([id_text(*id)]).map_err(on)? {
                    lacking.push(*id);
                }
            }
            Ok(lacking)
        })
    }

    fn add_windows_of(&self, deliveries: &[Vec<WakeWindow>]) -> Result<Vec<u64>, StoreError> {
        let deliveries = redirect_windows(&self.earlier_names()?, deliveries);
        self.with_store(|store| {
            full_sync(store)?;
            store.add_wake_windows(&deliveries)
        })
    }

    fn window_machines(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT machine FROM wake_window ORDER BY machine LIMIT ?1";
        self.rows(sql, usize::MAX, |row| row.get(0))
    }

    fn windows(
        &self,
        machine: &str,
        since: Timestamp,
        most: usize,
    ) -> Result<Vec<WakeWindow>, StoreError> {
        self.with_store(|store| store.wake_windows_of(machine, since, most))
    }

    fn add_token(&self, token: &Token) -> Result<bool, StoreError> {
        crate::texts::check(&self.path, "a token", token)?;
        let sql = "INSERT INTO token (name, role, sha256, created_ns, machine) \
                   VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
        let (created, role) = (started_ns(token.created), token.role.name());
        self.write(|connection, context| {
            let add = || -> rusqlite::Result<bool> {
                let values = params![token.name, role, token.sha256, created, token.machine];
                let added = connection.prepare_cached(sql)?.execute(values)? > 0;
                if added {
                    forget(connection, &token.name)?;
                }
                Ok(added)
            };
            add().map_err(|error| context.on(error))
        })
    }

    fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        self.changed("DELETE FROM token WHERE name = ?1", params![name])
    }

    fn set_machine(
        &self,
        name: &str,
        before: Option<&str>,
        now: Option<&str>,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE token SET machine = ?3 WHERE name = ?1 AND machine IS ?2";
        self.changed(sql, params![name, before, now])
    }

    fn token(&self, sha256: &str) -> Result<Option<Token>, StoreError> {
        let sql = "SELECT name, role, sha256, created_ns, machine FROM token WHERE sha256 = ?1";
        self.read(|connection, context| {
            connection
                .prepare_cached(sql)
                .and_then(|mut one| one.query_row([sha256], token_of).optional())
                // A role that this program does not know allows nothing.
                .map(Option::flatten)
                .map_err(|error| context.on(error))
        })
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let sql =
            "SELECT name, role, sha256, created_ns, machine FROM token ORDER BY name LIMIT ?1";
        let all = self.rows(sql, usize::MAX, token_of)?;
        Ok(all.into_iter().flatten().collect())
    }

    fn log(&self, line: &AuditLine) -> Result<(), StoreError> {
        let sql = "INSERT INTO audit (at_ns, who, action, what) VALUES (?1, ?2, ?3, ?4)";
        let values = params![started_ns(line.at), line.who, line.action, line.what];
        self.changed(sql, values).map(drop)
    }

    fn audit(&self, most: usize) -> Result<Vec<AuditLine>, StoreError> {
        let sql = "SELECT at_ns, who, action, what FROM audit ORDER BY key DESC LIMIT ?1";
        self.rows(sql, most, |row| {
            Ok(AuditLine {
                at: time(row.get(0)?),
                who: row.get(1)?,
                action: row.get(2)?,
                what: row.get(3)?,
            })
        })
    }
}

impl SqliteCollection {
    fn rows<T>(
        &self,
        sql: &str,
        most: usize,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.read(|connection, context| {
            connection
                .prepare_cached(sql)
                .and_then(|mut all| all.query_map([most], read)?.collect())
                .map_err(|error| context.on(error))
        })
    }

    /// Adds up the recordings that were measured here since the last call.
    fn local_totals(&self) -> Result<BTreeMap<String, Total>, StoreError> {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = "SELECT key, id FROM recording WHERE completion <> 'running' AND \
                   experiment IS NULL AND key NOT IN (SELECT recording FROM collected) LIMIT ?1";
        let there = self.rows(sql, usize::MAX, |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        for (key, id) in there {
            if local.counted.contains(&key) {
                continue;
            }
            // A damaged recording is reported on its own page; only the others are added.
            if let Ok((machine, recording)) = self.load(id_of(&id)) {
                local.by_machine.entry(machine).or_default().add(&recording);
            }
            local.counted.insert(key);
        }
        Ok(local.by_machine.clone())
    }

    /// Returns whether the statement changed a row.
    fn changed(&self, sql: &str, values: impl rusqlite::Params) -> Result<bool, StoreError> {
        self.write(|connection, context| {
            let changed = connection
                .prepare_cached(sql)
                .and_then(|mut one| one.execute(values));
            changed.map(|rows| rows > 0).map_err(|e| context.on(e))
        })
    }
}
