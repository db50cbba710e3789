//! Errors of a store. Each message is one line that names the file and a remedy.

use std::path::{Path, PathBuf};

use punctual_model::{ReadError, RecordingId};
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// Error when opening, reading or writing a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Neither XDG_DATA_HOME nor HOME determines the location of recordings.
    #[error(
        "neither XDG_DATA_HOME nor HOME is set, so the location of the store is unknown: specify \
         it with --store PATH"
    )]
    NoPlace,
    /// The store does not exist.
    #[error(
        "no recordings yet: {path} does not exist; create the first recording with: punctual \
         measure timer"
    )]
    NotThere {
        /// Path of the missing file.
        path: PathBuf,
    },
    /// The folder cannot be created.
    #[error("cannot create the folder of the store {path}: {source}; specify another --store PATH")]
    Folder {
        /// The store.
        path: PathBuf,
        /// Error reported by the system.
        source: std::io::Error,
    },
    /// The file exists but cannot be opened.
    #[error("cannot open the store {path}: {reason}")]
    CannotOpen {
        /// The store.
        path: PathBuf,
        /// Error reported by the system.
        reason: String,
    },
    /// The file is not a store.
    #[error("{path} is not a punctual store: {what}; specify another --store PATH")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// Actual kind of the file, if it can be recognized.
        what: String,
    },
    /// A later version of the program wrote the store.
    #[error(
        "the store {path} has schema {found}, but this version supports only schemas up to \
         {known}: use a newer punctual, or specify another --store PATH"
    )]
    Newer {
        /// The store.
        path: PathBuf,
        /// Schema version.
        found: i64,
        /// Latest schema that this program supports.
        known: i64,
    },
    /// The store is read-only.
    #[error(
        "the store {path} cannot be written: the file, its folder or its file system is \
         read-only; make it writable, or specify another --store PATH"
    )]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// The disk is full. Data that was stored before is intact.
    #[error(
        "no space left for the store {path}: earlier recordings are intact; free some space and try again"
    )]
    DiskFull {
        /// The store.
        path: PathBuf,
    },
    /// The content differs from what was written.
    #[error(
        "the store {path} is damaged ({detail}) and was not changed: recover the readable data \
         with: sqlite3 {path} .recover | sqlite3 NEW.db"
    )]
    Damaged {
        /// The store.
        path: PathBuf,
        /// Kind of damage.
        detail: String,
    },
    /// Another process has held the lock for too long.
    #[error(
        "the store {path} is locked by another process (waited {waited_s} s): try again when that \
         process has finished"
    )]
    Locked {
        /// The store.
        path: PathBuf,
        /// Waiting time, in seconds.
        waited_s: u64,
    },
    /// Any other SQLite error, such as lack of memory.
    #[error("cannot use the store {path}: {source}")]
    Sqlite {
        /// The store.
        path: PathBuf,
        /// Error reported by SQLite.
        source: rusqlite::Error,
    },
    /// The database of a fleet cannot be reached, or reports another error.
    #[error("cannot use the database {name}: {reason}")]
    Database {
        /// Name of the database, without user and password.
        name: String,
        /// Error reported by the database or the system.
        reason: String,
    },
    /// No recording matches.
    #[error(
        "no recording '{selector}' in the store {path}: specify at least four digits of an ID, a \
         label, 'last', or 'last~N' for the Nth recording before the last; 'punctual list' shows \
         all recordings"
    )]
    NoSuch {
        /// The store.
        path: PathBuf,
        /// Input of the user.
        selector: String,
    },
    /// No experiment matches.
    #[error(
        "no experiment '{selector}' in the store {path}: 'punctual experiment list' shows all \
         experiments"
    )]
    NoSuchExperiment {
        /// The store.
        path: PathBuf,
        /// Input of the user.
        selector: String,
    },
    /// Several recordings match.
    #[error("'{selector}' matches {} recordings ({}): specify more digits", candidates.len(), some(candidates))]
    Ambiguous {
        /// Input of the user.
        selector: String,
        /// Matching recordings, newest first.
        candidates: Vec<RecordingId>,
    },
    /// A recording with this ID already exists.
    #[error("the store {path} already contains recording {id}")]
    Exists {
        /// The store.
        path: PathBuf,
        /// The ID.
        id: RecordingId,
    },
    /// The recording is still being measured.
    #[error("recording {id} is still being measured by process {pid}: stop that process first")]
    StillRunning {
        /// ID of the recording.
        id: RecordingId,
        /// Process that is writing it.
        pid: u32,
    },
    /// A recording was passed as final, but its completion is still 'running'.
    #[error("recording {id} cannot be stored as final: its completion is still 'running'")]
    NotFinal {
        /// ID of the recording.
        id: RecordingId,
    },
    /// The recording has no such thread.
    #[error(
        "recording {id} has no thread {thread}: the number of measuring threads is {threads}, \
         counted from 0"
    )]
    NoSuchThread {
        /// ID of the recording.
        id: RecordingId,
        /// Number of the thread, counted from 0.
        thread: u32,
        /// Number of threads.
        threads: usize,
    },
    /// The number of threads differs from the number at the start of the recording.
    #[error("recording {id} began with {begun} measuring threads but now has {now}")]
    OtherThreads {
        /// ID of the recording.
        id: RecordingId,
        /// Number of threads at the start.
        begun: usize,
        /// Number of threads now.
        now: usize,
    },
    /// A label, name or note exceeds its length limit.
    #[error("{what} cannot be stored in {path}: {source}")]
    LongText {
        /// The store.
        path: PathBuf,
        /// The entry, such as a recording or a note.
        what: String,
        /// Name of the text, and its limit.
        source: punctual_model::TooLongText,
    },
    /// The machine already has the maximum number of notes.
    #[error(
        "the store {path} has {most} notes about this machine, which is the limit: delete some \
         notes with punctual trend note delete"
    )]
    ManyNotes {
        /// The store.
        path: PathBuf,
        /// Maximum number of notes.
        most: usize,
    },
    /// An earlier version of the program created the store.
    #[error(
        "the store {path} has schema {found}, but this program reads only schema {known}: \
         {remedy}, or specify another --store PATH. The store is unchanged"
    )]
    Older {
        /// The store.
        path: PathBuf,
        /// Schema version.
        found: i64,
        /// Schema of this program.
        known: i64,
        /// How to read the store.
        remedy: &'static str,
    },
    /// A machine cannot be renamed. Nothing has changed.
    #[error("{refusal} (in {name})")]
    NotRenamed {
        /// Name of the collection.
        name: String,
        /// The reason.
        refusal: RenameRefusal,
    },
    /// A store cannot be converted while another program has it open.
    #[error(
        "the store {path} cannot be converted while another program has it open: end runs, \
         monitors and servers that use it. The store is unchanged"
    )]
    InUse {
        /// The store.
        path: PathBuf,
    },
    /// A bundle, or the copy of the store that it contains, could not be written.
    #[error("the bundle cannot be written: {0}")]
    Bundle(#[source] std::io::Error),
    /// A part is too long to be read back.
    #[error("the attachment '{kind}' has {bytes} bytes, but at most {most} can be stored")]
    TooLong {
        /// Kind of the attachment.
        kind: String,
        /// Its size in bytes.
        bytes: u64,
        /// Maximum size in bytes.
        most: u64,
    },
    /// The system reports an I/O error.
    #[error(
        "cannot use the store {path}: I/O error ({reason}); look for disk errors in the kernel \
         log, or specify another --store PATH"
    )]
    Io {
        /// The store.
        path: PathBuf,
        /// Error reported by SQLite.
        reason: String,
    },
    /// A backup could not be written.
    #[error("cannot write the copy {path}: {reason}")]
    Backup {
        /// Path of the backup.
        path: PathBuf,
        /// Error reported by the system or by SQLite.
        reason: String,
    },
    /// The store was written to while it was being read without a lock.
    #[error(
        "the store {path} was changed while it was read, so the data that was read may be inconsistent: try again"
    )]
    Changed {
        /// The store.
        path: PathBuf,
    },
    /// Two stores define the same epoch differently.
    #[error(
        "series '{name}', epoch {epoch}, of the same machine is defined differently in the two \
         stores: rename the series in one of the plans"
    )]
    SeriesDiffers {
        /// The series.
        name: String,
        /// The epoch.
        epoch: u32,
    },
    /// The compressor rejects the samples. This is not known to happen.
    #[error("samples could not be compressed: {reason}")]
    Compress {
        /// Error of the compressor.
        reason: String,
    },
    /// A later version of the program wrote the head of the recording.
    #[error("recording {id} in the store {path}: {source}")]
    Recording {
        /// The store.
        path: PathBuf,
        /// ID of the recording.
        id: RecordingId,
        /// Reason why it cannot be read.
        source: ReadError,
    },
}

