//! What a collector keeps beside the recordings: who delivered them, what was refused,
//! tokens, and who changed what. One trait; a backend is one file.

mod copy;
mod insert;
mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
mod series_store;
mod sqlite;
mod sqlite_series;
mod text_store;

use jiff::Timestamp;
use punctual_model::{
    Completion, Histogram, Nanos, Outcome, Recording, RecordingId, SeriesEpoch, WakeWindow,
};

use crate::{StoreError, Summary};

pub use copy::{Copied, Provenance, copy};
pub use outbox::{Destination, Outbox};
#[cfg(feature = "postgres")]
pub use postgres::PostgresCollection;
pub use series_store::SeriesStore;
pub use sqlite::SqliteCollection;
pub use text_store::{LONGEST_TEXT, TextStore, text_hash};

/// Recordings of many machines. Its functions wait for the disk or for a database:
/// an asynchronous caller runs them on threads of their own.
pub trait Collection: SeriesStore + TextStore + Send + Sync {
    /// What it is called in messages: a path, or the name of a database.
    fn name(&self) -> String;

    /// Whether it can be read at this moment.
    ///
    /// # Errors
    /// Why it cannot.
    fn ready(&self) -> Result<(), StoreError>;

    /// A page of the recordings, the newest first.
    ///
    /// # Errors
    /// What reading can fail with.
    fn list(&self, wanted: &Wanted) -> Result<Vec<Listed>, StoreError>;

    /// The recording that was typed, see [`Store::find`](crate::Store::find).
    ///
    /// # Errors
    /// None or several fit; what reading can fail with.
    fn find(&self, selector: &str) -> Result<RecordingId, StoreError>;

    /// A recording, with the machine that it is of.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], and what reading can fail with.
    fn load(&self, id: RecordingId) -> Result<(String, Recording), StoreError>;

    /// All machines, by name: those that delivered, those that are enrolled, and those
    /// whose recordings were made in this store.
    ///
    /// # Errors
    /// What reading can fail with.
    fn machines(&self) -> Result<Vec<Machine>, StoreError>;

    /// Of each machine the sum of its recordings: it only grows while the server runs, and is
    /// the same after a restart.
    ///
    /// # Errors
    /// What reading can fail with.
    fn totals(&self) -> Result<Vec<(String, Total)>, StoreError>;

