//! Data that a collector stores in addition to recordings: who delivered them, refused deliveries,
//! tokens and the audit log. There is one trait, with one file for each backend.

mod copy;
mod days;
mod insert;
mod name_rows;
mod names;
mod outbox;
mod packing;
mod rows;
mod series_store;
mod sqlite;
mod sqlite_names;
mod sqlite_series;
mod text_store;

use std::path::Path;

use jiff::Timestamp;
use punctual_model::{
    BoundedTexts, Completion, Histogram, LONGEST_NOTE, Nanos, Outcome, Recording, RecordingId,
    SeriesEpoch, TooLongText, WakeWindow, check_bytes, check_host_name,
};

use crate::{StoreError, Summary, texts};

pub use copy::{Copied, Provenance, copy};
pub use days::{DAY_NS, MachineDay, day_of};
pub use names::{MachineNames, Redirected, redirect_windows};
pub use outbox::{Destination, Outbox};
pub use packing::{compressed, unpacked};
pub use series_store::SeriesStore;
pub use sqlite::SqliteCollection;
pub(crate) use text_store::DICTIONARIES;
pub use text_store::{
    LONGEST_TEXT, MOST_DICTIONARIES, MOST_DICTIONARY_BYTES, TextStore, fits, text_hash,
};

/// Maximum number of quarantined bodies of a machine.
pub const MOST_ASIDE: u64 = 100;
/// Maximum total size of the quarantined bodies of a machine, in bytes.
pub const MOST_ASIDE_BYTES: u64 = 256 << 20;

/// Recordings of many machines. Its functions block on the disk or a database, so an asynchronous
/// caller must run them on separate threads.
pub trait Collection: SeriesStore + TextStore + MachineNames + Send + Sync {
    /// Returns the name of the collection for messages: a path, or the name of a database.
    fn name(&self) -> String;

    /// Checks whether the collection can currently be read.
    ///
    /// # Errors
    /// Returns the reason if it cannot be read.
    fn ready(&self) -> Result<(), StoreError>;

    /// Returns a page of the recordings, newest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn list(&self, wanted: &Wanted) -> Result<Vec<Listed>, StoreError>;

    /// Finds the recording for the user's input; see [`Store::find`](crate::Store::find).
    ///
    /// # Errors
    /// Returns an error if no recording or more than one matches, or any error while reading.
    fn find(&self, selector: &str) -> Result<RecordingId, StoreError>;

    /// Loads a recording, with the name of its machine.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], or any error while reading.
    fn load(&self, id: RecordingId) -> Result<(String, Recording), StoreError>;

    /// Returns all machines, by name: those that delivered, those that are enrolled, and those
    /// whose recordings were made in this store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn machines(&self) -> Result<Vec<Machine>, StoreError>;

    /// Returns the days (UTC) since `since` on which machines began recordings, by machine and day.
    /// Recordings of experiments and running ones do not count.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn days(&self, since: Timestamp) -> Result<Vec<MachineDay>, StoreError>;

    /// Takes a machine out of service, or with `None` back into service. Its recordings stay. The
    /// time of a machine that is already retired does not change.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn set_retired(&self, machine: &str, retired: Option<Timestamp>) -> Result<(), StoreError>;

    /// Returns the machines in service, by name; see [`machines`](Self::machines).
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn machines_in_service(&self) -> Result<Vec<Machine>, StoreError> {
        let mut machines = self.machines()?;
        machines.retain(|machine| machine.retired.is_none());
        Ok(machines)
    }

    /// Returns the total of each machine's recordings. A total never decreases while the server
    /// runs, and is the same after a restart.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn totals(&self) -> Result<Vec<(String, Total)>, StoreError>;

    /// Stores a recording atomically. The result is only returned once the recording survives a
    /// power cut. Receiving the same content again changes nothing; different content is
    /// quarantined.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn receive(&self, delivery: &Delivery<'_>) -> Result<Received, StoreError>;

    /// Quarantines a delivery that cannot be stored as a recording.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn quarantine(&self, refused: &Refused<'_>) -> Result<(), StoreError>;

    /// Quarantines a delivery like [`quarantine`](Self::quarantine), but only within the quota of
    /// its machine ([`MOST_ASIDE`], [`MOST_ASIDE_BYTES`]). Returns whether it was quarantined.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or written.
    fn put_aside(&self, refused: &Refused<'_>) -> Result<bool, StoreError> {
        let (count, bytes) = self.quarantined_of(refused.machine)?;
        let bytes = bytes.saturating_add(refused.body.len() as u64);
        let fits = count < MOST_ASIDE && bytes <= MOST_ASIDE_BYTES;
        if fits {
            self.quarantine(refused)?;
        }
        Ok(fits)
    }

    /// Quarantines a delivery whose ID is stored with different content.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or written.
    fn put_conflict_aside(&self, delivery: &Delivery<'_>) -> Result<Received, StoreError> {
        let aside = self.put_aside(&Refused {
            id: delivery.recording.id,
            machine: delivery.machine,
            sha256: delivery.sha256,
            received: delivery.received,
            reason: "different content is stored under this ID",
            body: delivery.body,
        })?;
        Ok(Received::Conflict { aside })
    }