/// Why a machine cannot be renamed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenameRefusal {
    /// No machine has this name.
    #[error("no machine '{0}'")]
    NoMachine(String),
    /// It was already renamed.
    #[error("'{old}' is now named '{now}'")]
    Renamed {
        /// The earlier name.
        old: String,
        /// The current name.
        now: String,
    },
    /// The new name is that of a machine or of a user.
    #[error("'{0}' already exists, and the data of two machines cannot be separated again")]
    Taken(String),
    /// The new name is an earlier name of another machine.
    #[error("'{new}' is an earlier name of '{now}', which may still deliver under it")]
    TakenEarlier {
        /// The new name.
        new: String,
        /// The machine that has this earlier name.
        now: String,
    },
    /// The recordings contain the name.
    #[error(
        "recordings of '{0}' were measured in this store or imported into it, and contain its host \
         name: only machines that push can be renamed"
    )]
    Local(String),
}

impl StoreError {
    /// Returns whether the store refuses only this entry, so that others may still be stored: one
    /// of its texts is too long, or a quota is full.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::LongText { .. } | Self::ManyNotes { .. } | Self::TooLong { .. }
        )
    }
}

/// Shortens the first few candidates.
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

/// Converts SQLite's errors into ours. Contains the path, and how long the connection waits for
/// locks.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) path: PathBuf,
    pub(crate) waited_s: u64,
}

