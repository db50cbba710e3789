//! A collection in PostgreSQL, for a fleet or for several concurrent collectors.
//!
//! **For:** an implementation of [`Collection`] with the same guarantees as the one in a file. The
//! tests run on both.
//!
//! **Knows:** PostgreSQL, TLS, the formats that all collections share ([`backend`]).
//!
//! **Must not know:** HTTP, terminals, the machine that it runs on.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod epochs;
mod link;
mod month;
mod names;
mod quarantine;
mod receive;
mod rows;
mod schema;
mod series;
mod slots;
mod texts;
mod tls;
mod version;
mod windows;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use postgres::Row;
use punctual_model::{Histogram, Recording, RecordingId, WakeWindow};

use crate::link::Pool;
use crate::month::{Month, Table};
use crate::receive::{Incoming, Packed};
use crate::rows::{COLUMNS, WIDTH, machine, machine_day, of_page, plain, summary, time_at, token};
use punctual_store::backend::{
    self, DAY_NS, Redirected, Selector, compressed, redirect_windows, started_ns, time, unpacked,
};
use punctual_store::{
    AuditLine, Collection, Delivery, Listed, Machine, MachineDay, MachineNames, Provenance,
    Quarantined, Received, Refused, StoreError, TextStore, Token, Total, Wanted,
};

/// A collection in a PostgreSQL database.
pub struct PostgresCollection {
    pool: Pool,
    /// Partitions that are known to exist.
    months: Mutex<HashSet<(Table, Month)>>,
}

impl fmt::Debug for PostgresCollection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresCollection")
            .field(&self.pool.name())
            .finish()
    }
}

impl PostgresCollection {
    /// Opens the database at `url` (`postgres://USER@HOST/NAME`, in libpq's format), and creates
    /// its tables if they do not exist.
    ///
    /// # Errors
    /// [`StoreError::Database`]: it cannot be reached, or its tables belong to another program.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let one = Self {
            pool: Pool::new(url)?,
            months: Mutex::default(),
        };
        version::make_tables(&one.pool)?;
        Ok(one)
    }

    /// Converts the tables of an earlier version in one transaction, which `dry_run` undoes.
    /// Returns the versions before and after; `None` if the tables have the version of this program.
    ///
    /// # Errors
    /// [`StoreError::Database`]: the database cannot be reached, or its tables cannot be converted.
    /// In each case, it is unchanged.
    pub fn upgrade(url: &str, dry_run: bool) -> Result<Option<(i32, i32)>, StoreError> {
        version::upgrade(&Pool::new(url)?, dry_run)
    }

    /// Creates the partition of a month if it has not been created yet.
    fn need_month(&self, table: Table, month: Option<Month>) -> Result<(), StoreError> {
        let known = || self.months.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(month) = month else {
            return Ok(());
        };
        if known().contains(&(table, month)) {
            return Ok(());
        }
        self.pool.with_link(|link| table.make(link, month))?;
        known().insert((table, month));
        Ok(())
    }

    fn no_such(&self, selector: &str) -> StoreError {
        StoreError::NoSuch {
            path: self.pool.name().into(),
            selector: selector.to_owned(),
        }
    }

    fn candidates(&self, selector: &Selector) -> Result<Vec<RecordingId>, StoreError> {
        let order = "ORDER BY started_ns DESC, id DESC LIMIT";
        self.pool.with_link(|link| {
            let rows = match selector {
                Selector::Last(back) => {
                    let sql = format!("SELECT id FROM recording {order} 1 OFFSET $1");
                    link.rows(&sql, &[&i64::from(*back)])?
                }
                Selector::Label(label, back) => {
                    let sql =
                        format!("SELECT id FROM recording WHERE label = $1 {order} 1 OFFSET $2");
                    link.rows(&sql, &[&plain(label), &i64::from(*back)])?
                }
                Selector::Digits(digits) => {
                    let padded = |with: &str| digits.clone() + &with.repeat(32 - digits.len());
                    let (from, to) = (padded("0"), padded("f"));
                    let end: String = digits.chars().rev().collect();
                    let sql = format!(
                        "SELECT id FROM recording WHERE id BETWEEN $1::text::uuid AND $2::text::uuid
                         OR reverse(encode(uuid_send(id), 'hex')) LIKE $3 {order} 20"
                    );
                    link.rows(&sql, &[&from, &to, &format!("{end}%")])?
                }
            };
            rows.iter()
                .map(|row| row.try_get(0).map(RecordingId))
                .collect()
        })
    }
}

impl Collection for PostgresCollection {
    fn name(&self) -> String {
        self.pool.name().to_owned()
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.pool
            .with_link(|link| link.row("SELECT 1", &[]).map(drop))
    }

