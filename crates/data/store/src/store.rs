//! The store: opens, lists, reads, sweeps and deletes recordings.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use punctual_model::{Completion, HostFacts, Recording, RecordingId, Sample};
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use crate::entry::{COLUMNS, ChangedLine, Entry, Summary, id_text, remove};
use crate::error::Context;
use crate::filter::Filter;
use crate::lease::{self, lives};
use crate::load::{each_chunk, load};
use crate::open::{BUSY, Link};
use crate::reserve::give_up_reserve;
use crate::{Lease, StoreError, Writer, facts, runs};

/// Recordings in one file.
#[derive(Debug)]
pub struct Store {
    pub(crate) link: Link,
    /// Recordings with a dead writer, in a read-only store.
    presumed_dead: RefCell<BTreeSet<RecordingId>>,
}

impl Store {
    /// Opens the store at `path` for reading and writing. Creates the folder and the file if
    /// necessary. Does not write to an existing store.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created, or if the file cannot be opened or
    /// written, is not a store, or has another schema; see [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with_timeout(path, BUSY)
    }

    pub(crate) fn open_with_timeout(path: &Path, busy: Duration) -> Result<Self, StoreError> {
        Link::open(path, busy).map(Self::new)
    }

    /// Opens the store like [`open`](Self::open), but in order to delete from it: on a full disk,
    /// the disk space reserved for deletes is used.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn open_to_delete(path: &Path) -> Result<Self, StoreError> {
        on_a_full_disk(path, || Link::open(path, BUSY)).map(Self::new)
    }

    /// Opens the store at `path` for reading. A store in a read-only folder can be read as long as
    /// no process writes to it.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] if the file does not exist or is empty; otherwise the same as
    /// [`open`](Self::open).
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        on_a_full_disk(path, || Link::open_read_only(path, BUSY)).map(Self::new)
    }

    pub(crate) fn new(link: Link) -> Self {
        Self {
            link,
            presumed_dead: RefCell::default(),
        }
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.link.context.path
    }

    /// Returns whether the store was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.link.read_only
    }

    pub(crate) fn is_presumed_dead(&self, id: RecordingId) -> bool {
        self.presumed_dead.borrow().contains(&id)
    }

    /// Runs `work` on a consistent snapshot: changes that others commit in the meantime are
    /// invisible.
    pub(crate) fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Connection, &Context) -> Result<T, E>,
    ) -> Result<T, E> {
        let context = &self.link.context;
        self.link.begin_work();
        let transaction = self
            .link
            .connection
            .unchecked_transaction()
            .map_err(|error| context.on(error))?;
        // Rolled back at the end, because nothing was written.
        let result = work(&transaction, context);
        // An error of `work` may be the result of a write to the file in the meantime, so check for
        // that first.
        self.link.check_at_rest()?;
        result
    }

    /// Returns all recordings, newest first, including running and interrupted ones.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], naming the recording, or any error while reading.
    pub fn list(&self) -> Result<Vec<Summary>, StoreError> {
        self.list_by(&Filter::default())
    }

    /// Returns the recordings that match `filter`, newest first. Does not read any others.
    ///
    /// # Errors
    /// Same as [`list`](Self::list).
    pub fn list_by(&self, filter: &Filter) -> Result<Vec<Summary>, StoreError> {
        self.read(|connection, context| {
            entries(connection, context, filter)?
                .into_iter()
                .map(|entry| match entry {
                    Ok(entry) if self.is_presumed_dead(entry.summary.id) => {
                        let recording = load(connection, context, entry.summary.id, true)?;
                        Ok(Summary::from_recording(&recording))
                    }
                    Ok(entry) => Ok(entry.summary),
                    Err(changed) => Err(context.damaged(changed.to_string())),
                })
                .collect()
        })
    }

    /// Loads a recording with its intervals. Each part is verified by its checksum and its number
    /// of rows.
    ///
    /// An interrupted or running recording contains the data written so far. Its histograms are the
    /// sums of the intervals, the accounts are adjusted to them, the verdict is based on those
    /// accounts, and a warning names the missing data.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::Damaged`], or any error while reading.
    pub fn load(&self, id: RecordingId) -> Result<Recording, StoreError> {
        self.read(|connection, context| load(connection, context, id, self.is_presumed_dead(id)))
    }

    /// Passes the samples of one thread to `take`, in the order of measurement and in chunks of at
    /// most 65,536. Returns their number. Holds only one chunk in memory.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::NoSuchThread`], [`StoreError::Damaged`], any error
    /// while reading, and any error that `take` returns.
    pub fn samples<E: From<StoreError>>(
        &self,
        id: RecordingId,
        thread: u32,
        take: &mut dyn FnMut(&[Sample]) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.read(|connection, context| each_chunk(connection, context, id, thread, take))
    }

    /// Returns the facts with this hash (`SeriesRun::facts`); `None` if there are none.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn facts(&self, hash: &str) -> Result<Option<HostFacts>, StoreError> {
        self.read(|connection, context| facts::facts_of(connection, context, hash))
    }

    /// Marks running recordings with a dead writer as interrupted, and returns their number.
    /// Removes incomplete imports. The lock on the lease file shows whether a writer is alive; if
    /// the file is missing or inconclusive, `alive` decides.
    ///
    /// In a read-only store, nothing is written: the recordings only appear as interrupted through
    /// this object.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or written.
    pub fn sweep(&self, alive: &dyn Fn(&Lease) -> bool) -> Result<usize, StoreError> {
        let filter = Filter {
            completion: Some(Completion::Running),
            ..Filter::default()
        };
        let running = self.read(|connection, context| entries(connection, context, &filter))?;
        let mut swept = 0;
        // A changed row is reported when it is read.
        for entry in running.into_iter().flatten() {
            let summary = entry.summary;
            let is_alive = lives(self.path(), summary.id, summary.lease.as_ref(), alive);
            if is_alive || self.is_presumed_dead(summary.id) {
                continue;
            }
            if self.link.read_only {
                self.presumed_dead.borrow_mut().insert(summary.id);
                swept += 1;
            } else {
                swept += usize::from(self.interrupt(&summary)?);
                lease::remove(self.path(), summary.id);
            }
        }
        Ok(swept)
    }

    /// Marks a recording as interrupted if it has not changed since `seen`. Removes an incomplete
    /// import, because its source file still exists.
    fn interrupt(&self, seen: &Summary) -> Result<bool, StoreError> {
        self.link.write(|connection, context| {
            let (key, mut entry) = match Entry::find(connection, seen.id, context) {
                // Another process was faster.
                Err(StoreError::NoSuch { .. }) => return Ok(false),
                other => other?,
            };
            if entry.summary.completion != Completion::Running || entry.summary.lease != seen.lease
            {
                return Ok(false);
            }
            if seen.origin.is_some() {
                return remove(connection, context, key).map(|()| true);
            }
            match load(connection, context, seen.id, true) {
                Ok(recording) => entry.summary = Summary::from_recording(&recording),
                // The recording is damaged; loading it will report that. Here, it is only marked as
                // no longer running.
                Err(StoreError::Damaged { .. } | StoreError::Recording { .. }) => {
                    entry.summary.completion = Completion::Interrupted;
                    entry.summary.lease = None;
                }
                Err(error) => return Err(error),
            }
            let written = entry.write(connection, Some(key));
            let written = written.map_err(|error| context.on(error))? > 0;
            runs::write_if_in_series(connection, context, key, seen.id)?;
            Ok(written)
        })
    }

    /// Begins a recording for the writer described by `lease`. Stores the data known at the start,
    /// marked as running and without latencies. Once this returns, the data survives a power cut.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or any error while writing.
    pub fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError> {
        if self.link.read_only {
            return Err(StoreError::ReadOnly {
                path: self.path().to_owned(),
            });
        }
        let writer = Writer::begin(Link::open(self.path(), self.link.busy)?, recording, lease)?;
        // Pages cached by this connection are rarely used while the writer's connection is in use.
        self.link.release();
        Ok(writer)
    }

    /// Deletes a recording with all its data, and returns the space to the file system.
    ///
    /// # Errors
    /// [`StoreError::StillRunning`] (the recording of a dead writer must be [swept](Self::sweep)
    /// first), [`StoreError::NoSuch`], or any error while writing.
    pub fn delete(&self, id: RecordingId) -> Result<(), StoreError> {
        self.link.write_on_a_full_disk(|connection, context| {
            let on = |error| context.on(error);
            // Does not use `Entry`, so that damaged recordings can be deleted.
            let (key, completion, pid): (i64, String, Option<i64>) = connection
                .prepare_cached("SELECT key, completion, writer_pid FROM recording WHERE id = ?1")
                .and_then(|mut statement| {
                    statement
                        .query_row([id_text(id)], |row| {
                            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                        })
                        .optional()
                })
                .map_err(on)?
                .ok_or_else(|| context.no_such(id))?;
            if completion == Completion::Running.name() {
                return Err(StoreError::StillRunning {
                    id,
                    pid: pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
                });
            }
            remove(connection, context, key)
        })?;
        self.link.give_space_back();
        // The file only shrinks at the next checkpoint.
        let _ = self.link.run("PRAGMA wal_checkpoint(TRUNCATE)");
        Ok(())
    }
}

