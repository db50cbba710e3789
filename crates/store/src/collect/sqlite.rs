//! A collection in one SQLite file: the store of a machine, or of a few hundred.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use punctual_model::{Completion, Nanos, Outcome, Recording, RecordingId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use uuid::Uuid;

use super::{
    AuditLine, Collection, Delivery, Latest, Listed, Machine, Quarantined, Received, Refused, Role,
    Token, Wanted,
};
use crate::bits::Bits;
use crate::entry::{
    COLUMNS, Entry, Summary, completion_of, id_text, outcome_name, outcome_of, started_ns,
};
use crate::error::Context;
use crate::load::load;
use crate::parts::{head_json, write_head, write_row, write_thread};
use crate::{Store, StoreError};

/// Connections that are kept open while nobody uses them.
const IDLE: usize = 4;

/// A collection in one SQLite file.
#[derive(Debug)]
pub struct SqliteCollection {
    path: PathBuf,
    idle: Mutex<Vec<Store>>,
}

/// The name of the machine of a row of `recording`.
const MACHINE: &str = "coalesce((SELECT machine FROM collected WHERE recording = key), host, '')";

impl SqliteCollection {
    /// Opens the store at `path`, which is made where it is not there.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let store = Store::open(path)?;
        Ok(Self {
            path: store.path().to_owned(),
            idle: Mutex::new(vec![store]),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Store) -> Result<T, StoreError>) -> Result<T, StoreError> {
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

    fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &Context) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with(|store| store.read(work))
    }

    /// A transaction that is on the disk when this returns.
    fn write<T>(
        &self,
        work: impl FnOnce(&Connection, &Context) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with(|store| {
            let link = &store.link;
            link.connection
                .pragma_update(None, "synchronous", "full")
                .map_err(|error| link.context.on(error))?;
            link.write(work)
        })
    }
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
                    Err(id) => Err(changed(context, &id)),
                })
                .collect()
        })
    }

    fn find(&self, selector: &str) -> Result<RecordingId, StoreError> {
        self.with(|store| store.find(selector))
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
            Ok(all.into_values().collect())
        })
    }

    fn receive(&self, delivery: &Delivery<'_>) -> Result<Received, StoreError> {
        let id = delivery.recording.id;
        let found = self.write(|connection, context| {
            let on = |error| context.on(error);
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
                Some((_, Some(sha256))) if sha256 == delivery.sha256 => Ok(Received::Known),
                Some(_) => Ok(Received::Conflict),
                None => {
                    let summary = insert(connection, delivery).map_err(on)?;
                    count(connection, delivery, &summary).map_err(on)?;
                    Ok(Received::New)
                }
            }
        })?;
        if found == Received::Conflict {
            self.quarantine(&Refused {
                id,
                machine: delivery.machine,
                sha256: delivery.sha256,
                received: delivery.received,
                reason: "another content is kept under this ID",
                body: delivery.body,
            })?;
        }
        Ok(found)
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

    fn add_token(&self, token: &Token) -> Result<bool, StoreError> {
        let sql = "INSERT INTO token (name, role, sha256, created_ns) VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT DO NOTHING";
        let created = started_ns(token.created);
        let values = params![token.name, token.role.name(), token.sha256, created];
        self.changed(sql, values)
    }

    fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        self.changed("DELETE FROM token WHERE name = ?1", params![name])
    }

    fn token(&self, sha256: &str) -> Result<Option<Token>, StoreError> {
        let sql = "SELECT name, role, sha256, created_ns FROM token WHERE sha256 = ?1";
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
        let sql = "SELECT name, role, sha256, created_ns FROM token ORDER BY name LIMIT ?1";
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

    /// Whether the statement changed a row.
    fn changed(&self, sql: &str, values: impl rusqlite::Params) -> Result<bool, StoreError> {
        self.write(|connection, context| {
            let changed = connection
                .prepare_cached(sql)
                .and_then(|mut one| one.execute(values));
            changed.map(|rows| rows > 0).map_err(|e| context.on(e))
        })
    }
}

