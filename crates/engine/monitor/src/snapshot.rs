//! Snapshots: when a user has seen an incident, the service saves the wake-ups and trace events
//! that it holds. A signal requests the snapshot. The store describes the data that the service can
//! save, and its last snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use punctual_files::{FileError, Output, folder};
use punctual_model::{FromJson, Nanos, ToJson, WakeWindow, from_json, to_json};
use punctual_store::{Store, StoreError};
use punctual_trace::TraceError;
use serde::{Deserialize, Serialize};

use crate::{Ageing, Clock, FlightRecorder, SystemClock};

/// Time limit for the service to answer.
const ANSWERING: Duration = Duration::from_secs(15);

/// Windows within this time before the incident are shown.
const SHOWN: Duration = Duration::from_secs(600);

/// Interval at which the service checks for a request.
const LOOK: Duration = Duration::from_secs(1);

/// Interval at which old files are removed.
const AGE_EVERY: Duration = Duration::from_secs(3_600);

/// Name of [`StoredSnapshot`] in the state of a plan.
const STATE: &str = "snapshot";

/// Describes the data that a service can save, and its last snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StoredSnapshot {
    /// Whether the plan of the service contains windows of wake-ups.
    pub windows: bool,
    /// Whether the plan of the service contains a flight recorder.
    pub flight: bool,
    /// Time at which the service last saved the events of the recorder, or failed to save them.
    at: Option<Timestamp>,
    /// The file with these events.
    pub file: Option<String>,
    /// Time span before the snapshot in which no event is missing, in ns.
    pub covers_ns: Nanos,
    /// Reason why the events could not be saved.
    pub failed: Option<String>,
}

to_json!(StoredSnapshot);
from_json!(StoredSnapshot);

impl StoredSnapshot {
    /// Creates the state of a service that has saved nothing yet.
    pub fn offering(windows: bool, flight: bool) -> Self {
        Self {
            windows,
            flight,
            ..Self::default()
        }
    }

    /// Writes the state to the store.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    pub fn write(&self, store: &Store, machine: &str) -> Result<(), StoreError> {
        store.set_plan_state(machine, STATE, &self.to_json())
    }

    /// Reads the state from the store. `None` if no service has run on the machine yet, or only a
    /// service of an earlier version.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn read(store: &Store, machine: &str) -> Result<Option<Self>, StoreError> {
        let state = store.plan_state(machine, STATE)?;
        Ok(state.and_then(|text| Self::from_json(text.as_bytes()).ok()))
    }
}

/// Reason why events could not be saved.
#[derive(Debug, thiserror::Error)]
enum SaveError {
    #[error("{0}")]
    NotArmed(String),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", folder.display())]
    Folder {
        folder: PathBuf,
        source: std::io::Error,
    },
}

/// The part of the service that answers requests for a snapshot.
pub struct Answering<'a> {
    /// The store of the service.
    pub store: Store,
    /// The machine.
    pub machine: &'a str,
    /// The flight recorder, or the reason why there is none.
    pub recorder: &'a Result<FlightRecorder, String>,
    /// Whether the plan contains windows of wake-ups.
    pub windows: bool,
    /// Set by a signal when a snapshot is requested.
    pub asked: &'a AtomicBool,
    /// Set when the service ends.
    pub stop: &'a Arc<AtomicBool>,
    /// Reports a failure to the operator.
    pub say: fn(&str),
}

