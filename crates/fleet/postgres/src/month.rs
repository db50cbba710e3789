//! Monthly partitions.

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use punctual_model::RecordingId;

use super::link::Link;
use super::schema::LOCK;

/// A month in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Month {
    year: i16,
    month: i8,
}

/// No recording made by punctual is older than this, but a clock that was reset shows 1970.
const FIRST: Month = Month {
    year: 2020,
    month: 1,
};

impl Month {
    fn from_time(time: Timestamp) -> Self {
        let day = time.to_zoned(TimeZone::UTC).date();
        Self {
            year: day.year(),
            month: day.month(),
        }
    }

    const fn next(self) -> Self {
        match self.month {
            12 => Self {
                year: self.year + 1,
                month: 1,
            },
            month => Self {
                year: self.year,
                month: month + 1,
            },
        }
    }

    /// Returns whether the month has a separate partition at the time `now`. Implausible months
    /// have none, so that clocks that are off by years do not create partitions.
    fn is_usual(self, now: Timestamp) -> bool {
        (FIRST..=Self::from_time(now).next()).contains(&self)
    }

    /// Returns the month of a time; `None` if it has no separate partition.
    pub(super) fn of_time(ns: i64, now: Timestamp) -> Option<Self> {
        let time = Timestamp::from_nanosecond(ns.into()).ok()?;
        Some(Self::from_time(time)).filter(|month| month.is_usual(now))
    }

    /// Returns the month of an ID; `None` if it has no separate partition.
    pub(super) fn of_id(id: RecordingId, now: Timestamp) -> Option<Self> {
        let time = Timestamp::from_millisecond((id.0.as_u128() >> 80) as i64).ok()?;
        Some(Self::from_time(time)).filter(|month| month.is_usual(now))
    }

    fn begin(self) -> Timestamp {
        let first = date(self.year, self.month, 1).to_zoned(TimeZone::UTC);
        first.map_or(Timestamp::UNIX_EPOCH, |zoned| zoned.timestamp())
    }

    /// Returns the first ID of the month.
    fn first_id(self) -> uuid::Uuid {
        let ms = u128::try_from(self.begin().as_millisecond()).unwrap_or_default();
        uuid::Uuid::from_u128(ms << 80)
    }
}

/// A table with monthly partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Table {
    Recording,
    WakeWindow,
}

impl Table {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Recording => ("recording", "id"),
            Self::WakeWindow => ("wake_window", "start_ns"),
        }
    }

    fn bound(self, month: Month) -> String {
        match self {
            Self::Recording => format!("'{}'", month.first_id()),
            Self::WakeWindow => month.begin().as_nanosecond().to_string(),
        }
    }

    /// Creates the partition of a month if it does not exist, and moves matching rows there from
    /// the default partition.
    pub(super) fn make(self, link: &mut Link, month: Month) -> Result<(), postgres::Error> {
        let (table, column) = self.names();
        let name = format!("{table}_{:04}_{:02}", month.year, month.month);
        let (from, to) = (self.bound(month), self.bound(month.next()));
        link.transaction(|link| {
            link.run("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
            if link
                .row("SELECT 1 WHERE to_regclass($1) IS NOT NULL", &[&name])?
                .is_some()
            {
                return Ok(());
            }
            link.batch(&format!(
                "LOCK TABLE {table}_other IN ACCESS EXCLUSIVE MODE;
                 CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE);
                 WITH moved AS (DELETE FROM {table}_other
                     WHERE {column} >= {from} AND {column} < {to} RETURNING *)
                 INSERT INTO {name} SELECT * FROM moved;
                 ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to})"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_that_of_the_id() {
        let now: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
        let id = |time: &str| {
            let time: Timestamp = time.parse().unwrap();
            RecordingId(uuid::Uuid::from_u128(
                (time.as_millisecond() as u128) << 80 | 0x7000 << 64,
            ))
        };
        let of = |time| Month::of_id(id(time), now).map(|month| (month.year, month.month));
        assert_eq!(of("2026-11-30T23:59:59.999Z"), Some((2026, 11)));
        assert_eq!(of("2026-12-01T00:00:00Z"), Some((2026, 12)));
        assert_eq!(of("2027-01-01T00:00:00Z"), None);
        assert_eq!(of("1970-01-02T00:00:00Z"), None);
        let (november, december) = (id("2026-11-01T00:00:00Z"), id("2026-12-01T00:00:00Z"));
        let month = Month::of_id(november, now).unwrap();
        assert!(month.first_id() <= november.0 && november.0 < month.next().first_id());
        assert!(december.0 >= month.next().first_id());
    }
}
