//! Reads rows of a collection in SQLite.

use std::collections::BTreeMap;

use punctual_model::{Completion, Nanos, Outcome, RecordingId};
use rusqlite::types::Value;
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::{Latest, Machine, Role, Token, Wanted};
use crate::StoreError;
use crate::bits::Bits;
use crate::entry::{
    COLUMNS, Entry, completion_of, id_text, outcome_name, outcome_of, started_ns, time,
};
use crate::error::Context;

/// Machine name of a row of `recording`.
pub(super) const MACHINE: &str =
    "coalesce((SELECT machine FROM collected WHERE recording = key), host, '')";

pub(super) fn id_of(text: &str) -> RecordingId {
    RecordingId(Uuid::try_parse(text).unwrap_or_default())
}

/// Returns the WHERE clause of a page with its parameters, including that of LIMIT.
pub(super) fn condition(wanted: &Wanted) -> (String, Vec<Value>) {
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

/// Returns the machines whose recordings were made in this store. Imports that name no machine belong
/// to none.
pub(super) fn local(
    connection: &Connection,
    context: &Context,
) -> Result<BTreeMap<String, Machine>, StoreError> {
    let on = |error| context.on(error);
    // SQLite takes the other columns from the row with the maximum
    // (sqlite.org/lang_select.html#bareagg).
    let sql = format!(
        "SELECT {COLUMNS}, count(*), max(started_ns) FROM recording \
         WHERE experiment IS NULL AND host IS NOT NULL AND \
         key NOT IN (SELECT recording FROM collected) GROUP BY host"
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
        let summary = entry
            .map_err(|changed| context.damaged(changed.to_string()))?
            .summary;
        let name = summary.host.clone().unwrap_or_default();
        let machine = Machine {
            name: name.clone(),
            recordings,
            last_seen: Some(summary.started),
            latest: Some(Latest::from_summary(&summary)),
            retired: None,
        };
        machines.insert(name, machine);
    }
    Ok(machines)
}

/// Returns the machines that delivered, and those that are enrolled.
pub(super) fn delivered(connection: &Connection) -> rusqlite::Result<Vec<Machine>> {
    let latest = |row: &Row<'_>| -> rusqlite::Result<Latest> {
        let ns = |column| -> rusqlite::Result<Option<Nanos>> {
            Ok(row.get::<_, Option<Bits>>(column)?.map(|ns| Nanos(ns.0)))
        };
        Ok(Latest {
            id: id_of(&row.get::<_, String>(3)?),
            started: time(row.get(4)?),
            headline: row.get(5)?,
            outcome: outcome_of(&row.get::<_, String>(6)?).unwrap_or(Outcome::NotDecidable),
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
                retired: None,
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
            retired: None,
        })
    })?;
    for machine in enrolled {
        machines.push(machine?);
    }
    Ok(machines)
}

/// Merges the data of one machine from two sources.
pub(super) fn merge(into: &mut Machine, other: Machine) {
    into.recordings += other.recordings;
    into.last_seen = into.last_seen.max(other.last_seen);
    let started = |latest: &Option<Latest>| latest.as_ref().map(|one| one.started);
    if started(&other.latest) > started(&into.latest) {
        into.latest = other.latest;
    }
}

/// Reads a token from a row; `None` if this program does not know its role.
pub(super) fn token_of(row: &Row<'_>) -> rusqlite::Result<Option<Token>> {
    let role: String = row.get(1)?;
    let token = |role| -> rusqlite::Result<Token> {
        Ok(Token {
            name: row.get(0)?,
            role,
            sha256: row.get(2)?,
            created: time(row.get(3)?),
            machine: row.get(4)?,
        })
    };
    Role::of_name(&role).map(token).transpose()
}
