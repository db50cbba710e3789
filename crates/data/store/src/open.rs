//! Opens connections to the file, and reports why that fails.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use punctual_files::{folder, rights};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};

use crate::error::Context;
use crate::reserve::{give_up_reserve, keep_reserve};
use crate::schema::{check_objects, is_made, make};
use crate::sidecar::sidecar;
use crate::step_limit::StepLimit;
use crate::{StoreError, lease};

/// How long a process waits for another one's transaction. Transactions take milliseconds, so a
/// process that holds the lock longer has hung.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// SQLite's minimum page size, and so the minimum file size, in bytes (sqlite.org/fileformat.html,
/// 1.3.2).
const SMALLEST: u64 = 512;

/// A connection, and the data needed to report its errors.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) context: Context,
    pub(crate) read_only: bool,
    pub(crate) busy: Duration,
    step_limit: Arc<StepLimit>,
    /// The stamp from before the first read, if the store is read without a lock.
    at_rest: Option<Stamp>,
}

/// Identity, size and times of a store's file, used to detect writes to it. A writer first writes
/// to the log, which a reader without a lock ignores. Only when the log is copied back to the file
/// can such a reader see a mixture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    identity: (u64, u64),
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of the file. First waits until any later write is sure to get a later
    /// time, because the kernel's clock for files advances in ticks of at most 10 ms.
    fn settled(path: &Path) -> Option<Self> {
        let deadline = Instant::now() + TICK;
        loop {
            let is_recent = (fs::metadata(path).ok()?.modified().ok()?.elapsed())
                .is_ok_and(|passed| passed < TICK);
            if !is_recent || Instant::now() > deadline {
                return Self::from_path(path);
            }
            sleep(Duration::from_millis(1));
        }
    }

    fn from_path(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let data = fs::metadata(path).ok()?;
        Some(Self {
            identity: (data.dev(), data.ino()),
            size: data.len(),
            written: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

/// Longer than a tick of the kernel's clock for files.
const TICK: Duration = Duration::from_millis(20);

impl Link {
    /// Opens the store for reading and writing. Creates it if it does not exist.
    pub(crate) fn open(path: &Path, busy: Duration) -> Result<Self, StoreError> {
        let path = absolute(path)?;
        if let Some(folder) = path.parent() {
            folder::make(folder, 0o700).map_err(|error| {
                let path = path.clone();
                if error.is_out_of_files() {
                    // Another store would not help.
                    let reason = error.reason();
                    return StoreError::CannotOpen { path, reason };
                }
                StoreError::Folder {
                    path,
                    source: error.into(),
                }
            })?;
        }
        if !look(&path)? {
            make_file(&path);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut link = Self::connect(&path, &path, flags, busy)?;
        // SQLite falls back to read-only access if it cannot write.
        if link
            .connection
            .is_readonly(MAIN_DB)
            .map_err(|e| link.context.on(e))?
        {
            return Err(StoreError::ReadOnly { path });
        }
        link.prepare()?;
        keep_reserve(&path);
        Ok(link)
    }

    /// Opens an existing store of any schema to convert it. While the connection exists, no other
    /// one can be opened. The first statement fails if another program has the store open.
    pub(crate) fn open_alone(path: &Path, busy: Duration) -> Result<Self, StoreError> {
        let path = absolute(path)?;
        if !look(&path)? {
            return Err(StoreError::NotThere { path });
        }
        let link = Self::connect(&path, &path, OpenFlags::SQLITE_OPEN_READ_WRITE, busy)?;
        // In exclusive mode, the log needs the lock that each other connection shares, and SQLite
        // does not wait for it (sqlite.org/pragma.html#pragma_locking_mode).
        link.connection
            .pragma_update(None, "locking_mode", "exclusive")
            .map_err(|error| link.context.on(error))?;
        Ok(link)
    }

    /// Opens the store for reading.
    pub(crate) fn open_read_only(path: &Path, busy: Duration) -> Result<Self, StoreError> {
        let path = absolute(path)?;
        if !look(&path)? {
            return Err(StoreError::NotThere { path });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let opened = Self::connect(&path, &path, flags, busy)
            .and_then(|link| Ok((is_made(&link.connection, &link.context)?, link)));
        let (is_made, link) = match opened {
            // The store is at rest in a read-only folder. A missing -wal file shows that nothing is
            // writing to it, so it can be opened as immutable.
            Err(StoreError::CannotOpen { .. } | StoreError::ReadOnly { .. })
                if !sidecar(&path, "-wal").exists() =>
            {
                Self::at_rest(&path, flags, busy)?
            }
            // There is no space for the shared memory file, which any writing program would have
            // created. The log is empty, so the store's file contains everything.
            Err(StoreError::DiskFull { .. }) if has_empty_log(&path) => {
                Self::at_rest(&path, flags, busy)?
            }
            other => other?,
        };
        if !is_made {
            return Err(StoreError::NotThere { path });
        }
        let checked = check_objects(&link.connection, &link.context);
        link.check_at_rest()?;
        checked.map(|()| link)
    }

    /// Checks that nothing was written to a store that is read without a lock.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the file was written in the meantime.
    pub(crate) fn check_at_rest(&self) -> Result<(), StoreError> {
        let path = &self.context.path;
        match &self.at_rest {
            Some(before) if Stamp::from_path(path).as_ref() != Some(before) => {
                Err(StoreError::Changed { path: path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Opens a store that no program is writing to, without a lock. Also returns whether it has
    /// tables. [`check_at_rest`](Self::check_at_rest) later reports whether a program wrote to it
    /// after all.
    fn at_rest(path: &Path, flags: OpenFlags, busy: Duration) -> Result<(bool, Self), StoreError> {
        let uri = immutable_uri(path);
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        let before = Stamp::settled(path);
        let mut link = Self::connect(Path::new(&uri), path, flags, busy)?;
        link.at_rest = before;
        Ok((is_made(&link.connection, &link.context)?, link))
    }

    fn connect(
        name: &Path,
        path: &Path,
        flags: OpenFlags,
        busy: Duration,
    ) -> Result<Self, StoreError> {
        let context = Context {
            path: path.to_owned(),
            waited_s: busy.as_secs(),
        };
        let step_limit = Arc::new(StepLimit::new(path));
        let open = || -> rusqlite::Result<Connection> {
            let mut connection =
                Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            step_limit.apply_to(&mut connection)?;
            connection.busy_timeout(busy)?;
            connection.set_prepared_statement_cache_capacity(32);
            connection.pragma_update(None, "foreign_keys", true)?;
            // These settings detect damage, and treat a foreign file as mere data.
            connection.pragma_update(None, "cell_size_check", true)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            // Our stores have no views or triggers. If a file has some, do not run them.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            Ok(connection)
        };
        Ok(Self {
            connection: open().map_err(|error| context.on(error))?,
            context,
            read_only: flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY),
            busy,
            step_limit,
            at_rest: None,
        })
    }

    /// Starts a unit of work. The number of its steps is limited in proportion to the store's size.
    pub(crate) fn begin_work(&self) {
        self.step_limit.begin();
    }

    /// Creates the tables in a new file. Does not write to a file that already has them.
    fn prepare(&mut self) -> Result<(), StoreError> {
        {
            // This reads in one transaction, because another process may be creating the tables.
            let moment = self.connection.unchecked_transaction();
            let moment = moment.map_err(|error| self.context.on(error))?;
            if is_made(&moment, &self.context)? {
                return check_objects(&moment, &self.context);
            }
        }
        // This must be set before the first table is created. It allows deletes to free space.
        self.connection
            .pragma_update(None, "auto_vacuum", "incremental")
            .map_err(|error| self.context.on(error))?;
        make(&mut self.connection, &self.context)?;
        self.use_wal()
    }

    /// Switches to write-ahead logging, which is persistent. If the file system does not support it
    /// (no shared memory), SQLite keeps its rollback journal, which is as safe but slower.
    pub(crate) fn use_wal(&self) -> Result<(), StoreError> {
        // The switch needs an exclusive lock, and SQLite does not always wait for it.
        let deadline = Instant::now() + self.busy;
        loop {
            let switched =
                self.connection
                    .pragma_update_and_check(None, "journal_mode", "wal", |row| {
                        row.get::<_, String>(0)
                    });
            match switched {
                Ok(_) => return Ok(()),
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && Instant::now() < deadline =>
                {
                    sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(self.context.on(error)),
            }
        }
    }

    /// Returns free pages to the file system. If others use the store, this may have no effect; the
    /// pages are then reused for new data.
    pub(crate) fn give_space_back(&self) {
        let _ = self.run("PRAGMA incremental_vacuum");
    }

    /// Copies the write-ahead log into the file and empties it. While others use the store, part of
    /// the log may remain.
    pub(crate) fn empty_log(&self) -> Result<(), StoreError> {
        let done = self.run("PRAGMA wal_checkpoint(TRUNCATE)");
        done.map_err(|error| self.context.on(error))
    }

    /// Frees the memory of cached pages. If that fails, the memory remains in use.
    pub(crate) fn release(&self) {
        let _ = self.connection.release_memory();
    }

    /// Runs a statement to completion, because some statements do part of their work for each row.
    pub(crate) fn run(&self, sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Runs `work` in one transaction. The lock is taken at the start, so that two writers wait for
    /// each other instead of failing halfway.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&Connection, &Context) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let context = &self.context;
        if self.read_only {
            return Err(StoreError::ReadOnly {
                path: context.path.clone(),
            });
        }
        self.begin_work();
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(|error| context.on(error))?;
        let result = work(&transaction, context)?;
        transaction.commit().map_err(|error| context.on(error))?;
        Ok(result)
    }

    /// Runs `work` like [`write`](Self::write). If the disk is full, runs it again with the disk
    /// space reserved for deletes. The space is released while this connection holds the lock for
    /// writing. Otherwise, another process could use it first.
    pub(crate) fn write_on_a_full_disk<T>(
        &self,
        work: impl Fn(&Connection, &Context) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.write(&work) {
            Err(StoreError::DiskFull { .. }) => self.write(|connection, context| {
                give_up_reserve(&context.path);
                work(connection, context)
            }),
            other => other,
        }
    }
}

/// Returns the absolute path. SQLite gives some relative names a special meaning (such as
/// `:memory:`).
fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| StoreError::CannotOpen {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Examines the file before SQLite opens it. Returns whether it has content.
///
/// Does not open the file, because closing any descriptor of a file drops all POSIX locks of the
/// process on it, including those of other connections (sqlite.org/howtocorrupt.html, 2.2). SQLite
/// examines the content later.
fn look(path: &Path) -> Result<bool, StoreError> {
    let cannot = |error: std::io::Error| StoreError::CannotOpen {
        path: path.to_owned(),
        reason: punctual_files::reason(&error),
    };
    let not_a_store = |what: &str| StoreError::NotAStore {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    rights::check_not_planted(path).map_err(|error| StoreError::CannotOpen {
        path: path.to_owned(),
        reason: error.reason(),
    })?;
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.map_err(cannot)?,
    };
    if metadata.is_dir() {
        return Err(not_a_store("it is a folder"));
    }
    if !metadata.is_file() {
        return Err(not_a_store("it is not a regular file"));
    }
    // SQLite treats a file shorter than one page as new, and would write to it.
    match metadata.len() {
        0 => Ok(false),
        1..SMALLEST => Err(not_a_store("it is not a database")),
        _ => Ok(true),
    }
}

/// Creates the file of a new store, readable only by its owner, because measurements and the
/// command lines of loads are private. SQLite uses the same mode for its files next to the store.
/// If this fails, SQLite reports the error later.
///
/// The file is closed before it gets its final name: another thread may have opened the store under
/// that name, and closing would drop its locks (see [`look`]).
fn make_file(path: &Path) {
    let Some(folder) = path.parent() else { return };
    // Created with mode 0600.
    let Ok(nameless) = tempfile::NamedTempFile::new_in(folder) else {
        return;
    };
    let closed = nameless.into_temp_path();
    // Fails if another process was faster.
    if closed.persist_noclobber(path).is_ok() {
        lease::make_folder(path);
    }
}

/// Returns whether the write-ahead log is empty or missing.
fn has_empty_log(path: &Path) -> bool {
    fs::metadata(sidecar(path, "-wal")).map_or(true, |log| log.len() == 0)
}

/// Returns the path as a URI that declares the file immutable (sqlite.org/uri.html).
fn immutable_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::tests::{lease, recording, store_path};

    #[test]
    fn write_during_unlocked_read_is_reported() {
        let (_folder, path) = store_path();
        let add = |seed| {
            let (store, one) = (Store::open(&path).unwrap(), recording(seed));
            store.begin(&one, &lease()).unwrap().finish(&one).unwrap();
        };
        add(1);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let (_, link) = Link::at_rest(&path, flags, BUSY).unwrap();
        let store = Store::new(link);
        assert_eq!(store.list().unwrap().len(), 1);
        // The data is first written to the log, and copied back to the file when the writer closes
        // the store.
        add(2);
        let error = store.list().unwrap_err();
        assert!(matches!(error, StoreError::Changed { .. }), "{error}");
        assert!(error.to_string().contains("try again"), "{error}");
        // A new connection sees a consistent state again.
        let (_, link) = Link::at_rest(&path, flags, BUSY).unwrap();
        assert_eq!(Store::new(link).list().unwrap().len(), 2);
    }
}
