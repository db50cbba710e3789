//! Maintenance of a store: statistics, checks, backups, and freeing of unused space.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use punctual_model::RecordingId;
use rustix::fs::{
    CWD, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, fsync, ftruncate, renameat_with,
};
use rustix::io::Errno;
use serde::Serialize;

use crate::collect::DICTIONARIES;
use crate::schema::pragma;
use crate::sidecar::sidecar;
use crate::slots::SlotFilter;
use crate::{Store, StoreError};

/// The table `facts` also contains audits.
const FACTS: &str = "SELECT count(*) FROM facts WHERE hash NOT IN
                     (SELECT audit FROM recording WHERE audit IS NOT NULL)";

/// Statistics of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreStats {
    /// Schema version.
    pub schema: i64,
    /// Size of the file and its write-ahead log, in bytes.
    pub file_bytes: u64,
    /// Size of the pages in use, in bytes.
    pub used_bytes: u64,
    /// Number of recordings.
    pub recordings: u64,
    /// Number of recordings that are runs of a series.
    pub runs: u64,
    /// Number of series, counting each epoch.
    pub epochs: u64,
    /// Number of slots.
    pub slots: u64,
    /// Number of wake-up windows.
    pub windows: u64,
    /// Number of distinct machine facts.
    pub facts: u64,
    /// Number of interval rows.
    pub rows: u64,
    /// Size of stored samples, in bytes.
    pub sample_bytes: u64,
    /// Size of trace events and other attachments, in bytes.
    pub attachment_bytes: u64,
    /// Size of the histograms, counters and largest samples of completed recordings, in bytes.
    pub packed_bytes: u64,
    /// Size of the wake-up windows, in bytes.
    pub window_bytes: u64,
}

punctual_model::to_json!(StoreStats);

impl Store {
    /// Collects the statistics of the store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        let used_bytes = self.used()?;
        let size = |path: &Path| fs::metadata(path).map_or(0, |data| data.len());
        let file_bytes = size(self.path()) + size(&sidecar(self.path(), "-wal"));
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

    /// Reads everything and verifies the checksums. Returns one line for each problem. An empty
    /// list means that the store is intact.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read at all.
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
                    note(self.runs_of(&name, None, None, take).map(drop));
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

    /// Copies the store to a new file, in its current state, even while others write to it. The file
    /// appears when it is complete. If the program is killed, the next backup to the same path
    /// continues with the incomplete file `.NAME.partial`.
    ///
    /// # Errors
    /// Returns an error if the file already exists, if another backup writes it, or if reading or
    /// writing fails.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.copy_to(to, RenameFlags::NOREPLACE)
    }

    /// Copies the store like [`backup`](Self::backup), but replaces an earlier copy.
    pub(crate) fn backup_over(&self, to: &Path) -> Result<(), StoreError> {
        self.copy_to(to, RenameFlags::empty())
    }

    fn copy_to(&self, to: &Path, flags: RenameFlags) -> Result<(), StoreError> {
        let cannot = |reason: String| StoreError::Backup {
            path: to.to_owned(),
            reason,
        };
        let failed = |error: Errno| cannot(punctual_files::reason(&error.into()));
        if flags == RenameFlags::NOREPLACE && to.symlink_metadata().is_ok() {
            return Err(failed(Errno::EXIST));
        }
        let name = to.file_name().ok_or_else(|| failed(Errno::ISDIR))?;
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        let partial = to.with_file_name(partial);
        // Only the owner may read measurements, so create the file with the right mode before
        // SQLite fills it.
        let access = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::open(&partial, access, Mode::from_raw_mode(0o600)).map_err(failed)?;
        let own = fstat(&file).map_err(failed)?;
        if own.st_uid != rustix::process::geteuid().as_raw() || own.st_nlink != 1 {
            let why = format!("{} belongs to another user: remove it", partial.display());
            return Err(cannot(why));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => cannot("another backup to this file is running".to_owned()),
            error => failed(error),
        })?;
        ftruncate(&file, 0).map_err(failed)?;
        self.link.begin_work();
        let path = partial.to_string_lossy();
        let copied = (self.link.connection)
            .execute("VACUUM INTO ?1", [path.as_ref()])
            .map_err(|error| {
                let no_more_files = punctual_files::out_of_files();
                cannot(
                    no_more_files.map_or(error.to_string(), |error| punctual_files::reason(&error)),
                )
            })
            .and_then(|_| fsync(&file).map_err(failed))
            .and_then(|()| match renameat_with(CWD, &partial, CWD, to, flags) {
                // This file system cannot rename without replacing.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    fs::rename(&partial, to).map_err(|error| cannot(error.to_string()))
                }
                renamed => renamed.map_err(failed),
            });
        if copied.is_err() {
            let _ = fs::remove_file(&partial);
        }
        copied
    }

    /// Removes all dictionaries, and the facts and audits that belong to no recording, and returns
    /// all free pages to the file system. Returns the number of bytes by which the file shrank.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn compact(&self) -> Result<u64, StoreError> {
        let size = || fs::metadata(self.path()).map_or(0, |data| data.len());
        let before = size();
        self.link.write(|connection, context| {
            let sql = "DELETE FROM facts WHERE hash NOT IN
                       (SELECT facts FROM recording WHERE facts IS NOT NULL
                        UNION SELECT audit FROM recording WHERE audit IS NOT NULL)";
            let removed = connection.execute(sql, []).and_then(|_| {
                // The statement above has removed the dictionaries.
                let sql = "DELETE FROM plan_state WHERE name = ?1";
                connection.execute(sql, [DICTIONARIES])
            });
            removed.map(drop).map_err(|error| context.on(error))
        })?;
        self.link.give_space_back();
        self.link.empty_log()?;
        Ok(before.saturating_sub(size()))
    }
}
