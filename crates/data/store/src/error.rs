//! What can go wrong, each in one line that names the file and what to do.

use std::path::{Path, PathBuf};

use punctual_model::{ReadError, RecordingId};
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// A store that could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Neither XDG_DATA_HOME nor HOME says where recordings belong.
    #[error(
        "neither XDG_DATA_HOME nor HOME is set, so there is no place for recordings: give one with --store PATH"
    )]
    NoPlace,
    /// Nothing was ever kept there.
    #[error(
        "no recordings yet: {path} does not exist; make the first with: punctual measure timer"
    )]
    NotThere {
        /// The file that is not there.
        path: PathBuf,
    },
    /// The folder cannot be made.
    #[error("cannot make the folder of the store {path}: {source}; give another --store PATH")]
    Folder {
        /// The store.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is there and cannot be opened.
    #[error("cannot open the store {path}: {reason}")]
    CannotOpen {
        /// The store.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// A file of another kind.
    #[error("{path} is not a punctual store: {what}; give another --store PATH")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What it is instead, as far as can be told.
        what: String,
    },
    /// A later program wrote it.
    #[error(
        "the store {path} has schema {found}, this program knows up to {known}: use a newer punctual, or give another --store PATH"
    )]
    Newer {
        /// The store.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The latest schema of this program.
        known: i64,
    },
    /// It may be read but not written.
    #[error(
        "the store {path} cannot be written: the file, its folder or its file system is read-only; change that, or give another --store PATH"
    )]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// No space for what was to be written; what was there before is intact.
    #[error(
        "no space left for the store {path}: what was kept before is intact; make room and try again"
    )]
    DiskFull {
        /// The store.
        path: PathBuf,
    },
    /// Its content is not what was written.
    #[error(
        "the store {path} is damaged ({detail}) and was left as it is: save what can be read with: sqlite3 {path} .recover | sqlite3 NEW.db"
    )]
    Damaged {
        /// The store.
        path: PathBuf,
        /// What does not fit.
        detail: String,
    },
    /// Another process writes for too long.
    #[error(
        "the store {path} is locked by another process (waited {waited_s} s): try again when it is done"
    )]
    Locked {
        /// The store.
        path: PathBuf,
        /// How long was waited.
        waited_s: u64,
    },
    /// SQLite reports anything else, as a lack of memory.
    #[error("cannot use the store {path}: {source}")]
    Sqlite {
        /// The store.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A database of a fleet reports anything else, or cannot be reached.
    #[error("cannot use the database {name}: {reason}")]
    Database {
        /// The database, without user and password.
        name: String,
        /// What it or the system says.
        reason: String,
    },
    /// What was typed cannot be an ID at all.
    #[error(
        "'{selector}' is not an ID: give four or more of its hexadecimal digits, 'last', or 'last~N' for the Nth before it"
    )]
    NotASelector {
        /// What was typed.
        selector: String,
    },
    /// No recording answers to it.
    #[error("no recording '{selector}' in the store {path}: 'punctual list' shows what is there")]
    NoSuch {
        /// The store.
        path: PathBuf,
        /// What was looked for.
        selector: String,
    },
    /// No experiment answers to it.
    #[error(
        "no experiment '{selector}' in the store {path}: 'punctual experiment list' shows what is there"
    )]
    NoSuchExperiment {
        /// The store.
        path: PathBuf,
        /// What was looked for.
        selector: String,
    },
    /// Several recordings answer to it.
    #[error("'{selector}' fits {} recordings ({}): give more digits", candidates.len(), some(candidates))]
    Ambiguous {
        /// What was looked for.
        selector: String,
        /// What it fits, newest first.
        candidates: Vec<RecordingId>,
    },
    /// A recording with this ID is there already.
    #[error("the store {path} already holds a recording {id}")]
    Exists {
        /// The store.
        path: PathBuf,
        /// The ID.
        id: RecordingId,
    },
    /// It is still being measured.
    #[error("recording {id} is still being measured by process {pid}: stop that first")]
    StillRunning {
        /// The recording.
        id: RecordingId,
        /// The process that writes it.
        pid: u32,
    },
    /// A recording was handed over as final that says it still runs.
    #[error("recording {id} cannot be kept as final: its completion is still 'running'")]
    NotFinal {
        /// The recording.
        id: RecordingId,
    },
    /// A thread the recording does not have.
    #[error("recording {id} has {threads} measuring threads, there is no thread {thread}")]
    NoSuchThread {
        /// The recording.
        id: RecordingId,
        /// The thread, counted from 0.
        thread: u32,
        /// How many there are.
        threads: usize,
    },
    /// A batch or final recording whose parts do not fit what was begun.
    #[error("recording {id} was begun with {begun} measuring threads and now has {now}")]
    OtherThreads {
        /// The recording.
        id: RecordingId,
        /// How many it had.
        begun: usize,
        /// How many there are now.
        now: usize,
    },
    /// A label, a name or a note that is longer than its limit.
    #[error("{what} cannot be kept in the store {path}: {source}")]
    LongText {
        /// The store.
        path: PathBuf,
        /// The recording or the note.
        what: String,
        /// Which text, and its limit.
        source: punctual_model::TooLongText,
    },
    /// As many notes about a machine as are kept.
    #[error(
        "the store {path} has {most} notes about this machine, the most that it keeps: remove some with punctual note remove"
    )]
    ManyNotes {
        /// The store.
        path: PathBuf,
        /// How many are kept.
        most: usize,
    },
    /// The store was made by an earlier program.
    #[error(
        "the store {path} has schema {found}, this program reads schema {known} only: take its recordings out with the program that made it (punctual export ID), read them with punctual import, or give another --store PATH; the store is unchanged"
    )]
    Older {
        /// The store.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The schema of this program.
        known: i64,
    },
    /// An attachment that is too long to be read again.
    #[error("the {kind} of an outlier has {bytes} bytes: at most {most} are kept")]
    TooLong {
        /// What kind of thing it is.
        kind: String,
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        most: u64,
    },
    /// The system reports an I/O error.
    #[error(
        "cannot use the store {path}: I/O error ({reason}); see the kernel's log for the disk, or give another --store PATH"
    )]
    Io {
        /// The store.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// A copy that could not be made.
    #[error("cannot write the copy {path}: {reason}")]
    Backup {
        /// The copy.
        path: PathBuf,
        /// What the system or SQLite says.
        reason: String,
    },
    /// Two stores have different definitions of one epoch.
    #[error(
        "series '{name}', epoch {epoch}, of the same machine is defined differently in the two stores: rename it in one plan"
    )]
    SeriesDiffers {
        /// The series.
        name: String,
        /// The epoch.
        epoch: u32,
    },
    /// Samples that the compressor refuses; not known to happen.
    #[error("samples could not be compressed: {reason}")]
    Compress {
        /// What it says.
        reason: String,
    },
    /// The head of a recording is of a later program.
    #[error("recording {id} in the store {path}: {source}")]
    Recording {
        /// The store.
        path: PathBuf,
        /// The recording.
        id: RecordingId,
        /// Why it cannot be read.
        source: ReadError,
    },
}