    fn list(&self, wanted: &Wanted) -> Result<Vec<Listed>, StoreError> {
        let mut conditions = of_page(wanted);
        let clause = conditions.clause();
        let most = i64::try_from(wanted.most).unwrap_or(i64::MAX);
        let most = conditions.value(Box::new(most));
        let sql = format!(
            "SELECT {COLUMNS}, machine FROM recording {clause}
             ORDER BY started_ns DESC, id DESC LIMIT {most}"
        );
        let read = |row: &Row| {
            Ok(Listed {
                summary: summary(row)?,
                machine: row.try_get(WIDTH)?,
            })
        };
        self.pool.with_link(|link| {
            link.rows(&sql, &conditions.values())?
                .iter()
                .map(read)
                .collect()
        })
    }

    fn find(&self, selector: &str) -> Result<RecordingId, StoreError> {
        let mut found = Selector::first(selector, |reading| self.candidates(reading))?;
        match found.len() {
            0 => Err(self.no_such(selector)),
            1 => Ok(found.remove(0)),
            _ => Err(StoreError::Ambiguous {
                selector: selector.to_owned(),
                candidates: found,
            }),
        }
    }

    fn load(&self, id: RecordingId) -> Result<(String, Recording), StoreError> {
        let found = self.pool.with_link(|link| {
            let sql = "SELECT machine, crc, recording.body, facts.hash, facts.body FROM recording
                       JOIN facts ON facts.hash = recording.facts WHERE id = $1";
            let Some(row) = link.row(sql, &[&id.0])? else {
                return Ok(None);
            };
            let packed = Packed {
                crc: row.try_get(1)?,
                body: row.try_get(2)?,
                facts: (row.try_get(3)?, row.try_get(4)?),
            };
            Ok(Some((row.try_get(0)?, packed)))
        })?;
        let (machine, packed): (String, Packed) =
            found.ok_or_else(|| self.no_such(&id.to_string()))?;
        let recording = packed.open(id, &|hash| self.text(hash));
        let recording = recording.map_err(|error| self.pool.failed(error.to_string()))?;
        Ok((machine, recording))
    }