    /// Takes a recording, whole or not at all; what it answers survives a power cut.
    /// The same content again changes nothing, another content is put aside.
    ///
    /// # Errors
    /// What writing can fail with.
    fn receive(&self, delivery: &Delivery<'_>) -> Result<Received, StoreError>;

    /// Puts a delivery aside that cannot be kept as a recording.
    ///
    /// # Errors
    /// What writing can fail with.
    fn quarantine(&self, refused: &Refused<'_>) -> Result<(), StoreError>;

    /// What was put aside, the newest first; at most so many.
    ///
    /// # Errors
    /// What reading can fail with.
    fn quarantined(&self, most: usize) -> Result<Vec<Quarantined>, StoreError>;

    /// How many bodies of a machine were put aside, and their bytes in all.
    ///
    /// # Errors
    /// What reading can fail with.
    fn quarantined_of(&self, machine: &str) -> Result<(u64, u64), StoreError>;

    /// What was put aside, as it was delivered.
    ///
    /// # Errors
    /// What reading can fail with.
    fn quarantined_body(&self, one: &Quarantined) -> Result<Vec<u8>, StoreError>;

    /// Where a recording comes from.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], and what reading can fail with.
    fn provenance(&self, id: RecordingId) -> Result<Provenance, StoreError>;

    /// Of these recordings those that are not here.
    ///
    /// # Errors
    /// What reading can fail with.
    fn lacking(&self, ids: &[RecordingId]) -> Result<Vec<RecordingId>, StoreError>;

    /// Keeps windows of wake-ups, with the name of the machine that delivers as their
    /// machine; returns how many are new. What it answers survives a power cut.
    ///
    /// # Errors
    /// What writing can fail with.
    fn add_windows(&self, windows: &[WakeWindow]) -> Result<u64, StoreError> {
        let new = self.add_windows_of(&[windows.to_vec()])?;
        Ok(new.iter().sum())
    }

    /// Keeps the windows of several deliveries in one transaction, each as
    /// [`add_windows`](Self::add_windows) does; returns how many of each are new.
    ///
    /// # Errors
    /// What writing can fail with; none is kept then.
    fn add_windows_of(&self, deliveries: &[Vec<WakeWindow>]) -> Result<Vec<u64>, StoreError>;

    /// The machines of which there are windows, by name.
    ///
    /// # Errors
    /// What reading can fail with.
    fn window_machines(&self) -> Result<Vec<String>, StoreError>;

    /// The windows of a machine that began at `since` or later, the oldest first; at most
    /// so many.
    ///
    /// # Errors
    /// What reading can fail with.
    fn windows(
        &self,
        machine: &str,
        since: Timestamp,
        most: usize,
    ) -> Result<Vec<WakeWindow>, StoreError>;

    /// Keeps a token; `false` where its name is taken.
    ///
    /// # Errors
    /// What writing can fail with.
    fn add_token(&self, token: &Token) -> Result<bool, StoreError>;

    /// Forgets a token; `false` where there is none of this name.
    ///
    /// # Errors
    /// What writing can fail with.
    fn remove_token(&self, name: &str) -> Result<bool, StoreError>;

    /// Notes that the token of this name is used by the machine `now`, where it was
    /// `before`; `false` where it was not.
    ///
    /// # Errors
    /// What writing can fail with.
    fn set_machine(
        &self,
        name: &str,
        before: Option<&str>,
        now: Option<&str>,
    ) -> Result<bool, StoreError>;

    /// The token with this hash.
    ///
    /// # Errors
    /// What reading can fail with.
    fn token(&self, sha256: &str) -> Result<Option<Token>, StoreError>;

    /// The tokens with these hashes, in any order.
    ///
    /// # Errors
    /// What reading can fail with.
    fn tokens_of(&self, sha256: &[String]) -> Result<Vec<Token>, StoreError> {
        let found = sha256.iter().map(|hash| self.token(hash));
        found.filter_map(Result::transpose).collect()
    }

    /// All tokens, by name.
    ///
    /// # Errors
    /// What reading can fail with.
    fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// Writes a line of the audit log.
    ///
    /// # Errors
    /// What writing can fail with.
    fn log(&self, line: &AuditLine) -> Result<(), StoreError>;

    /// The audit log, the newest line first; at most so many.
    ///
    /// # Errors
    /// What reading can fail with.
    fn audit(&self, most: usize) -> Result<Vec<AuditLine>, StoreError>;
}

/// Whether this names a PostgreSQL database, and no file.
pub fn is_database(store: &str) -> bool {
    let schemes = ["postgres://", "postgresql://"];
    schemes.iter().any(|scheme| store.starts_with(scheme))
}

/// Which recordings a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only of this machine.
    pub machine: Option<String>,
    /// Only of this probe.
    pub probe: Option<String>,
    /// Only those whose requirement ended so.
    pub outcome: Option<Outcome>,
    /// Only those after this one in the order of the list.
    pub after: Option<(Timestamp, RecordingId)>,
    /// At most so many.
    pub most: usize,
}

/// A line of the list, with the machine that it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The name of the machine; empty where it is not known.
    pub machine: String,
    /// What the list shows.
    pub summary: Summary,
}

/// A machine that delivers, is enrolled, or was measured in this store.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its name: of its token, or its host name.
    pub name: String,
    /// Recordings of it.
    pub recordings: u64,
    /// When something of it was last received, or measured in this store; `None`
    /// where nothing ever was.
    pub last_seen: Option<Timestamp>,
    /// Its newest recording; `None` where there is none.
    pub latest: Option<Latest>,
}

/// The sum of several recordings of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// How many there are.
    pub recordings: u64,
    /// The latencies of all due periods that are known.
    pub due: Histogram,
    /// Missed periods.
    pub missed: u64,
    /// Due periods of unknown latency; they are in no bucket.
    pub unknown: u64,
}

