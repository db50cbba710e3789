//! Saves what the service holds of an incident that a user saw. A signal asks the service; what it
//! can save, and what it saved, is in the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use punctual_files::{FileError, Output, folder};
use punctual_model::{Nanos, WakeWindow};
use punctual_store::{Store, StoreError};
use punctual_trace::TraceError;
use serde::{Deserialize, Serialize};

use crate::{Ageing, Clock, FlightRecorder, SystemClock};

/// Time that the service may take to answer.
const ANSWERING: Duration = Duration::from_secs(15);

/// Time span of the windows to show.
const SHOWN: Duration = Duration::from_secs(600);

/// Interval at which the service checks whether it is asked.
const LOOK: Duration = Duration::from_secs(1);

/// Interval at which old files are removed.
const AGE_EVERY: Duration = Duration::from_secs(3_600);

/// The name of [`StoredSnapshot`] in the state of a plan.
const STATE: &str = "snapshot";

/// What a service can save, and what it saved last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StoredSnapshot {
    /// Whether windows of wake-ups are in its plan.
    pub windows: bool,
    /// Whether a flight recorder is in its plan.
    pub flight: bool,
    /// Time at which it last saved the recorder's events, or failed to.
    at: Option<Timestamp>,
    /// The file with them.
    pub file: Option<PathBuf>,
    /// The time before it without a missing event.
    pub covers_ns: Nanos,
    /// Why they could not be saved.
    pub failed: Option<String>,
}

impl StoredSnapshot {
    /// Creates the state before anything is saved.
    pub fn offering(windows: bool, flight: bool) -> Self {
        Self {
            windows,
            flight,
            ..Self::default()
        }
    }

    /// Writes it to the store.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    pub fn write(&self, store: &Store, machine: &str) -> Result<(), StoreError> {
        let json = serde_json::to_string(self).unwrap_or_default();
        store.set_plan_state(machine, STATE, &json)
    }

    /// Reads it from the store. `None` for a service of an earlier version, or before the first
    /// service.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn read(store: &Store, machine: &str) -> Result<Option<Self>, StoreError> {
        let state = store.plan_state(machine, STATE)?;
        Ok(state.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

/// Why events could not be saved.
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

/// The part of the service that answers with the recorder's events.
pub struct Answering<'a> {
    /// The store of the service.
    pub store: Store,
    /// The machine.
    pub machine: &'a str,
    /// The recorder, or the reason why there is none.
    pub recorder: &'a Result<FlightRecorder, String>,
    /// Whether windows of wake-ups are in the plan.
    pub windows: bool,
    /// Set by a signal when a snapshot is requested.
    pub asked: &'a AtomicBool,
    /// Set when the service ends.
    pub stop: &'a Arc<AtomicBool>,
    /// Tells the operator what failed.
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
            Ok((file, covers)) => (kept.file, kept.covers_ns) = (Some(file), covers),
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

    /// Removes files that are older than `[keep] traces`, as for the traces in the store.
    fn age(&self) {
        let ageing = Ageing::read(&self.store, self.machine);
        if let Some(before) = ageing.ok().and_then(|ageing| ageing.traces_before()) {
            remove_older(&folder_of(&self.store), before.into());
        }
    }
}

/// Returns the message with those of its causes that it does not contain.
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
            // A failure is retried within the hour.
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

/// Waits for what the service saves after `now`: the windows of wake-ups and the events, as far as
/// it offers them. `None` if they did not come in time.
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
        // Before the first snapshot there is no folder.
        remove_older(&folder.path().join("none"), now);
    }
}