/// The token of a row; `None` where this program does not know its role.
fn token_of(row: &Row<'_>) -> rusqlite::Result<Option<Token>> {
    let role: String = row.get(1)?;
    let token = |role| -> rusqlite::Result<Token> {
        Ok(Token {
            name: row.get(0)?,
            role,
            sha256: row.get(2)?,
            created: time(row.get(3)?),
        })
    };
    Role::of_name(&role).map(token).transpose()
}

fn changed(context: &Context, id: &str) -> StoreError {
    context.damaged(format!("recording {id}: its line of the list was changed"))
}

/// The body of a delivery, as it is put aside.
pub(crate) fn compressed(body: &[u8]) -> Result<Vec<u8>, StoreError> {
    zstd::bulk::compress(body, 3).map_err(|error| StoreError::Compress {
        reason: error.to_string(),
    })
}

fn time(ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn id_of(text: &str) -> RecordingId {
    RecordingId(Uuid::try_parse(text).unwrap_or_default())
}

/// The WHERE clause of a page with its parameters, that of LIMIT included.
fn condition(wanted: &Wanted) -> (String, Vec<Value>) {
    let mut each = vec!["experiment IS NULL".to_owned()];
    let mut values = Vec::new();
    if let Some(machine) = &wanted.machine {
        each.push(
            "(key IN (SELECT recording FROM collected WHERE machine = ?) OR \
             (host = ? AND key NOT IN (SELECT recording FROM collected)))"
                .to_owned(),
        );
        values.extend([machine, machine].map(|name| Value::Text(name.clone())));
    }
    if let Some(probe) = &wanted.probe {
        each.push("probe = ?".to_owned());
        values.push(Value::Text(probe.clone()));
    }
    if let Some(outcome) = wanted.outcome {
        each.push("outcome = ?".to_owned());
        values.push(Value::Text(outcome_name(outcome).to_owned()));
    }
    if let Some((started, id)) = wanted.after {
        each.push("(started_ns, id) < (?, ?)".to_owned());
        values.push(Value::Integer(started_ns(started)));
        values.push(Value::Text(id_text(id)));
    }
    values.push(Value::Integer(wanted.most.try_into().unwrap_or(i64::MAX)));
    (format!("WHERE {}", each.join(" AND ")), values)
}

/// The machines whose recordings were made in this store.
fn local(
    connection: &Connection,
    context: &Context,
) -> Result<BTreeMap<String, Machine>, StoreError> {
    let on = |error| context.on(error);
    // SQLite takes the other columns from the row of the maximum
    // (sqlite.org/lang_select.html#bareagg).
    let sql = format!(
        "SELECT {COLUMNS}, count(*), max(started_ns) FROM recording \
         WHERE experiment IS NULL AND key NOT IN (SELECT recording FROM collected) GROUP BY host"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(on)?;
    let columns = statement.column_count();
    let read = |row: &Row<'_>| Ok((Entry::read(row)?, row.get::<_, Bits>(columns - 2)?.0));
    let rows: Vec<_> = statement
        .query_map([], read)
        .and_then(Iterator::collect)
        .map_err(on)?;
    let mut machines = BTreeMap::new();
    for (entry, recordings) in rows {
        let summary = entry.map_err(|id| changed(context, &id))?.summary;
        let name = summary.host.clone().unwrap_or_default();
        let machine = Machine {
            name: name.clone(),
            recordings,
            last_seen: Some(summary.started),
            latest: Some(Latest::of(&summary)),
        };
        machines.insert(name, machine);
    }
    Ok(machines)
}

/// The machines that delivered, and those that are enrolled.
fn delivered(connection: &Connection) -> rusqlite::Result<Vec<Machine>> {
    let latest = |row: &Row<'_>| -> rusqlite::Result<Latest> {
        let ns = |column| -> rusqlite::Result<Option<Nanos>> {
            Ok(row.get::<_, Option<Bits>>(column)?.map(|ns| Nanos(ns.0)))
        };
        Ok(Latest {
            id: id_of(&row.get::<_, String>(3)?),
            started: time(row.get(4)?),
            headline: row.get(5)?,
            outcome: outcome_of(&row.get::<_, String>(6)?).unwrap_or(Outcome::NotProven),
            completion: completion_of(&row.get::<_, String>(7)?).unwrap_or(Completion::Interrupted),
            max_ns: ns(8)?,
            p99_ns: ns(9)?,
            fingerprint: row.get(10)?,
        })
    };
    let mut statement = connection.prepare_cached(
        "SELECT name, recordings, last_seen_ns, latest, latest_started_ns, headline, outcome, \
         completion, max_ns, p99_ns, fingerprint FROM machine",
    )?;
    let mut machines: Vec<Machine> = statement
        .query_map([], |row| {
            Ok(Machine {
                name: row.get(0)?,
                recordings: row.get::<_, Bits>(1)?.0,
                last_seen: Some(time(row.get(2)?)),
                latest: Some(latest(row)?),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut statement = connection.prepare_cached(
        "SELECT name FROM token WHERE role = 'machine' AND name NOT IN (SELECT name FROM machine)",
    )?;
    let enrolled = statement.query_map([], |row| {
        Ok(Machine {
            name: row.get(0)?,
            recordings: 0,
            last_seen: None,
            latest: None,
        })
    })?;
    for machine in enrolled {
        machines.push(machine?);
    }
    Ok(machines)
}

/// One machine out of two sources.
fn merge(into: &mut Machine, other: Machine) {
    into.recordings += other.recordings;
    into.last_seen = into.last_seen.max(other.last_seen);
    let started = |latest: &Option<Latest>| latest.as_ref().map(|one| one.started);
    if started(&other.latest) > started(&into.latest) {
        into.latest = other.latest;
    }
}

/// Writes a recording that is complete.
fn insert(connection: &Connection, delivery: &Delivery<'_>) -> rusqlite::Result<Summary> {
    let recording = delivery.recording;
    let summary = Summary {
        // They stay with the machine.
        samples: false,
        ..Summary::of(recording)
    };
    let mut entry = Entry {
        summary,
        threads: recording.threads.len() as u64,
        rows: 0,
        chunks: 0,
        samples: 0,
        sample_bytes: 0,
    };
    entry.write(connection, None)?;
    let key = connection.last_insert_rowid();
    for row in &recording.series.rows {
        entry.rows += u64::from(write_row(connection, key, row)?);
    }
    entry.write(connection, Some(key))?;
    write_head(connection, key, &head_json(recording, None))?;
    for (number, thread) in (0..).zip(&recording.threads) {
        write_thread(connection, key, number, thread, true)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO collected (recording, machine, sha256, received_ns)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            key,
            delivery.machine,
            delivery.sha256,
            started_ns(delivery.received)
        ])?;
    Ok(entry.summary)
}

/// Brings the line of the machine up to date.
fn count(
    connection: &Connection,
    delivery: &Delivery<'_>,
    summary: &Summary,
) -> rusqlite::Result<()> {
    let received = started_ns(delivery.received);
    connection
        .prepare_cached(
            "INSERT INTO machine (name, recordings, last_seen_ns, latest, latest_started_ns,
                 headline, outcome, completion, max_ns, p99_ns, fingerprint)
             VALUES (?1, 0, ?2, '', -9223372036854775808, '', '', '', NULL, NULL, '')
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![delivery.machine, received])?;
    connection
        .prepare_cached(
            "UPDATE machine SET recordings = recordings + 1,
                 last_seen_ns = max(last_seen_ns, ?2) WHERE name = ?1",
        )?
        .execute(params![delivery.machine, received])?;
    connection
        .prepare_cached(
            "UPDATE machine SET latest = ?2, latest_started_ns = ?3, headline = ?4,
                 outcome = ?5, completion = ?6, max_ns = ?7, p99_ns = ?8, fingerprint = ?9
             WHERE name = ?1 AND latest_started_ns < ?3",
        )?
        .execute(params![
            delivery.machine,
            id_text(summary.id),
            started_ns(summary.started),
            summary.headline,
            outcome_name(summary.outcome),
            summary.completion.name(),
            summary.max_ns.map(|ns| Bits(ns.0)),
            summary.p99_ns.map(|ns| Bits(ns.0)),
            summary.fingerprint,
        ])?;
    Ok(())
}
