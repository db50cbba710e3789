//! Reads rows of a collection in PostgreSQL.

use std::borrow::Cow;

use jiff::Timestamp;
use postgres::Row;
use postgres::types::ToSql;
use punctual_model::{Completion, FromJson, Nanos, Origin, Outcome, RecordingId};
use uuid::Uuid;

use punctual_store::backend::{completion_of, day_of, outcome_name, outcome_of, started_ns, time};
use punctual_store::{Filter, Latest, Machine, MachineDay, Role, Summary, Token, Wanted};

/// Columns of a [`Summary`], in the order that [`summary`] expects.
pub(super) const COLUMNS: &str = "id, label, probe, headline, started_ns, duration_ns, completion, \
    outcome, recorded, missed, max_ns, p99_ns, fingerprint, host, origin";

/// The number of columns in [`COLUMNS`].
pub(super) const WIDTH: usize = 15;

/// Converts an unsigned number to the signed one with the same bits.
pub(super) fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// Removes NUL characters from a text, because PostgreSQL rejects them and a hostile machine may
/// send them.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn ns(number: i64) -> Nanos {
    Nanos(number.cast_unsigned())
}

/// Reads a list entry from a row of [`COLUMNS`].
pub(super) fn summary(row: &Row) -> Result<Summary, postgres::Error> {
    let origin: Option<String> = row.try_get(14)?;
    Ok(Summary {
        id: RecordingId(row.try_get(0)?),
        label: row.try_get(1)?,
        probe: row.try_get(2)?,
        headline: row.try_get(3)?,
        started: time(row.try_get(4)?),
        duration_ns: ns(row.try_get(5)?),
        // Unknown values of a later version must not look like success.
        completion: completion_of(row.try_get(6)?).unwrap_or(Completion::Interrupted),
        outcome: outcome_of(row.try_get(7)?).unwrap_or(Outcome::NotDecidable),
        recorded: row.try_get::<_, i64>(8)?.cast_unsigned(),
        missed: row.try_get::<_, i64>(9)?.cast_unsigned(),
        max_ns: row.try_get::<_, Option<i64>>(10)?.map(ns),
        p99_ns: row.try_get::<_, Option<i64>>(11)?.map(ns),
        fingerprint: row.try_get(12)?,
        host: row.try_get(13)?,
        samples: false,
        origin: origin.and_then(|json| Origin::from_json(json.as_bytes()).ok()),
        lease: None,
    })
}

/// Conditions with their parameters.
#[derive(Default)]
pub(super) struct Conditions {
    each: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync>>,
}

impl Conditions {
    /// Adds a condition; each `?` in it is replaced by one of the values.
    pub(super) fn add(
        &mut self,
        sql: &str,
        values: impl IntoIterator<Item = Box<dyn ToSql + Sync>>,
    ) {
        let mut text = sql.to_owned();
        for value in values {
            text = text.replacen('?', &self.value(value), 1);
        }
        self.each.push(text);
    }

    /// Adds a value; returns its placeholder.
    pub(super) fn value(&mut self, value: Box<dyn ToSql + Sync>) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    /// Returns the WHERE clause; empty without conditions.
    pub(super) fn clause(&self) -> String {
        if self.each.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", self.each.join(" AND "))
        }
    }

    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(AsRef::as_ref).collect()
    }
}

fn boxed(value: impl ToSql + Sync + 'static) -> [Box<dyn ToSql + Sync>; 1] {
    [Box::new(value)]
}

/// Returns the conditions of a page of the list.
pub(super) fn of_page(wanted: &Wanted) -> Conditions {
    let mut all = Conditions::default();
    if let Some(machine) = &wanted.machine {
        all.add("machine = ?", boxed(plain(machine).into_owned()));
    }
    if let Some(probe) = &wanted.probe {
        all.add("probe = ?", boxed(plain(probe).into_owned()));
    }
    if let Some(outcome) = wanted.outcome {
        all.add("outcome = ?", boxed(outcome_name(outcome)));
    }
    if let Some((started, id)) = wanted.after {
        let values: [Box<dyn ToSql + Sync>; 2] = [Box::new(started_ns(started)), Box::new(id.0)];
        all.add("(started_ns, id) < (?, ?)", values);
    }
    all
}

/// Returns the conditions of a filter.
pub(super) fn of_filter(filter: &Filter) -> Conditions {
    let mut all = Conditions::default();
    if let Some(probe) = &filter.probe {
        all.add("probe = ?", boxed(plain(probe).into_owned()));
    }
    if let Some(host) = &filter.host {
        all.add("machine = ?", boxed(plain(host).into_owned()));
    }
    if let Some(series) = &filter.series {
        let sql = "series IN (SELECT key FROM plan_series WHERE name = ?)";
        all.add(sql, boxed(plain(series).into_owned()));
    }
    if let Some(label) = &filter.label {
        let sql = "position(lower(?) in lower(label)) > 0";
        all.add(sql, boxed(plain(label).into_owned()));
    }
    if let Some(since) = filter.since {
        all.add("started_ns >= ?", boxed(started_ns(since)));
    }
    if let Some(completion) = filter.completion {
        all.add("completion = ?", boxed(completion.name()));
    }
    all
}

/// Reads a machine from a row of the machine overview.
pub(super) fn machine(row: &Row) -> Result<Machine, postgres::Error> {
    let id: Uuid = row.try_get(3)?;
    Ok(Machine {
        name: row.try_get(0)?,
        recordings: row.try_get::<_, i64>(1)?.cast_unsigned(),
        last_seen: Some(time(row.try_get(2)?)),
        latest: Some(Latest {
            id: RecordingId(id),
            started: time(row.try_get(4)?),
            headline: row.try_get(5)?,
            outcome: outcome_of(row.try_get(6)?).unwrap_or(Outcome::NotDecidable),
            completion: completion_of(row.try_get(7)?).unwrap_or(Completion::Interrupted),
            max_ns: row.try_get::<_, Option<i64>>(8)?.map(ns),
            p99_ns: row.try_get::<_, Option<i64>>(9)?.map(ns),
            fingerprint: row.try_get(10)?,
        }),
        retired: row.try_get::<_, Option<i64>>(11)?.map(time),
    })
}

/// Reads a day of a machine.
pub(super) fn machine_day(row: &Row) -> Result<MachineDay, postgres::Error> {
    Ok(MachineDay {
        machine: row.try_get(0)?,
        day: day_of(row.try_get(1)?),
        bad: row.try_get::<_, i64>(2)?.cast_unsigned(),
        max_ns: row.try_get::<_, Option<i64>>(3)?.map(ns),
    })
}

/// Reads a token from a row; `None` if this program does not know its role.
pub(super) fn token(row: &Row) -> Result<Option<Token>, postgres::Error> {
    let Some(role) = Role::of_name(row.try_get(1)?) else {
        return Ok(None);
    };
    Ok(Some(Token {
        name: row.try_get(0)?,
        role,
        sha256: row.try_get(2)?,
        created: time(row.try_get(3)?),
        machine: row.try_get(4)?,
    }))
}

/// Reads the time in a column.
pub(super) fn time_at(row: &Row, column: usize) -> Result<Timestamp, postgres::Error> {
    row.try_get(column).map(time)
}
