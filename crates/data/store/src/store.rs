//! The store: opened, listed, read, swept, thinned out.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use punctual_model::{Completion, HostFacts, Recording, RecordingId, Sample};
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use crate::entry::{COLUMNS, ChangedLine, Entry, Lease, Summary, id_text, remove};
use crate::error::Context;
use crate::filter::Filter;
use crate::lease::{self, lives};
use crate::load::{each_chunk, load};
use crate::open::{BUSY, Link};
use crate::reserve::give_up_reserve;
use crate::{StoreError, Writer, facts, runs};

/// Recordings in one file.
#[derive(Debug)]
pub struct Store {
    pub(crate) link: Link,
    /// Recordings whose writer is gone, in a store that cannot be written.
    presumed_dead: RefCell<BTreeSet<RecordingId>>,
}

impl Store {
    /// Opens the store at `path` for reading and writing. Makes the folder and
    /// the file where they are not there; a store that is there is not written to.
    ///
    /// # Errors
    /// A folder that cannot be made, a file that cannot be opened or written,
    /// is not a store, or is of another schema; see [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_waiting(path, BUSY)
    }

    pub(crate) fn open_waiting(path: &Path, busy: Duration) -> Result<Self, StoreError> {
        on_a_full_disk(path, || Link::open(path, busy)).map(Self::new)
    }

    /// Opens the store at `path` for reading. One in a folder that may not be
    /// written can be read as long as nobody writes it.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] where there is no file or an empty one, else
    /// as [`open`](Self::open).
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        on_a_full_disk(path, || Link::open_read_only(path, BUSY)).map(Self::new)
    }

    fn new(link: Link) -> Self {
        Self {
            link,
            presumed_dead: RefCell::default(),
        }
    }

    /// The file, from the root on.
    pub fn path(&self) -> &Path {
        &self.link.context.path
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.link.read_only
    }

    pub(crate) fn is_presumed_dead(&self, id: RecordingId) -> bool {
        self.presumed_dead.borrow().contains(&id)
    }

    /// Runs `work` on one moment of the store: what others commit meanwhile is
    /// not seen.
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
        // Rolled back at the end: nothing was written.
        work(&transaction, context)
    }

    /// All recordings, the newest first; running and interrupted ones too.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], naming the recording, and what reading can
    /// fail with.
    pub fn list(&self) -> Result<Vec<Summary>, StoreError> {
        self.list_by(&Filter::default())
    }

    /// The recordings that fit `filter`, the newest first; no other is read.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_by(&self, filter: &Filter) -> Result<Vec<Summary>, StoreError> {
        self.read(|connection, context| {
            entries(connection, context, filter)?
                .into_iter()
                .map(|entry| match entry {
                    Ok(entry) if self.is_presumed_dead(entry.summary.id) => {
                        let recording = load(connection, context, entry.summary.id, true)?;
                        Ok(Summary::of(&recording))
                    }
                    Ok(entry) => Ok(entry.summary),
                    Err(changed) => Err(context.damaged(changed.to_string())),
                })
                .collect()
        })
    }

    /// Reads a recording with its intervals. Each part is checked against its
    /// checksum and the number of its rows.
    ///
    /// One that was interrupted or still runs holds what was written so far:
    /// histograms are the sums of the intervals, the accounts fit them, the
    /// verdict is judged by them, and a warning says what is missing.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::Damaged`], and what reading can
    /// fail with.
    pub fn load(&self, id: RecordingId) -> Result<Recording, StoreError> {
        self.read(|connection, context| load(connection, context, id, self.is_presumed_dead(id)))
    }

    /// Hands the samples of one thread to `take`, a chunk of at most 65 536 at
    /// a time and in the order in which they were measured; returns how many
    /// there were. Memory stays that of one chunk.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::NoSuchThread`],
    /// [`StoreError::Damaged`], what reading can fail with, and what `take`
    /// returns.
    pub fn samples<E: From<StoreError>>(
        &self,
        id: RecordingId,
        thread: u32,
        take: &mut dyn FnMut(&[Sample]) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.read(|connection, context| each_chunk(connection, context, id, thread, take))
    }

    /// The facts with this hash (`SeriesRun::facts`); `None` where there are none.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], and what reading can fail with.
    pub fn facts(&self, hash: &str) -> Result<Option<HostFacts>, StoreError> {
        self.read(|connection, context| facts::facts_of(connection, context, hash))
    }

    /// Marks the running recordings whose writer is gone as interrupted, and
    /// returns how many these were; imports that did not come to their end are
    /// removed. The file that a writer holds says whether it lives; `alive` is
    /// asked where there is none, and where the file cannot tell.
    ///
    /// In a store that was opened for reading only nothing is written: the
    /// recordings only appear as interrupted to the functions of this object.
    ///
    /// # Errors
    /// What reading and writing can fail with.
    pub fn sweep(&self, alive: &dyn Fn(&Lease) -> bool) -> Result<usize, StoreError> {
        let filter = Filter {
            completion: Some(Completion::Running),
            ..Filter::default()
        };
        let running = self.read(|connection, context| entries(connection, context, &filter))?;
        let mut swept = 0;
        // A line that was changed is reported by those who read it.
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

    /// Marks one recording as interrupted, if it still is what `seen` says. Half
    /// an import goes: its file is still there.
    fn interrupt(&self, seen: &Summary) -> Result<bool, StoreError> {
        self.link.write(|connection, context| {
            let (key, mut entry) = match Entry::find(connection, seen.id, context) {
                // Another process was quicker.
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
                Ok(recording) => entry.summary = Summary::of(&recording),
                // Who loads it sees why; here it only stops running.
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

    /// Begins a recording: stores what is known at the start, as running and
    /// without latencies, on behalf of the writer that `lease` describes.
    /// Survives a power cut from here on.
    ///
    /// # Errors
    /// [`StoreError::Exists`], and what writing can fail with.
    pub fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError> {
        if self.link.read_only {
            return Err(StoreError::ReadOnly {
                path: self.path().to_owned(),
            });
        }
        let writer = Writer::begin(Link::open(self.path(), self.link.busy)?, recording, lease)?;
        // What this connection read is hardly used while the other one writes.
        self.link.release();
        Ok(writer)
    }

    /// Deletes a recording with all that belongs to it, and gives its space
    /// back to the file system.
    ///
    /// # Errors
    /// [`StoreError::StillRunning`] (a dead writer's recording must be
    /// [swept](Self::sweep) first), [`StoreError::NoSuch`], and what writing
    /// can fail with.
    pub fn delete(&self, id: RecordingId) -> Result<(), StoreError> {
        on_a_full_disk(self.path(), || self.try_delete(id))?;
        self.link.give_space_back();
        // A smaller file is one after the next checkpoint.
        let _ = self.link.run("PRAGMA wal_checkpoint(TRUNCATE)");
        Ok(())
    }

    fn try_delete(&self, id: RecordingId) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
            let on = |error| context.on(error);
            // Not through `Entry`: what was damaged can be deleted.
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
        })
    }
}

/// Does it again with the room that is kept beside the store, where the disk is full.
fn on_a_full_disk<T>(
    path: &Path,
    work: impl Fn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match work() {
        Err(StoreError::DiskFull { .. }) if give_up_reserve(path) => work(),
        other => other,
    }
}

/// The rows of table `recording` that fit `filter`, the newest first; an error
/// for each that was changed.
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
    // Not by SQLite, which would carry all columns through its sorter.
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
        // A page that lost rows is seen by the index of the IDs. Not count(*): that is
        // one step, however long it takes.
        let sql = format!(
            "SELECT count(id) FROM recording INDEXED BY sqlite_autoindex_recording_1 {condition}"
        );
        let count: i64 = connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(on)?;
        if usize::try_from(count) != Ok(entries.len()) {
            return Err(context.damaged(format!(
                "{} recordings are there, the index knows {count}",
                entries.len()
            )));
        }
    }
    Ok(entries)
}