    /// Returns at most `most` quarantined deliveries, newest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn quarantined(&self, most: usize) -> Result<Vec<Quarantined>, StoreError>;

    /// Returns the number of quarantined bodies of a machine, and their total size in bytes.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn quarantined_of(&self, machine: &str) -> Result<(u64, u64), StoreError>;

    /// Returns the body of a quarantined delivery.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn quarantined_body(&self, one: &Quarantined) -> Result<Vec<u8>, StoreError>;

    /// Returns the provenance of a recording.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], or any error while reading.
    fn provenance(&self, id: RecordingId) -> Result<Provenance, StoreError>;

    /// Returns which of these recordings are missing in this store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn lacking(&self, ids: &[RecordingId]) -> Result<Vec<RecordingId>, StoreError>;

    /// Stores wake-up windows under the name of the delivering machine. Returns the number of new
    /// windows once they survive a power cut.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn add_windows(&self, windows: &[WakeWindow]) -> Result<u64, StoreError> {
        let new = self.add_windows_of(&[windows.to_vec()])?;
        Ok(new.iter().sum())
    }

    /// Stores the windows of several deliveries in one transaction, like
    /// [`add_windows`](Self::add_windows). Returns the number of new windows for each delivery.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. In that case, nothing is stored.
    fn add_windows_of(&self, deliveries: &[Vec<WakeWindow>]) -> Result<Vec<u64>, StoreError>;

    /// Returns the machines with windows, by name.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn window_machines(&self) -> Result<Vec<String>, StoreError>;

    /// Returns at most `most` windows of a machine that began at `since` or later, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn windows(
        &self,
        machine: &str,
        since: Timestamp,
        most: usize,
    ) -> Result<Vec<WakeWindow>, StoreError>;

    /// Adds a token; returns `false` if its name is taken. If the name is an earlier name of a
    /// machine, it no longer is.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn add_token(&self, token: &Token) -> Result<bool, StoreError>;

    /// Removes a token; returns `false` if none has this name.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn remove_token(&self, name: &str) -> Result<bool, StoreError>;

    /// Records that the machine `now` uses the token with this name, provided that the machine
    /// recorded so far is `before`. Otherwise returns `false`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn set_machine(
        &self,
        name: &str,
        before: Option<&str>,
        now: Option<&str>,
    ) -> Result<bool, StoreError>;

    /// Returns the token with this hash.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn token(&self, sha256: &str) -> Result<Option<Token>, StoreError>;

    /// Returns the tokens with these hashes, in any order.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn tokens_of(&self, sha256: &[String]) -> Result<Vec<Token>, StoreError> {
        let found = sha256.iter().map(|hash| self.token(hash));
        found.filter_map(Result::transpose).collect()
    }

    /// Returns all tokens, by name.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// Writes a line of the audit log.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn log(&self, line: &AuditLine) -> Result<(), StoreError>;

    /// Returns at most `most` lines of the audit log, newest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn audit(&self, most: usize) -> Result<Vec<AuditLine>, StoreError>;
}

/// Returns whether this is the name of a PostgreSQL database rather than of a file.
pub fn is_database(store: &str) -> bool {
    let schemes = ["postgres://", "postgresql://"];
    schemes.iter().any(|scheme| store.starts_with(scheme))
}

/// Filter for a page of recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only recordings of this machine.
    pub machine: Option<String>,
    /// Only recordings of this probe.
    pub probe: Option<String>,
    /// Only recordings with this outcome.
    pub outcome: Option<Outcome>,
    /// Only recordings that come after this one in the list.
    pub after: Option<(Timestamp, RecordingId)>,
    /// Maximum number of recordings.
    pub most: usize,
}

/// A list entry, with its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Name of the machine; empty if unknown.
    pub machine: String,
    /// The list entry.
    pub summary: Summary,
}

/// A machine that delivers, is enrolled, or was measured in this store.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name of the machine, taken from its token or its host name.
    pub name: String,
    /// Number of its recordings.
    pub recordings: u64,
    /// Time when one of its recordings was last received, or last measured in this store; `None` if
    /// never.
    pub last_seen: Option<Timestamp>,
    /// Its newest recording; `None` if there is none.
    pub latest: Option<Latest>,
    /// Time when an administrator took it out of service; `None` if it is in service.
    pub retired: Option<Timestamp>,
}

/// Sum over several recordings of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// Number of recordings.
    pub recordings: u64,
    /// Latencies of all due periods for which the latency is known.
    pub due: Histogram,
    /// Number of missed periods.
    pub missed: u64,
    /// Number of due periods with unknown latency; they are in no bucket.
    pub unknown: u64,
}