impl Answering<'_> {
    /// Answers requests until the service ends.
    pub fn answer(&self) {
        let mut aged: Option<Instant> = None;
        while !self.stop.load(Ordering::Relaxed) {
            if aged.is_none_or(|aged| aged.elapsed() > AGE_EVERY) {
                aged = Some(Instant::now());
                self.age();
            }
            if self.asked.swap(false, Ordering::Relaxed)
                && let Err(error) = self.kept().write(&self.store, self.machine)
            {
                (self.say)(&format!("snapshot: {}", with_causes(&error)));
            }
            SystemClock.wait(LOOK, self.stop);
        }
    }

    fn kept(&self) -> StoredSnapshot {
        let mut kept = StoredSnapshot::offering(self.windows, true);
        match self.write_file() {
            Ok((file, covers)) => {
                (kept.file, kept.covers_ns) = (Some(file.display().to_string()), covers)
            }
            Err(error) => kept.failed = Some(with_causes(&error)),
        }
        kept.at = Some(Timestamp::now());
        kept
    }

    fn write_file(&self) -> Result<(PathBuf, Nanos), SaveError> {
        let recorder = self.recorder.as_ref();
        let recorder = recorder.map_err(|why| SaveError::NotArmed(why.clone()))?;
        let trace = recorder.take()?;
        let folder = folder_of(&self.store);
        folder::make(&folder, 0o700)?;
        let name = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ.dat");
        let path = std::path::absolute(folder.join(name.to_string()));
        let path = path.map_err(|source| SaveError::Folder { folder, source })?;
        Output::private(&path)?.put(&trace.file)?;
        Ok((path, trace.covers))
    }

    /// Removes files that are older than `[keep] traces`. The store removes its own traces by the
    /// same rule.
    fn age(&self) {
        let ageing = Ageing::read(&self.store, self.machine);
        if let Some(before) = ageing.ok().and_then(|ageing| ageing.traces_before()) {
            remove_older(&folder_of(&self.store), before.into());
        }
    }
}

/// Returns the message of the error, followed by those of its causes that the text does not contain
/// yet.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Removes the trace files of a folder that were written before this time.
fn remove_older(folder: &Path, before: SystemTime) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let written = entry.metadata().and_then(|data| data.modified()).ok();
        let is_ours = path.extension().is_some_and(|ending| ending == "dat");
        if is_ours && written.is_some_and(|written| written < before) {
            // If the removal fails, the next check, within the hour, repeats it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the folder with the trace events of snapshots, next to the store.
fn folder_of(store: &Store) -> PathBuf {
    let mut name = store.path().as_os_str().to_owned();
    name.push(".snapshots");
    PathBuf::from(name)
}

/// Waits until the service has saved the windows of wake-ups and the events after `now`, if it
/// offers them. Either is `None` if the service does not offer it or did not save it in time.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn await_kept(
    store: &Store,
    machine: &str,
    offered: &StoredSnapshot,
    now: Timestamp,
) -> Result<(Option<Vec<WakeWindow>>, Option<StoredSnapshot>), StoreError> {
    let began = Instant::now();
    loop {
        let end = |window: &WakeWindow| window.start + Duration::from(window.length_ns);
        let windows = windows_since(store, now - SHOWN)?;
        let windows = Some(windows)
            .filter(|all| offered.windows && all.last().is_some_and(|window| end(window) >= now));
        let kept = StoredSnapshot::read(store, machine)?.filter(|kept| kept.at >= Some(now));
        let all = windows.is_some() == offered.windows && kept.is_some() == offered.flight;
        if all || began.elapsed() > ANSWERING {
            return Ok((windows, kept));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn windows_since(store: &Store, since: Timestamp) -> Result<Vec<WakeWindow>, StoreError> {
    let mut windows = Vec::new();
    store.wake_windows(Some(since), &mut |window| -> Result<(), StoreError> {
        windows.push(window);
        Ok(())
    })?;
    Ok(windows)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;

    #[test]
    fn old_traces_age_out_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        for (name, age) in [
            ("old.dat", 91 * day),
            ("new.dat", 89 * day),
            ("old.txt", 91 * day),
        ] {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(now - age).unwrap();
        }
        remove_older(folder.path(), now - 90 * day);
        let left = fs::read_dir(folder.path()).unwrap().flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["new.dat", "old.txt"]);
        // The folder does not exist before the first snapshot.
        remove_older(&folder.path().join("none"), now);
    }
}
