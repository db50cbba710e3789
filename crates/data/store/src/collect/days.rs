//! The recordings of each machine, by day.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use punctual_model::Nanos;
use rusqlite::{Connection, Row};

use super::rows::MACHINE;
use crate::bits::Bits;
use crate::entry::{bad_outcomes, started_ns};

/// The length of a day in UTC, in nanoseconds.
pub const DAY_NS: i64 = 86_400_000_000_000;

/// The recordings that a machine began on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDay {
    /// The machine.
    pub machine: String,
    /// The day, in UTC.
    pub day: Date,
    /// Number of ended recordings that exceeded or broke their requirement.
    pub bad: u64,
    /// Largest latency of all ended recordings; `None` without samples.
    pub max_ns: Option<Nanos>,
}

/// Returns the day with this number, in UTC. Day 0 is 1970-01-01.
pub fn day_of(number: i64) -> Date {
    let first = TimeZone::UTC.to_datetime(Timestamp::UNIX_EPOCH).date();
    first.saturating_add(number.days())
}

/// Returns the days since `since` on which machines began recordings.
pub(super) fn days(connection: &Connection, since: Timestamp) -> rusqlite::Result<Vec<MachineDay>> {
    let bad = bad_outcomes();
    let sql = format!(
        "SELECT {MACHINE} AS of_machine, started_ns / {DAY_NS} AS day,
             sum(outcome IN ({bad})), max(max_ns)
         FROM recording
         WHERE started_ns >= ?1 AND completion <> 'running' AND experiment IS NULL
         GROUP BY of_machine, day ORDER BY of_machine, day"
    );
    let read = |row: &Row<'_>| {
        Ok(MachineDay {
            machine: row.get(0)?,
            day: day_of(row.get(1)?),
            bad: row.get::<_, Bits>(2)?.0,
            max_ns: row.get::<_, Option<Bits>>(3)?.map(|ns| Nanos(ns.0)),
        })
    };
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map([started_ns(since)], read)?.collect()
}