impl Total {
    /// Adds another total.
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

/// Overview of the newest recording of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Latest {
    /// ID of the recording.
    pub id: RecordingId,
    /// Start time; if the machine's clock is off by years, the arrival time.
    pub started: Timestamp,
    /// Summary of the measurement in one line.
    pub headline: String,
    /// Whether its requirement was met.
    pub outcome: Outcome,
    /// Whether it was completed.
    pub completion: Completion,
    /// Largest latency.
    pub max_ns: Option<Nanos>,
    /// 99th percentile of all samples.
    pub p99_ns: Option<Nanos>,
    /// Fingerprint of the machine.
    pub fingerprint: String,
}

impl Latest {
    /// Builds it from a list entry.
    pub fn from_summary(summary: &Summary) -> Self {
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

/// A recording as delivered.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// Machine that delivers the recording.
    pub machine: &'a str,
    /// SHA-256 of its JSON, in hexadecimal digits.
    pub sha256: &'a str,
    /// Time of arrival.
    pub received: Timestamp,
    /// Epoch of its series, with the delivering machine as the epoch's machine; `None` if it
    /// belongs to no series.
    pub series: Option<&'a SeriesEpoch>,
    /// The recording.
    pub recording: &'a Recording,
    /// Its JSON.
    pub body: &'a [u8],
}

impl Delivery<'_> {
    /// Checks that the texts of the delivery are within their limits. Errors contain `store` as its
    /// name.
    pub fn check(&self, store: impl AsRef<Path>) -> Result<(), StoreError> {
        let what = || format!("recording {}", self.recording.id);
        let store = store.as_ref();
        texts::check(store, what(), self.recording)?;
        let named = |source| StoreError::LongText {
            path: store.to_owned(),
            what: what(),
            source,
        };
        check_host_name(self.machine).map_err(named)?;
        match self.series {
            Some(epoch) => texts::check(store, what(), epoch),
            None => Ok(()),
        }
    }

    /// Returns when the recording began, or when it arrived if the machine's clock is implausible:
    /// a run dated 2038 must not hide all later ones, and a run dated 1970 is not really the
    /// oldest. The ID contains the time of that clock (RFC 9562, 5.7), even for imported runs.
    pub fn began(&self) -> Timestamp {
        let (started, made_ms) = (self.recording.started, self.recording.id.0.as_u128() >> 80);
        if started > self.received || made_ms < EARLIEST_MS {
            self.received
        } else {
            started
        }
    }
}

/// Start of 2020, in ms. An older ID comes from a machine whose clock has no battery.
const EARLIEST_MS: u128 = 1_577_836_800_000;

/// Result of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It has been stored.
    New,
    /// This content was already stored.
    Known,
    /// Different content is stored under this ID.
    Conflict {
        /// Whether the delivery was quarantined. It is not if the quota of its machine is full.
        aside: bool,
    },
}

/// A delivery that cannot be stored as a recording.
#[derive(Clone, Debug)]
pub struct Refused<'a> {
    /// ID that the recording would have had.
    pub id: RecordingId,
    /// Machine that delivered.
    pub machine: &'a str,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: &'a str,
    /// Time of arrival.
    pub received: Timestamp,
    /// Reason for the refusal.
    pub reason: &'a str,
    /// Its content.
    pub body: &'a [u8],
}

/// A quarantined delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// ID that the recording would have had.
    pub id: RecordingId,
    /// Machine that delivered.
    pub machine: String,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// Time of arrival.
    pub received: Timestamp,
    /// Reason for the refusal.
    pub reason: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl BoundedTexts for Quarantined {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_host_name(&self.machine)?;
        check_bytes("reason", &self.reason, LONGEST_NOTE)
    }
}

/// Permissions of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read access.
    Viewer,
    /// May deliver recordings of one machine.
    Machine,
    /// Read access, and changes to user decisions.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Machine, Self::Admin];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Machine => "machine",
            Self::Admin => "admin",
        }
    }

    /// Returns the role with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A token. Only its hash is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Owner of the token. If the owner is a machine, this is also the machine name of its
    /// recordings.
    pub name: String,
    /// Permissions.
    pub role: Role,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub sha256: String,
    /// Creation time.
    pub created: Timestamp,
    /// Machine that has used the token, under the name that it reports; `None` if no machine has
    /// used it, or if the machine does not report its name.
    pub machine: Option<String>,
}

impl BoundedTexts for Token {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_host_name(&self.name)?;
        check_host_name(self.machine.as_deref().unwrap_or_default())
    }
}

/// A line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    /// Time.
    pub at: Timestamp,
    /// Name of the token, or the address.
    pub who: String,
    /// Action, such as `enrol` or `quarantine`.
    pub action: String,
    /// Object of the action.
    pub what: String,
}

impl BoundedTexts for AuditLine {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_bytes("name in the audit log", &self.who, LONGEST_NOTE)?;
        check_bytes("action in the audit log", &self.action, LONGEST_NOTE)?;
        check_bytes("object in the audit log", &self.what, LONGEST_NOTE)
    }
}