    fn machines(&self) -> Result<Vec<Machine>, StoreError> {
        let mut all = self.pool.with_link(|link| {
            let sql = "SELECT name, recordings, last_seen_ns, latest, latest_started_ns, headline,
                       outcome, completion, max_ns, p99_ns, fingerprint,
                       (SELECT at_ns FROM retired WHERE retired.machine = name) FROM machine";
            let all = link
                .rows(sql, &[])?
                .iter()
                .map(machine)
                .collect::<Result<Vec<_>, _>>()?;
            let sql = "SELECT name, (SELECT at_ns FROM retired WHERE retired.machine = name)
                       FROM token WHERE role = 'machine' AND NOT EXISTS (SELECT 1 FROM machine WHERE machine.name = token.name)";
            let enrolled = link.rows(sql, &[])?;
            let enrolled = enrolled.iter().map(|row| {
                Ok(Machine {
                    name: row.try_get(0)?,
                    recordings: 0,
                    last_seen: None,
                    latest: None,
                    retired: row.try_get::<_, Option<i64>>(1)?.map(time),
                })
            });
            all.into_iter()
                .map(Ok)
                .chain(enrolled)
                .collect::<Result<Vec<_>, _>>()
        })?;
        // Sort by name here, because the sort order of the database depends on its locale.
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    fn days(&self, since: Timestamp) -> Result<Vec<MachineDay>, StoreError> {
        let bad = backend::bad_outcomes();
        let sql = format!(
            "SELECT machine, started_ns / {DAY_NS} AS day,
                 count(*) FILTER (WHERE outcome IN ({bad})),
                 max(max_ns)
             FROM recording WHERE started_ns >= $1 AND completion <> 'running'
             GROUP BY machine, day"
        );
        let mut all: Vec<MachineDay> = self.pool.with_link(|link| {
            let rows = link.rows(&sql, &[&started_ns(since)])?;
            rows.iter().map(machine_day).collect()
        })?;
        all.sort_by(|a, b| (&a.machine, a.day).cmp(&(&b.machine, b.day)));
        Ok(all)
    }

    fn set_retired(&self, machine: &str, retired: Option<Timestamp>) -> Result<(), StoreError> {
        self.pool.with_link(|link| match retired {
            Some(at) => {
                let sql = "INSERT INTO retired (machine, at_ns) VALUES ($1, $2)
                           ON CONFLICT DO NOTHING";
                link.run(sql, &[&machine, &started_ns(at)]).map(drop)
            }
            None => {
                let sql = "DELETE FROM retired WHERE machine = $1";
                link.run(sql, &[&machine]).map(drop)
            }
        })
    }

    fn totals(&self) -> Result<Vec<(String, Total)>, StoreError> {
        let read = |row: &Row| {
            let due: Vec<u8> = row.try_get(2)?;
            let total = Total {
                recordings: row.try_get::<_, i64>(1)?.cast_unsigned(),
                due: Histogram::decode(&due).unwrap_or_default(),
                missed: row.try_get::<_, i64>(3)?.cast_unsigned(),
                unknown: row.try_get::<_, i64>(4)?.cast_unsigned(),
            };
            Ok((row.try_get(0)?, total))
        };
        let mut all: Vec<(String, Total)> = self.pool.with_link(|link| {
            let sql = "SELECT name, recordings, due, missed, unknown FROM machine";
            link.rows(sql, &[])?.iter().map(read).collect()
        })?;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    fn receive(&self, delivery: &Delivery<'_>) -> Result<Received, StoreError> {
        delivery.check(self.pool.name())?;
        let incoming = Incoming::from_delivery(delivery);
        let incoming = incoming.map_err(|error| self.pool.failed(error.to_string()))?;
        let id = delivery.recording.id;
        self.need_month(Table::Recording, Month::of_id(id, Timestamp::now()))?;
        let received = self.pool.with_link(|link| {
            link.transaction(|link| {
                let Some(machine) = names::current(link, delivery.machine)? else {
                    return incoming.receive(link);
                };
                let redirected = Redirected::new(delivery, machine);
                let delivery = redirected.delivery(delivery);
                incoming.with_delivery(&delivery).receive(link)
            })
        })?;
        match received {
            Received::Conflict { .. } => self.put_conflict_aside(delivery),
            other => Ok(other),
        }
    }

    fn quarantine(&self, refused: &Refused<'_>) -> Result<(), StoreError> {
        let body = compressed(refused.body)?;
        self.pool
            .with_link(|link| quarantine::add(link, refused, &body))
    }

    fn quarantined(&self, most: usize) -> Result<Vec<Quarantined>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.pool.with_link(|link| quarantine::newest(link, most))
    }

    fn quarantined_of(&self, machine: &str) -> Result<(u64, u64), StoreError> {
        self.pool
            .with_link(|link| quarantine::size_of(link, machine))
    }

    fn quarantined_body(&self, one: &Quarantined) -> Result<Vec<u8>, StoreError> {
        let body = self.pool.with_link(|link| quarantine::body(link, one))?;
        unpacked(&body.ok_or_else(|| self.no_such(&one.id.to_string()))?)
    }

    fn provenance(&self, id: RecordingId) -> Result<Provenance, StoreError> {
        let found = self.pool.with_link(|link| {
            let sql = "SELECT plan_series.machine, plan_series.host, name, epoch, definition,
                           begun_ns, recording.machine, sha256, received_ns
                       FROM recording LEFT JOIN plan_series ON plan_series.key = recording.series
                       WHERE id = $1";
            let Some(row) = link.row(sql, &[&id.0])? else {
                return Ok(None);
            };
            let has_series = row.try_get::<_, Option<String>>(0)?.is_some();
            Ok(Some(Provenance {
                machine: row.try_get(6)?,
                sha256: Some(row.try_get(7)?),
                received: Some(time_at(&row, 8)?),
                series: has_series.then(|| epochs::epoch(&row)).transpose()?,
            }))
        })?;
        found.ok_or_else(|| self.no_such(&id.to_string()))
    }

    fn lacking(&self, ids: &[RecordingId]) -> Result<Vec<RecordingId>, StoreError> {
        let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.0).collect();
        self.pool.with_link(|link| {
            let sql = "SELECT asked FROM unnest($1::uuid[]) WITH ORDINALITY AS a (asked, place)
                       WHERE NOT EXISTS (SELECT 1 FROM recording WHERE id = asked) ORDER BY place";
            let rows = link.rows(sql, &[&ids])?;
            rows.iter()
                .map(|row| row.try_get(0).map(RecordingId))
                .collect()
        })
    }

    fn add_windows_of(&self, deliveries: &[Vec<WakeWindow>]) -> Result<Vec<u64>, StoreError> {
        let deliveries = &redirect_windows(&self.earlier_names()?, deliveries);
        let all = || deliveries.iter().flatten();
        for window in all() {
            backend::check(self.pool.name(), "a window of wake-ups", window)?;
        }
        let columns = windows::Columns::from_windows(all())?;
        let now = Timestamp::now();
        for window in all() {
            let month = Month::of_time(started_ns(window.start), now);
            self.need_month(Table::WakeWindow, month)?;
        }
        let mut new = self.pool.with_link(|link| columns.write(link))?;
        let mut is_new = |window: &WakeWindow| {
            new.remove(&(
                plain(&window.machine).into_owned(),
                started_ns(window.start),
            ))
        };
        let count = |windows: &Vec<WakeWindow>| {
            windows.iter().filter(|window| is_new(window)).count() as u64
        };
        Ok(deliveries.iter().map(count).collect())
    }