impl Total {
    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.recordings += other.recordings;
        self.due.merge(&other.due);
        self.missed = self.missed.saturating_add(other.missed);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// Adds a recording.
    pub fn add(&mut self, recording: &Recording) {
        self.recordings += 1;
        self.missed = (self.missed).saturating_add(recording.accounting().missed);
        for thread in &recording.threads {
            let due = thread.due();
            self.due.merge(due.known());
            let unknown = due.unknown().saturating_add(due.open());
            self.unknown = self.unknown.saturating_add(unknown);
        }
    }
}

/// What is shown of the newest recording of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Latest {
    /// Which it is.
    pub id: RecordingId,
    /// When it began; when it arrived, where the clock of its machine is wrong by years.
    pub started: Timestamp,
    /// What was measured, in a line.
    pub headline: String,
    /// Whether its requirement was held.
    pub outcome: Outcome,
    /// Whether it came to its end.
    pub completion: Completion,
    /// The largest latency.
    pub max_ns: Option<Nanos>,
    /// 99% of all samples were not later.
    pub p99_ns: Option<Nanos>,
    /// The fingerprint of the machine.
    pub fingerprint: String,
}

impl Latest {
    /// That of a line of the list.
    pub fn of(summary: &Summary) -> Self {
        Self {
            id: summary.id,
            started: summary.started,
            headline: summary.headline.clone(),
            outcome: summary.outcome,
            completion: summary.completion,
            max_ns: summary.max_ns,
            p99_ns: summary.p99_ns,
            fingerprint: summary.fingerprint.clone(),
        }
    }
}

/// A recording as it arrives.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// The machine that delivers.
    pub machine: &'a str,
    /// The SHA-256 of its JSON, in hexadecimal digits.
    pub sha256: &'a str,
    /// When it arrived.
    pub received: Timestamp,
    /// The epoch of the series that it belongs to, with the delivering machine as its
    /// machine; `None`: to none.
    pub series: Option<&'a SeriesEpoch>,
    /// It.
    pub recording: &'a Recording,
    /// Its JSON.
    pub body: &'a [u8],
}

impl Delivery<'_> {
    /// When the recording began, as far as the clock of its machine can be right: a run of
    /// 2038 must not hide all later ones, and one of 1970 is not the oldest. The ID holds
    /// the time of that clock (RFC 9562, 5.7), also of a run that was imported.
    pub(crate) fn began(&self) -> Timestamp {
        let (started, made_ms) = (self.recording.started, self.recording.id.0.as_u128() >> 80);
        match started > self.received || made_ms < EARLIEST_MS {
            true => self.received,
            false => started,
        }
    }
}

/// The start of 2020, in ms: the clock of an older ID has no battery.
const EARLIEST_MS: u128 = 1_577_836_800_000;

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is kept now.
    New,
    /// The same was here before.
    Known,
    /// Another content is here under this ID: it was put aside.
    Conflict,
}

/// A delivery that cannot be kept as a recording.
#[derive(Clone, Debug)]
pub struct Refused<'a> {
    /// The ID that it was to have.
    pub id: RecordingId,
    /// The machine that delivered.
    pub machine: &'a str,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: &'a str,
    /// When it arrived.
    pub received: Timestamp,
    /// Why it was refused.
    pub reason: &'a str,
    /// Its content.
    pub body: &'a [u8],
}

/// A line of what was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The ID that it was to have.
    pub id: RecordingId,
    /// The machine that delivered.
    pub machine: String,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// When it arrived.
    pub received: Timestamp,
    /// Why it was refused.
    pub reason: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read.
    Viewer,
    /// Deliver recordings of one machine.
    Machine,
    /// Read, and change what people decide.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Machine, Self::Admin];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Machine => "machine",
            Self::Admin => "admin",
        }
    }

    /// That of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A token: only its hash is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose it is; of a machine, the name under which its recordings are kept.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The SHA-256 of the secret, in hexadecimal digits.
    pub sha256: String,
    /// When it was made.
    pub created: Timestamp,
    /// The machine that has used it, as that names itself; `None`: none yet, or none that
    /// names itself.
    pub machine: Option<String>,
}

/// Who changed what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    /// When.
    pub at: Timestamp,
    /// The name of the token, or the address.
    pub who: String,
    /// What was done: `enrol`, `quarantine`.
    pub action: String,
    /// To what.
    pub what: String,
}
