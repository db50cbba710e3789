//! `monitor snapshot`: what the service still holds of an incident that a user saw. The
//! service is asked by a signal; what it can keep, and has kept, stands in the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail, ensure};
use jiff::Timestamp;
use punctual_files::{Output, folder};
use punctual_model::{Nanos, Note, RecordingId, WakeWindow};
use punctual_monitor::{Ageing, Clock, FlightRecorder, SystemClock};
use punctual_report::{document, text};
use punctual_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

use super::lease::{Serving, ask, serving};
use crate::context::Context;
use crate::exit::{Exit, with_causes};
use crate::output;

/// How long the service may take to answer.
const ANSWERING: Duration = Duration::from_secs(15);

/// How far back windows are shown.
const SHOWN: Duration = Duration::from_secs(600);

/// How soon the service sees that it is asked.
const LOOK: Duration = Duration::from_secs(1);

/// How often old files are looked for.
const AGE_EVERY: Duration = Duration::from_secs(3_600);

/// The name of [`StoredSnapshot`] in the state of a plan.
const STATE: &str = "snapshot";

/// What a service can keep, and what it kept last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredSnapshot {
    /// Whether windows of wake-ups are in its plan.
    windows: bool,
    /// Whether a flight recorder is in its plan.
    flight: bool,
    /// When it kept the recorder's events last, or failed to.
    at: Option<Timestamp>,
    /// Where they are.
    file: Option<PathBuf>,
    /// The time of which no event is missing.
    covers_ns: Nanos,
    /// Why they could not be kept.
    failed: Option<String>,
}

impl StoredSnapshot {
    /// Nothing is kept yet.
    pub(super) fn offering(windows: bool, flight: bool) -> Self {
        Self {
            windows,
            flight,
            ..Self::default()
        }
    }

    pub(super) fn write(&self, store: &Store, machine: &str) -> Result<()> {
        Ok(store.set_plan_state(machine, STATE, &serde_json::to_string(self)?)?)
    }

    /// `None`: a service of an earlier version, or none yet.
    fn read(store: &Store, machine: &str) -> Result<Option<Self>> {
        let state = store.plan_state(machine, STATE)?;
        Ok(state.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

/// The part of the service: it answers with the recorder's events.
pub(super) struct Answering<'a> {
    pub(super) store: Store,
    pub(super) machine: &'a str,
    /// Where there is none: why.
    pub(super) recorder: &'a Result<FlightRecorder>,
    pub(super) windows: bool,
    /// Set when the service is asked.
    pub(super) asked: &'a AtomicBool,
    pub(super) stop: &'a Arc<AtomicBool>,
}

impl Answering<'_> {
    /// Answers until the service ends.
    pub(super) fn answer(&self) {
        let mut aged: Option<Instant> = None;
        while !self.stop.load(Ordering::Relaxed) {
            if aged.is_none_or(|aged| aged.elapsed() > AGE_EVERY) {
                aged = Some(Instant::now());
                self.age();
            }
            if self.asked.swap(false, Ordering::Relaxed) {
                let written = self.kept().write(&self.store, self.machine);
                if let Err(error) = written {
                    output::note(&format!("snapshot: {}", with_causes(&error)));
                }
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

    fn write_file(&self) -> Result<(PathBuf, Nanos)> {
        let recorder = match self.recorder {
            Ok(recorder) => recorder,
            Err(why) => bail!("{why}"),
        };
        let trace = recorder.take()?;
        let folder_path = folder_of(&self.store);
        folder::make(&folder_path, 0o700)?;
        let name = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ.dat");
        let path = std::path::absolute(folder_path.join(name.to_string()))?;
        Output::private(&path)?.put(&trace.file)?;
        Ok((path, trace.covers))
    }

    /// Removes files that are older than `[keep] traces`, with the traces of the store.
    fn age(&self) {
        let ageing = Ageing::read(&self.store, self.machine);
        if let Some(before) = ageing.ok().and_then(|ageing| ageing.traces_before()) {
            remove_older(&folder_of(&self.store), before.into());
        }
    }
}

/// Removes the trace files of a folder that were written before this time.
fn remove_older(folder: &Path, before: SystemTime) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let written = entry.metadata().and_then(|data| data.modified()).ok();
        let is_ours = path.extension().is_some_and(|ending| ending == "dat");
        if is_ours && written.is_some_and(|written| written < before) {
            // Tried again within the hour.
            let _ = fs::remove_file(path);
        }
    }
}

/// Where the trace events of snapshots are: beside the store.
fn folder_of(store: &Store) -> PathBuf {
    let mut name = store.path().as_os_str().to_owned();
    name.push(".snapshots");
    PathBuf::from(name)
}

pub(super) fn snapshot(note: Option<&str>, context: &Context) -> Result<Exit> {
    let store = context.store_to_change()?;
    let path = store.path().display();
    match serving(&store) {
        Serving::Service => {}
        Serving::Nobody => bail!("no service records into {path}: nothing is watched"),
        Serving::Unknown(why) => bail!("it is not known which service records into {path}: {why}"),
    }
    let machine = punctual_host::Host::live().machine();
    let offered =
        StoredSnapshot::read(&store, &machine)?.unwrap_or(StoredSnapshot::offering(true, false));
    ensure!(
        offered.windows || offered.flight,
        "nothing is watched: the plan of the service has neither [watch] nor [flight]"
    );
    let now = Timestamp::now();
    ask(&store)?;
    let (windows, kept) = wait(&store, &machine, &offered, now)?;
    store.put_note(&Note {
        id: RecordingId::new(),
        recording: None,
        series: None,
        machine: None,
        at: now,
        text: text_of(note, kept.as_ref()),
        author: std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()),
        written: now,
    })?;
    if let Some(windows) = &windows {
        let shown = document::wake_windows(windows, &SystemClock.zone());
        output::print(&text::render(&shown, &context.style()))?;
    }
    if let Some(kept) = &kept {
        say_kept(kept)?;
    }
    let missing = [
        (offered.windows && windows.is_none()).then_some(
            "the service kept no window of wake-ups: it is refused (punctual monitor slots \
             --series watch)",
        ),
        (offered.flight && kept.is_none()).then_some("the service kept no trace events in time"),
    ];
    let mut complete = kept.is_none_or(|kept| kept.failed.is_none());
    for text in missing.into_iter().flatten() {
        output::note(text);
        complete = false;
    }
    Ok(if complete { Exit::Done } else { Exit::Failed })
}

/// The windows and the events that are kept since `now`; `None`: they did not come, or the
/// service has none.
fn wait(
    store: &Store,
    machine: &str,
    offered: &StoredSnapshot,
    now: Timestamp,
) -> Result<(Option<Vec<WakeWindow>>, Option<StoredSnapshot>)> {
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

fn text_of(note: Option<&str>, kept: Option<&StoredSnapshot>) -> String {
    let note = note.map_or_else(|| "snapshot".to_owned(), |text| format!("snapshot: {text}"));
    match kept.and_then(|kept| kept.file.as_deref()) {
        Some(file) => format!("{note} ({})", file.display()),
        None => note,
    }
}

fn say_kept(kept: &StoredSnapshot) -> Result<()> {
    match (&kept.file, &kept.failed) {
        (Some(file), _) => output::print(&format!("\n{}\n", line_of(file, kept.covers_ns))),
        (None, Some(why)) => {
            output::note(&format!("the trace events are not kept: {why}"));
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

fn line_of(file: &Path, covers: Nanos) -> String {
    let file = file.display();
    format!("trace events of the last {covers}: {file}\nread them with: trace-cmd report -i {file}")
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
