//! Rows of a collection in PostgreSQL, read.

use std::borrow::Cow;

use jiff::Timestamp;
use postgres::Row;
use postgres::types::ToSql;
use punctual_model::{Completion, Nanos, Outcome, RecordingId};
use uuid::Uuid;

use crate::collect::{Latest, Machine, Token, Wanted};
use crate::entry::{completion_of, outcome_name, outcome_of, started_ns, time};
use crate::{Filter, Role, Summary};

/// The columns of a [`Summary`], in the order in which [`summary`] takes them.
pub(super) const COLUMNS: &str = "id, label, probe, headline, started_ns, duration_ns, completion, \
    outcome, recorded, missed, max_ns, p99_ns, fingerprint, host, origin";

/// The number of columns in [`COLUMNS`].
pub(super) const WIDTH: usize = 15;

/// An unsigned number as the signed one of the same bits.
pub(super) fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// A text as PostgreSQL takes it: without the character 0, which a hostile machine sends.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

fn ns(number: i64) -> Nanos {
    Nanos(number.cast_unsigned())
}

/// The line of the list of a row that selects [`COLUMNS`].
pub(super) fn summary(row: &Row) -> Result<Summary, postgres::Error> {
    let origin: Option<String> = row.try_get(14)?;
    Ok(Summary {
        id: RecordingId(row.try_get(0)?),
        label: row.try_get(1)?,
        probe: row.try_get(2)?,
        headline: row.try_get(3)?,
        started: time(row.try_get(4)?),
        duration_ns: ns(row.try_get(5)?),
        // Words of a later program are not shown as fine.
        completion: completion_of(row.try_get(6)?).unwrap_or(Completion::Interrupted),
        outcome: outcome_of(row.try_get(7)?).unwrap_or(Outcome::NotDecidable),
        recorded: row.try_get::<_, i64>(8)?.cast_unsigned(),
        missed: row.try_get::<_, i64>(9)?.cast_unsigned(),
        max_ns: row.try_get::<_, Option<i64>>(10)?.map(ns),
        p99_ns: row.try_get::<_, Option<i64>>(11)?.map(ns),
        fingerprint: row.try_get(12)?,
        host: row.try_get(13)?,
        samples: false,
        origin: origin.and_then(|json| serde_json::from_str(&json).ok()),
        lease: None,
    })
}

/// A condition with its parameters.
#[derive(Default)]
pub(super) struct Conditions {
    each: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync>>,
}

impl Conditions {
    /// Adds a condition; each `?` in it stands for one of the values.
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

    /// Adds a value; returns its name.
    pub(super) fn value(&mut self, value: Box<dyn ToSql + Sync>) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    /// The WHERE clause; empty without conditions.
    pub(super) fn clause(&self) -> String {
        match self.each.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.each.join(" AND ")),
        }
    }

    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(AsRef::as_ref).collect()
    }
}

fn boxed(value: impl ToSql + Sync + 'static) -> [Box<dyn ToSql + Sync>; 1] {
    [Box::new(value)]
}

/// Those of a page of the list.
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

/// Those of a filter.
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

/// The machine of a row of the overview.
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
    })
}

/// The token of a row; `None` where this program does not know its role.
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

/// The time of a column.
pub(super) fn time_at(row: &Row, column: usize) -> Result<Timestamp, postgres::Error> {
    row.try_get(column).map(time)
}
