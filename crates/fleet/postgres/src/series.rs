//! Series, their runs and users' annotations, in PostgreSQL.

use jiff::Timestamp;
use postgres::Row;
use punctual_model::{
    ChangeAnnotation, FromJson, HostFacts, Note, Recording, RecordingId, SeriesEpoch, SeriesRun,
    Slot, ToJson,
};

use super::epochs::{EPOCHS, epoch, epoch_of};
use super::rows::{COLUMNS, WIDTH, of_filter, plain, summary};
use super::slots;
use crate::PostgresCollection;
use punctual_store::backend::{check, check_note, decode_run, started_ns};
use punctual_store::{Collection, Filter, SeriesStore, SlotFilter, StoreError, Summary, TextStore};

impl PostgresCollection {
    fn json<T: FromJson>(&self, sql: &str) -> Result<Vec<T>, StoreError> {
        let texts = self.pool.with_link(|link| {
            let rows = link.rows(sql, &[])?;
            rows.iter()
                .map(|row| row.try_get(0))
                .collect::<Result<Vec<String>, _>>()
        })?;
        let read = |text: &String| {
            T::from_json(text.as_bytes()).map_err(|error| {
                self.pool
                    .failed(format!("a note or decision cannot be read: {error}"))
            })
        };
        texts.iter().map(read).collect()
    }
}

impl SeriesStore for PostgresCollection {
    fn series(&self) -> Result<Vec<SeriesEpoch>, StoreError> {
        let sql = format!("{EPOCHS} ORDER BY name, machine, epoch");
        self.pool
            .with_link(|link| link.rows(&sql, &[])?.iter().map(epoch).collect())
    }

    fn series_named(&self, name: &str, host: Option<&str>) -> Result<Vec<SeriesEpoch>, StoreError> {
        let (name, host) = (plain(name), host.map(plain));
        let sql = format!(
            "{EPOCHS} WHERE name = $1
                AND ($2::text IS NULL OR $2 IN (machine, host) OR host IS NULL)
             ORDER BY machine, epoch"
        );
        self.pool.with_link(|link| {
            link.rows(&sql, &[&name, &host])?
                .iter()
                .map(epoch)
                .collect()
        })
    }

    fn runs(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
    ) -> Result<Vec<SeriesRun>, StoreError> {
        let (series, since) = (plain(series), since.map_or(i64::MIN, started_ns));
        let host = host.map(plain);
        let sql = format!(
            "SELECT {COLUMNS}, recording.machine, facts, plan_series.epoch, run
             FROM (SELECT key, epoch FROM plan_series
                 WHERE name = $1 AND ($2::text IS NULL OR machine = $2)) AS plan_series
             JOIN recording ON recording.series = plan_series.key
             WHERE started_ns >= $3 AND run IS NOT NULL ORDER BY started_ns, id"
        );
        let read = |row: &Row| -> Result<_, postgres::Error> {
            let body: Vec<u8> = row.try_get(WIDTH + 3)?;
            Ok((
                summary(row)?,
                row.try_get::<_, String>(WIDTH)?,
                row.try_get::<_, String>(WIDTH + 1)?,
                epoch_of(row, WIDTH + 2)?,
                decode_run(&body),
            ))
        };
        let rows = self.pool.with_link(|link| {
            let rows = link.rows(&sql, &[&series, &host, &since])?;
            rows.iter().map(read).collect::<Result<Vec<_>, _>>()
        })?;
        let run =
            |(one, machine, facts, epoch, decoded): (Summary, String, String, u32, Option<_>)| {
                let (program, groups) = decoded.ok_or_else(|| {
                    self.pool.failed(format!(
                        "recording {}: its trend figures were changed",
                        one.id
                    ))
                })?;
                Ok(SeriesRun {
                    recording: one.id,
                    epoch,
                    host: Some(machine),
                    started: one.started,
                    duration_ns: one.duration_ns,
                    completion: one.completion,
                    outcome: one.outcome,
                    facts: Some(facts),
                    program,
                    groups,
                })
            };
        rows.into_iter().map(run).collect()
    }