/// The first few of several, short.
fn some(candidates: &[RecordingId]) -> String {
    let mut parts: Vec<String> = candidates
        .iter()
        .take(4)
        .map(|id| format!("…{}", id.short()))
        .collect();
    if candidates.len() > parts.len() {
        parts.push("…".to_owned());
    }
    parts.join(", ")
}

/// Turns what SQLite reports into one of ours; knows the file and how long
/// was waited for locks.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) path: PathBuf,
    pub(crate) waited_s: u64,
}

impl Context {
    /// The typed error for `source`.
    ///
    /// The statements are constants and were right when the schema was made.
    /// So a statement that no longer compiles, or a value of another type than
    /// its column, means that the file is not what was written.
    pub(crate) fn on(&self, source: rusqlite::Error) -> StoreError {
        use rusqlite::Error as E;
        let path = self.path.clone();
        match &source {
            E::SqliteFailure(error, message) => self.on_code(*error, message.clone(), source),
            E::SqlInputError { msg, .. } => self.damaged(msg.clone()),
            E::FromSqlConversionFailure(..)
            | E::IntegralValueOutOfRange(..)
            | E::InvalidColumnType(..)
            | E::Utf8Error(..)
            | E::QueryReturnedNoRows
            | E::QueryReturnedMoreThanOneRow => self.damaged(source.to_string()),
            _ => StoreError::Sqlite { path, source },
        }
    }

    fn on_code(
        &self,
        error: ffi::Error,
        message: Option<String>,
        source: rusqlite::Error,
    ) -> StoreError {
        let path = self.path.clone();
        let said = message.unwrap_or_else(|| error.to_string());
        match error.code {
            // SQLite says the same for a lack of space and for a disk that fails:
            // the file with the WAL's index could not grow.
            _ if error.extended_code == ffi::SQLITE_IOERR_SHMSIZE && is_full(&path) => {
                StoreError::DiskFull { path }
            }
            ErrorCode::DiskFull => StoreError::DiskFull { path },
            ErrorCode::ReadOnly => StoreError::ReadOnly { path },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Locked {
                path,
                waited_s: self.waited_s,
            },
            ErrorCode::NotADatabase => StoreError::NotAStore {
                path,
                what: "it is not a database".to_owned(),
            },
            ErrorCode::CannotOpen => StoreError::CannotOpen {
                reason: why_not(&path),
                path,
            },
            ErrorCode::DatabaseCorrupt
            | ErrorCode::Unknown
            | ErrorCode::TypeMismatch
            | ErrorCode::ConstraintViolation => self.damaged(said),
            // A page that should be there is not (a file cut short).
            _ if error.extended_code == ffi::SQLITE_IOERR_SHORT_READ => self.damaged(said),
            // The budget of steps is used up, see `open`.
            ErrorCode::OperationInterrupted => {
                self.damaged("reading it takes more steps than its size allows")
            }
            ErrorCode::SystemIoFailure => StoreError::Io { path, reason: said },
            _ => StoreError::Sqlite { path, source },
        }
    }

    /// No recording of this ID is there.
    pub(crate) fn no_such(&self, id: RecordingId) -> StoreError {
        StoreError::NoSuch {
            path: self.path.clone(),
            selector: id.to_string(),
        }
    }

    /// The content does not fit.
    pub(crate) fn damaged(&self, detail: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            // SQLite quotes statements of several lines.
            detail: detail
                .into()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    /// The content of one recording does not fit.
    pub(crate) fn damaged_in(&self, id: RecordingId, detail: &str) -> StoreError {
        self.damaged(format!("recording {id}: {detail}"))
    }
}

/// Whether the file system has no room for the index of a WAL (32 KiB) left.
fn is_full(path: &Path) -> bool {
    const INDEX: u64 = 32 << 10;
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder)
        .is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) < INDEX)
}

/// Why a file that is there cannot be opened: SQLite only says that it cannot.
/// The file is not opened for that, see `look`.
fn why_not(path: &Path) -> String {
    match rustix::fs::access(path, rustix::fs::Access::READ_OK) {
        Err(error) => error.to_string(),
        Ok(_) => "its folder cannot be written, and SQLite keeps its -wal and -shm files there"
            .to_owned(),
    }
}
