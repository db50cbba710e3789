//! A store looked after: figures, checks, backups, space given back.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use punctual_model::RecordingId;
use serde::Serialize;

use crate::beside::beside;
use crate::schema::pragma;
use crate::slots::SlotFilter;
use crate::{Store, StoreError};

/// In the table of facts are audits as well.
const FACTS: &str = "SELECT count(*) FROM facts WHERE hash NOT IN
                     (SELECT audit FROM recording WHERE audit IS NOT NULL)";

/// The figures of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreStats {
    /// Its schema.
    pub schema: i64,
    /// The file with its log, in bytes.
    pub file_bytes: u64,
    /// Pages that hold anything, in bytes.
    pub used_bytes: u64,
    /// Recordings.
    pub recordings: u64,
    /// Of these, runs of a series.
    pub runs: u64,
    /// Series, each epoch for itself.
    pub epochs: u64,
    /// Slots.
    pub slots: u64,
    /// Windows of wake-ups.
    pub windows: u64,
    /// Different facts of machines.
    pub facts: u64,
    /// Rows of time series.
    pub rows: u64,
    /// Samples that are kept, in bytes.
    pub sample_bytes: u64,
    /// Trace events and other attachments, in bytes.
    pub attachment_bytes: u64,
    /// Histograms, figures and worst samples of recordings that are done, in bytes.
    pub packed_bytes: u64,
    /// Windows of wake-ups, in bytes.
    pub window_bytes: u64,
}

impl Store {
    /// Counts what is there.
    ///
    /// # Errors
    /// What reading can fail with.
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        let used_bytes = self.used()?;
        let size = |path: &Path| fs::metadata(path).map_or(0, |data| data.len());
        let file_bytes = size(self.path()) + size(&beside(self.path(), "-wal"));
        self.read(|connection, context| {
            let count = |sql: &str| {
                let number = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
                let number = number.map_err(|error| context.on(error))?;
                Ok::<_, StoreError>(u64::try_from(number).unwrap_or_default())
            };
            Ok(StoreStats {
                schema: pragma(connection, "user_version").map_err(|error| context.on(error))?,
                file_bytes,
                used_bytes,
                recordings: count("SELECT count(*) FROM recording")?,
                runs: count("SELECT count(*) FROM recording WHERE series IS NOT NULL")?,
                epochs: count("SELECT count(*) FROM plan_series")?,
                slots: count("SELECT count(*) FROM slot")?,
                windows: count("SELECT count(*) FROM wake_window")?,
                facts: count(FACTS)?,
                rows: count("SELECT ifnull(sum(rows), 0) FROM recording")?,
                sample_bytes: count("SELECT ifnull(sum(sample_bytes), 0) FROM recording")?,
                attachment_bytes: count("SELECT ifnull(sum(length(body)), 0) FROM attachment")?,
                packed_bytes: count("SELECT ifnull(sum(length(body)), 0) FROM pack")?
                    + count("SELECT ifnull(sum(length(body)), 0) FROM run")?,
                window_bytes: count("SELECT ifnull(sum(length(body)), 0) FROM wake_window")?,
            })
        })
    }

    /// Reads everything and compares it with its checksums; returns what is wrong, a line
    /// each: nothing where all is well.
    ///
    /// # Errors
    /// A store that cannot be read at all.
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        let mut wrong = Vec::new();
        let found = self.read(|connection, context| {
            connection
                .prepare("PRAGMA integrity_check(20)")
                .and_then(|mut statement| {
                    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
                    rows.collect::<rusqlite::Result<Vec<String>>>()
                })
                .map_err(|error| context.on(error))
        })?;
        wrong.extend(found.into_iter().filter(|line| line != "ok"));
        let mut note = |result: Result<(), StoreError>| {
            wrong.extend(result.err().map(|error| error.to_string()));
        };
        let ids: Vec<RecordingId> = match self.list() {
            Ok(all) => all.iter().map(|summary| summary.id).collect(),
            Err(error) => {
                note(Err(error));
                Vec::new()
            }
        };
        for id in ids {
            note(self.check_recording(id));
        }
        match self.series() {
            Ok(epochs) => {
                let mut names: Vec<String> = epochs.into_iter().map(|epoch| epoch.name).collect();
                names.dedup();
                for name in names {
                    let take = &mut |_| Ok::<(), StoreError>(());
                    note(self.runs_of(&name, None, take).map(drop));
                }
            }
            Err(error) => note(Err(error)),
        }
        note(self.slots(&SlotFilter::default()).map(drop));
        note(
            self.wake_windows(None, &mut |_| Ok::<(), StoreError>(()))
                .map(drop),
        );
        note(self.notes().map(drop));
        note(self.change_marks(None).map(drop));
        note(self.experiments().map(drop));
        Ok(wrong)
    }

    fn check_recording(&self, id: RecordingId) -> Result<(), StoreError> {
        let threads = self.load(id)?.threads.len() as u32;
        for thread in 0..threads {
            self.samples::<StoreError>(id, thread, &mut |_| Ok(()))?;
        }
        for attached in self.attachments(id)? {
            self.attachment(id, &attached.kind, attached.number)?;
        }
        Ok(())
    }

    /// Copies the store to a new file, as it is at this moment, also while others write.
    ///
    /// # Errors
    /// A file that is there already, and what reading and writing can fail with.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let cannot = |error: std::io::Error| StoreError::Backup {
            path: to.to_owned(),
            reason: error.to_string(),
        };
        // Only its owner may read what was measured: SQLite fills the empty file.
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        options.open(to).map_err(cannot)?;
        self.link.begin_work();
        let path = to.to_string_lossy();
        let copied = self
            .link
            .connection
            .execute("VACUUM INTO ?1", [path.as_ref()])
            .map_err(|error| StoreError::Backup {
                path: to.to_owned(),
                reason: error.to_string(),
            });
        if copied.is_err() {
            let _ = fs::remove_file(to);
        }
        copied.map(drop)
    }

    /// Removes facts and audits that no recording has, and gives all free pages back to the
    /// file system. Returns how many bytes the file lost.
    ///
    /// # Errors
    /// What writing can fail with.
    pub fn compact(&self) -> Result<u64, StoreError> {
        let size = || fs::metadata(self.path()).map_or(0, |data| data.len());
        let before = size();
        self.link.write(|connection, context| {
            let sql = "DELETE FROM facts WHERE hash NOT IN
                       (SELECT facts FROM recording WHERE facts IS NOT NULL
                        UNION SELECT audit FROM recording WHERE audit IS NOT NULL)";
            let removed = connection.execute(sql, []);
            removed.map(drop).map_err(|error| context.on(error))
        })?;
        self.link.give_space_back();
        let on = |error| self.link.context.on(error);
        self.link
            .run("PRAGMA wal_checkpoint(TRUNCATE)")
            .map_err(on)?;
        Ok(before.saturating_sub(size()))
    }
}
