//! Measures a slot: runs a session whose recording is linked to the slot from the start.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use punctual_host::Host;
use punctual_loads::LoadRequest;
use punctual_model::{Completion, Recording, RecordingId, SeriesEpoch, Slot, SlotState};
use punctual_session::{
    ApplicationRequest, CpuLocks, RecordingSink, Request, Session, SessionError, Snapshot, Watcher,
};
use punctual_store::{Lease, Store, StoreError, Writer};

use crate::notify::Notify;
use crate::plan::{Measured, SeriesPlan, SlotRequest};
use crate::service::{Runner, STOPPED, SlotEnd};

/// Measures slots on this machine.
pub struct SessionRunner<'a> {
    /// The store for recordings.
    pub store: &'a Store,
    /// The machine.
    pub host: &'a Host,
    /// The journal of settings; `None` if settings cannot be changed.
    pub journal: Option<PathBuf>,
    /// Command that starts a partner process; see [`punctual_session::Request::partner`].
    pub partner: Option<Vec<OsString>>,
    /// Makes a load run in a separate process.
    pub isolate: &'a dyn Fn(LoadRequest) -> LoadRequest,
    /// The command that reads the programs of other users; see
    /// [`punctual_session::ObserveRequest::reader`].
    pub reader: Option<Vec<OsString>>,
    /// Folders for the locks of CPUs, so that two measurements never share a CPU.
    pub locks: Vec<PathBuf>,
    /// Command line of the program.
    pub command_line: Vec<String>,
    /// Called before each run to verify the settings that are enabled for each boot. Returns a note
    /// for the slot.
    pub settings: &'a dyn Fn() -> Option<String>,
    /// Set to `true` to end a run.
    pub stop: &'a AtomicBool,
    /// Connection to the service manager.
    pub notify: Notify,
    /// Writes a line to the log.
    pub log: &'a mut dyn FnMut(&str),
}

/// A measurement that was checked and can begin.
enum Prepared {
    Probe(Box<Session>),
    Application(Box<ApplicationRequest>),
}

impl SessionRunner<'_> {
    fn prepare(&self, series: &SeriesPlan) -> Result<Prepared, SessionError> {
        match series.request()? {
            SlotRequest::Probe(request) => Ok(Prepared::Probe(Box::new(self.session(*request)?))),
            SlotRequest::Application(request) => {
                // Refuse a subject that does not exist before anything is stored.
                request.subject.check(self.host)?;
                Ok(Prepared::Application(Box::new(ApplicationRequest {
                    reader: self.reader.clone(),
                    command_line: self.command_line.clone(),
                    ..*request
                })))
            }
        }
    }

    fn session(&self, mut request: Request) -> Result<Session, SessionError> {
        for phase in &mut request.phases {
            phase.loads = phase.loads.drain(..).map(self.isolate).collect();
        }
        request.machine.journal.clone_from(&self.journal);
        request.partner.clone_from(&self.partner);
        request
            .recording
            .command_line
            .clone_from(&self.command_line);
        Session::prepare(request, self.host.clone())
    }
}