    fn window_machines(&self) -> Result<Vec<String>, StoreError> {
        let mut all: Vec<String> = self.pool.with_link(|link| {
            let rows = link.rows("SELECT DISTINCT machine FROM wake_window", &[])?;
            rows.iter().map(|row| row.try_get(0)).collect()
        })?;
        all.sort();
        Ok(all)
    }

    fn windows(
        &self,
        machine: &str,
        since: Timestamp,
        most: usize,
    ) -> Result<Vec<WakeWindow>, StoreError> {
        let read = self
            .pool
            .with_link(|link| windows::read(link, machine, since, most))?;
        let damaged = || self.pool.failed("a window of wake-ups was changed");
        read.into_iter()
            .map(|window| window.ok_or_else(damaged))
            .collect()
    }

    fn add_token(&self, token: &Token) -> Result<bool, StoreError> {
        backend::check(self.pool.name(), "a token", token)?;
        self.pool.with_link(|link| {
            let sql = "INSERT INTO token (name, role, sha256, created_ns, machine)
                       VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
            let created = started_ns(token.created);
            let values: link::Values<'_> = &[
                &plain(&token.name),
                &token.role.name(),
                &token.sha256,
                &created,
                &token.machine.as_deref().map(plain),
            ];
            let added = link.run(sql, values)? > 0;
            if added {
                names::forget(link, &token.name)?;
            }
            Ok(added)
        })
    }

    fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        self.pool.with_link(|link| {
            Ok(link.run("DELETE FROM token WHERE name = $1", &[&plain(name)])? > 0)
        })
    }

    fn set_machine(
        &self,
        name: &str,
        before: Option<&str>,
        now: Option<&str>,
    ) -> Result<bool, StoreError> {
        self.pool.with_link(|link| {
            let sql = "UPDATE token SET machine = $3
                       WHERE name = $1 AND machine IS NOT DISTINCT FROM $2";
            let values: link::Values<'_> = &[&plain(name), &before.map(plain), &now.map(plain)];
            Ok(link.run(sql, values)? > 0)
        })
    }

    fn token(&self, sha256: &str) -> Result<Option<Token>, StoreError> {
        self.pool.with_link(|link| {
            let sql = "SELECT name, role, sha256, created_ns, machine FROM token WHERE sha256 = $1";
            let row = link.row(sql, &[&sha256])?;
            Ok(row.as_ref().map(token).transpose()?.flatten())
        })
    }

    fn tokens_of(&self, sha256: &[String]) -> Result<Vec<Token>, StoreError> {
        self.pool.with_link(|link| {
            let sql =
                "SELECT name, role, sha256, created_ns, machine FROM token WHERE sha256 = ANY($1)";
            let rows = link.rows(sql, &[&sha256])?;
            let all: Result<Vec<_>, _> = rows.iter().map(token).collect();
            Ok(all?.into_iter().flatten().collect())
        })
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let mut all = self.pool.with_link(|link| {
            let rows = link.rows(
                "SELECT name, role, sha256, created_ns, machine FROM token",
                &[],
            )?;
            let all: Result<Vec<_>, _> = rows.iter().map(token).collect();
            Ok(all?.into_iter().flatten().collect::<Vec<_>>())
        })?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    fn log(&self, line: &AuditLine) -> Result<(), StoreError> {
        self.pool.with_link(|link| {
            let sql = "INSERT INTO audit (at_ns, who, action, what) VALUES ($1, $2, $3, $4)";
            let values: link::Values<'_> = &[
                &started_ns(line.at),
                &plain(&line.who),
                &plain(&line.action),
                &plain(&line.what),
            ];
            link.run(sql, values).map(drop)
        })
    }

    fn audit(&self, most: usize) -> Result<Vec<AuditLine>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let read = |row: &Row| {
            Ok(AuditLine {
                at: time_at(row, 0)?,
                who: row.try_get(1)?,
                action: row.try_get(2)?,
                what: row.try_get(3)?,
            })
        };
        self.pool.with_link(|link| {
            let sql = "SELECT at_ns, who, action, what FROM audit ORDER BY key DESC LIMIT $1";
            link.rows(sql, &[&most])?.iter().map(read).collect()
        })
    }
}