/// Opens a store. If the disk is full, frees the reserved space and tries again.
fn on_a_full_disk<T>(
    path: &Path,
    open: impl Fn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match open() {
        Err(StoreError::DiskFull { .. }) if give_up_reserve(path) => open(),
        other => other,
    }
}

/// Returns the rows of table `recording` that match `filter`, newest first, with an error for each
/// changed row.
fn entries(
    connection: &Connection,
    context: &Context,
    filter: &Filter,
) -> Result<Vec<Result<Entry, ChangedLine>>, StoreError> {
    let on = |error| context.on(error);
    let (condition, values) = filter.condition();
    let sql = format!("SELECT {COLUMNS} FROM recording {condition}");
    let mut statement = connection.prepare_cached(&sql).map_err(on)?;
    let mut entries: Vec<_> = statement
        .query_map(params_from_iter(values), Entry::read)
        .and_then(Iterator::collect)
        .map_err(on)?;
    // Sorted here, because SQLite would move all columns through its sorter.
    let place = |entry: &Result<Entry, ChangedLine>| {
        let summary = entry.as_ref().ok().map(|entry| &entry.summary);
        summary.map(|summary| (summary.started, summary.id))
    };
    entries.sort_by_key(|entry| Reverse(place(entry)));
    let twice = |pair: &[_]| place(&pair[0]).is_some() && place(&pair[0]) == place(&pair[1]);
    if entries.windows(2).any(twice) {
        return Err(context.damaged("a recording is listed twice"));
    }
    if filter.shows_all() {
        // The index of IDs reveals whether a page has lost rows. The query does not use count(*),
        // which counts as a single step no matter how long it takes.
        let sql = format!(
            "SELECT count(id) FROM recording INDEXED BY sqlite_autoindex_recording_1 {condition}"
        );
        let count: i64 = connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(on)?;
        if usize::try_from(count) != Ok(entries.len()) {
            return Err(context.damaged(format!(
                "the store has {} recordings, but the index lists {count}",
                entries.len()
            )));
        }
    }
    Ok(entries)
}