    fn facts(&self, hash: &str) -> Result<Option<HostFacts>, StoreError> {
        let Some(json) = self.text(hash)? else {
            return Ok(None);
        };
        HostFacts::from_json(json.as_bytes())
            .map(Some)
            .map_err(|error| self.pool.failed(format!("facts {hash}: {error}")))
    }

    fn recording(&self, id: RecordingId) -> Result<Recording, StoreError> {
        self.load(id).map(|(_, recording)| recording)
    }

    fn list_by(&self, filter: &Filter) -> Result<Vec<Summary>, StoreError> {
        let mut conditions = of_filter(filter);
        let clause = conditions.clause();
        let most = filter.limit.and_then(|most| i64::try_from(most).ok());
        let most = conditions.value(Box::new(most.unwrap_or(i64::MAX)));
        let sql = format!(
            "SELECT {COLUMNS} FROM recording {clause} ORDER BY started_ns DESC, id DESC LIMIT {most}"
        );
        self.pool.with_link(|link| {
            let rows = link.rows(&sql, &conditions.values())?;
            rows.iter().map(summary).collect()
        })
    }

    fn slots(&self, filter: &SlotFilter) -> Result<Vec<Slot>, StoreError> {
        let series = filter.series.as_deref().map(plain);
        let since = filter.since.map_or(i64::MIN, started_ns);
        let state = filter.state.map(|state| state.name());
        let host = filter.host.as_deref().map(plain);
        let most = filter
            .limit
            .and_then(|most| i64::try_from(most).ok())
            .unwrap_or(i64::MAX);
        let sql = "SELECT machine, name, epoch, due_ns, cause, state, reason, recording
            FROM slot JOIN plan_series ON plan_series.key = slot.series
            WHERE ($1::text IS NULL OR name = $1) AND due_ns >= $2
                AND ($3::text IS NULL OR state = $3)
                AND ($4::text IS NULL OR machine = $4 OR host = $4)
            ORDER BY due_ns DESC, name, key LIMIT $5";
        self.pool.with_link(|link| {
            let rows = link.rows(sql, &[&series, &since, &state, &host, &most])?;
            let read: Result<Vec<_>, _> = rows.iter().map(slots::read).collect();
            Ok(read?.into_iter().flatten().collect())
        })
    }

    fn notes(&self) -> Result<Vec<Note>, StoreError> {
        let mut all: Vec<Note> = self.json("SELECT json FROM note")?;
        all.sort_by_key(|note| (note.at, note.id));
        Ok(all)
    }

    fn put_note(&self, note: &Note) -> Result<(), StoreError> {
        check_note(self.pool.name(), &self.notes()?, note)?;
        let json = note.to_json();
        self.pool.with_link(|link| {
            let sql = "INSERT INTO note (id, json) VALUES ($1, $2)
                       ON CONFLICT (id) DO UPDATE SET json = excluded.json";
            link.run(sql, &[&note.id.0, &json]).map(drop)
        })
    }

    fn change_marks(&self, series: Option<&str>) -> Result<Vec<ChangeAnnotation>, StoreError> {
        let mut all: Vec<ChangeAnnotation> = self.json("SELECT json FROM change_mark")?;
        all.retain(|mark| series.is_none_or(|series| mark.series == series));
        all.sort_by_key(|mark| (mark.at, mark.id));
        Ok(all)
    }

    fn put_change_mark(&self, mark: &ChangeAnnotation) -> Result<(), StoreError> {
        check(self.pool.name(), format!("decision {}", mark.id), mark)?;
        let json = mark.to_json();
        self.pool.with_link(|link| {
            let sql = "INSERT INTO change_mark (id, series, json) VALUES ($1, $2, $3)
                       ON CONFLICT (id) DO UPDATE SET json = excluded.json";
            link.run(sql, &[&mark.id.0, &plain(&mark.series), &json])
                .map(drop)
        })
    }

    fn put_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<(), StoreError> {
        self.put_slots(&[(epoch.clone(), slot.clone())])
    }

    fn put_slots(&self, slots: &[(SeriesEpoch, Slot)]) -> Result<(), StoreError> {
        for (epoch, slot) in slots {
            check(self.pool.name(), "a series", epoch)?;
            check(self.pool.name(), "a slot", slot)?;
        }
        self.pool
            .with_link(|link| link.transaction(|link| slots::write(link, slots)))
    }
}