impl Runner for SessionRunner<'_> {
    fn run(&mut self, series: &SeriesPlan, epoch: &SeriesEpoch, slot: &Slot) -> SlotEnd {
        let prepared = match self.prepare(series) {
            Ok(prepared) => prepared,
            Err(error) => return ended(SlotState::Refused, error.to_string(), None),
        };
        // Some settings are enabled for each boot. If they were not in force, the run would look as
        // if the machine had changed.
        let settings = (self.settings)();
        // An application is only watched, and shares its CPUs with everything else.
        let cpus = match &prepared {
            Prepared::Probe(session) => session.hold_cpus(&self.locks).map(Some),
            Prepared::Application(_) => Ok(None),
        };
        let cpus = match cpus {
            Ok(held) => held,
            Err(error) => return ended(SlotState::Refused, error.to_string(), None),
        };
        let refusal = cpus.iter().filter_map(CpuLocks::refusal);
        refusal.for_each(&mut *self.log);
        self.notify
            .status(&format!("measuring series {}", series.name));
        let sink = SlotSink {
            store: self.store,
            epoch,
            slot: RefCell::new(slot.clone()),
        };
        let mut view = Alive(&mut self.notify);
        let outcome = match prepared {
            Prepared::Probe(session) => session.run(Some(&sink), &mut view, self.stop),
            Prepared::Application(asked) => {
                asked.observe(&series.name, self.host, Some(&sink), &mut view, self.stop)
            }
        };
        let recording = sink.slot.into_inner().recording;
        self.notify.status("waiting for the next slot");
        match outcome {
            Err(error) => {
                let state = match recording {
                    Some(_) => SlotState::Failed,
                    None => SlotState::Refused,
                };
                ended(state, error.to_string(), recording)
            }
            Ok(outcome) => match (outcome.store_error, outcome.recording.completion) {
                (Some(error), _) => ended(
                    SlotState::Failed,
                    format!("the recording could not be stored completely: {error}"),
                    recording,
                ),
                (None, Completion::Stopped) => {
                    ended(SlotState::Interrupted, STOPPED.to_owned(), recording)
                }
                (None, Completion::Interrupted) => ended(
                    SlotState::Failed,
                    "the run ended early (see the warnings of the recording)".to_owned(),
                    recording,
                ),
                (None, _) => SlotEnd {
                    state: SlotState::Recorded,
                    reason: joined(settings, remark(series, &outcome.recording)),
                    recording,
                },
            },
        }
    }

    fn say(&mut self, text: &str) {
        (self.log)(text);
    }

    fn turn(&mut self) {
        self.notify.alive();
    }
}

/// Returns the reason to store in the slot if the recording was completed, but a load failed, or the
/// application ended.
fn remark(series: &SeriesPlan, recording: &Recording) -> Option<String> {
    if let Some(failed) = recording.load.iter().find(|load| load.failed) {
        return Some(format!("load {} failed", failed.name));
    }
    let (length, planned) = (recording.duration_ns, series.length());
    let ended = matches!(series.measured, Measured::Application(..)) && length < planned;
    ended.then(|| format!("the application ended after {length} of {planned}"))
}

/// Joins two optional reasons.
fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}

fn ended(state: SlotState, reason: String, recording: Option<RecordingId>) -> SlotEnd {
    SlotEnd {
        state,
        reason: Some(reason),
        recording,
    }
}

/// Stores the ID of the recording in the slot before the recording starts. So even if the process
/// is killed, the slot names its recording.
struct SlotSink<'a> {
    store: &'a Store,
    epoch: &'a SeriesEpoch,
    slot: RefCell<Slot>,
}

impl RecordingSink for SlotSink<'_> {
    fn begin(&self, recording: &Recording, lease: &Lease) -> Result<Writer, StoreError> {
        let mut slot = self.slot.borrow_mut();
        let noted = Slot {
            recording: Some(recording.id),
            ..slot.clone()
        };
        self.store.set_slot(self.epoch, &noted)?;
        let writer = self.store.begin(recording, lease)?;
        *slot = noted;
        self.store.join_series(recording.id, self.epoch)?;
        Ok(writer)
    }

    fn delete(&self, id: RecordingId) -> Result<(), StoreError> {
        self.slot.borrow_mut().recording = None;
        self.store.delete(id)
    }

    fn comes_first(&self) -> bool {
        true
    }
}

/// Sends watchdog messages during a run.
struct Alive<'a>(&'a mut Notify);

impl Watcher for Alive<'_> {
    fn begin(&mut self, _: &Recording) {
        self.0.alive();
    }

    fn progress(&mut self, _: &Snapshot) {
        self.0.alive();
    }

    fn end(&mut self) {
        self.0.alive();
    }
}