impl Context {
    /// Returns the typed error for `source`.
    ///
    /// All statements are constants and were valid when the schema was created. So a statement that
    /// no longer compiles, or a value of the wrong type, means that the file differs from what was
    /// written.
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
            // SQLite reports the same error for a full disk and for a failing one when it cannot
            // extend the WAL index file.
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
            // A page is missing (truncated file).
            _ if error.extended_code == ffi::SQLITE_IOERR_SHORT_READ => self.damaged(said),
            // The limit of steps is reached; see `step_limit`.
            ErrorCode::OperationInterrupted => {
                self.damaged("reading it takes more SQLite steps than are plausible for its size")
            }
            ErrorCode::SystemIoFailure => match punctual_files::out_of_files() {
                Some(error) => StoreError::CannotOpen {
                    reason: punctual_files::reason(&error),
                    path,
                },
                None => StoreError::Io { path, reason: said },
            },
            _ => StoreError::Sqlite { path, source },
        }
    }

    /// No recording has this ID.
    pub(crate) fn no_such(&self, id: RecordingId) -> StoreError {
        StoreError::NoSuch {
            path: self.path.clone(),
            selector: id.to_string(),
        }
    }

    /// The content is damaged.
    pub(crate) fn damaged(&self, detail: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            // SQLite quotes statements, which have several lines.
            detail: detail
                .into()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    /// The content of one recording is damaged.
    pub(crate) fn damaged_in(&self, id: RecordingId, detail: &str) -> StoreError {
        self.damaged(format!("recording {id}: {detail}"))
    }
}

/// Returns whether the file system has no space for a WAL index (32 KiB).
fn is_full(path: &Path) -> bool {
    const INDEX: u64 = 32 << 10;
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder)
        .is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) < INDEX)
}

/// Returns why an existing file cannot be opened, because SQLite does not report the reason. Does
/// not open the file, for the reason given at `look`.
fn why_not(path: &Path) -> String {
    if let Some(error) = punctual_files::out_of_files() {
        return punctual_files::reason(&error);
    }
    match rustix::fs::access(path, rustix::fs::Access::READ_OK) {
        Err(error) => error.to_string(),
        Ok(_) => "its folder is not writable, but SQLite needs to create -wal and -shm files there"
            .to_owned(),
    }
}
