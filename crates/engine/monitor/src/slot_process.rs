//! Measures each slot in a separate process. The memory that a measurement maps, locks and touches
//! is freed with that process, and an error that ends the process does not end the service.

use std::io::{self, BufRead, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{
    Completion, FromJson, RecordingId, SeriesEpoch, Slot, SlotState, ToJson, from_json, to_json,
};
use punctual_store::{Filter, SlotFilter, Store, StoreError, Summary};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::snapshot::with_causes;
use crate::{FlightRecorder, Notify, PlanText, Runner, SeriesPlan, SlotEnd};

/// Maximum size of a task, in bytes: a plan has at most 1 MiB, or twice that with escapes.
const LONGEST_TASK: u64 = 4 << 20;

/// Maximum size of an answer, in bytes.
const LONGEST_ANSWER: usize = 64 << 10;

/// Interval at which the service checks for a stop request and sends watchdog messages.
const TURN: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Reason why a slot was not measured by its process.
#[derive(Debug, thiserror::Error)]
pub enum SlotProcessError {
    /// A system call failed.
    #[error("{what}")]
    Failed {
        /// The failed step.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The task is not valid.
    #[error("the task")]
    Task(#[source] serde_json::Error),
    /// The service has ended.
    #[error("the service has ended")]
    ServiceEnded,
    /// The process ended without an answer.
    #[error("the process that measured {0}")]
    NoAnswer(String),
}

fn failed<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> SlotProcessError {
    move |error| SlotProcessError::Failed {
        what,
        source: error.into(),
    }
}

/// Signal to the process when the service ends. Its default action ends the process. It is not
/// SIGKILL, so that the process can demote its threads first
/// ([`punctual_rt::demote_at_signals`]).
pub const SERVICE_ENDED: i32 = Signal::ALARM.as_raw();

/// The task of the process: one line of JSON on its stdin. The service keeps stdin open, and closes
/// it to end the run.
#[derive(Serialize, Deserialize)]
pub struct SlotTask {
    /// Process ID of the service.
    service: i32,
    /// The command line of the service, for the recording.
    pub command_line: Vec<String>,
    /// The plan as the service read it, because the file may have changed since then.
    pub plan: PlanText,
    /// The epoch of the series.
    pub epoch: SeriesEpoch,
    /// The slot.
    pub slot: Slot,
}

to_json!(SlotTask, Answer);
from_json!(SlotTask, Answer);

impl SlotTask {
    /// Reads the task. After that, the kernel sends [`SERVICE_ENDED`] to this process if the service
    /// ends, so that a killed service leaves no measurement behind.
    ///
    /// # Errors
    /// Fails if the task is not valid, or if the service has ended.
    pub fn read(input: impl BufRead) -> Result<Self, SlotProcessError> {
        let mut line = String::new();
        let mut input = input.take(LONGEST_TASK);
        input.read_line(&mut line).map_err(failed("the task"))?;
        let task = Self::from_json(line.as_bytes()).map_err(SlotProcessError::Task)?;
        set_parent_process_death_signal(Some(Signal::ALARM)).map_err(failed("the service"))?;
        if getppid() == Pid::from_raw(task.service) {
            Ok(task)
        } else {
            Err(SlotProcessError::ServiceEnded)
        }
    }
}

/// The result of the slot: one line of JSON on the stdout of the process.
#[derive(Serialize, Deserialize)]
struct Answer {
    state: SlotState,
    reason: Option<String>,
    recording: Option<RecordingId>,
}

impl SlotEnd {
    /// Returns the answer of the process to the service.
    pub fn answer(self) -> String {
        let answer = Answer {
            state: self.state,
            reason: self.reason,
            recording: self.recording,
        };
        answer.to_json()
    }
}

/// Measures each slot in a separate process.
pub struct ProcessRunner<'a> {
    /// The store with the slot and its recording.
    pub store: &'a Store,
    /// The hidden verb of this program that measures a slot.
    pub verb: &'static str,
    /// The command line of the service, for the recordings.
    pub command_line: Vec<String>,
    /// The plan.
    pub plan: PlanText,
    /// Set when the service ends.
    pub stop: &'a AtomicBool,
    /// Connection to the service manager.
    pub notify: Notify,
    /// The flight recorder, which is paused while a slot is measured.
    pub flight: Option<&'a FlightRecorder>,
    /// Cleans up after a process that was killed: settings, tracers, its recording.
    pub recover: &'a dyn Fn(),
    /// Writes a line to the log.
    pub say: fn(&str),
}

impl Runner for ProcessRunner<'_> {
    fn run(&mut self, series: &SeriesPlan, epoch: &SeriesEpoch, slot: &Slot) -> SlotEnd {
        self.notify
            .status(&format!("measuring series {}", series.name));
        let disturbed = self.record_events(false);
        let end = self.measure(epoch, slot);
        self.record_events(true);
        self.notify.status("waiting for the next slot");
        let mut end = end.unwrap_or_else(|error| self.lost(slot, with_causes(&error)));
        let reasons: Vec<String> = end.reason.into_iter().chain(disturbed).collect();
        end.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        end
    }

    fn say(&mut self, text: &str) {
        (self.say)(text);
    }

    fn turn(&mut self) {
        self.notify.alive();
    }

    fn rest(&mut self) {
        punctual_rt::release_heap();
    }
}

impl ProcessRunner<'_> {
    /// Pauses or resumes the flight recorder. If that fails, returns a remark for the slot.
    fn record_events(&self, on: bool) -> Option<String> {
        let flight = self.flight?;
        let result = if on { flight.resume() } else { flight.pause() };
        let error = result.err()?;
        (self.say)(&format!("flight recorder: {error}"));
        Some(format!(
            "the flight recorder ran during the measurement: {error}"
        ))
    }

    fn measure(&mut self, epoch: &SeriesEpoch, slot: &Slot) -> Result<SlotEnd, SlotProcessError> {
        let task = SlotTask {
            service: std::process::id().cast_signed(),
            command_line: self.command_line.clone(),
            plan: self.plan.clone(),
            epoch: epoch.clone(),
            slot: slot.clone(),
        };
        let task = task.to_json();
        let store = std::path::absolute(self.store.path()).map_err(failed("the store"))?;
        let mut child = Command::new(program()?)
            .arg0("punctual")
            .arg("--store")
            .arg(store)
            .arg(self.verb)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C must end only the service, which then ends the run.
            .process_group(0)
            .spawn()
            .map_err(failed("cannot start the measuring process"))?;
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            // Ignore a broken pipe. It means that the process has ended, and then its exit status
            // is more precise.
            let _ = stdin.write_all(format!("{task}\n").as_bytes());
        }
        let answer = self.answer(&mut child, stdin);
        if answer.is_err() {
            punctual_rt::demote_threads_of(child.id());
            let _ = child.kill();
        }
        let status = child.wait().map_err(failed("the process that measures"))?;
        let answer = Answer::from_json(&answer?);
        let answer = answer.map_err(|_| SlotProcessError::NoAnswer(ended(status)))?;
        Ok(SlotEnd {
            state: answer.state,
            reason: answer.reason,
            recording: answer.recording,
        })
    }

    /// Waits for the answer of the process and returns it. Closes its stdin if the service is asked
    /// to stop.
    fn answer(
        &mut self,
        child: &mut Child,
        mut stdin: Option<ChildStdin>,
    ) -> Result<Vec<u8>, SlotProcessError> {
        const ANSWER: &str = "cannot read the result of the measuring process";
        let Some(stdout) = child.stdout.take() else {
            return Ok(Vec::new());
        };
        let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
        while !answer.ends_with(b"\n") && answer.len() < LONGEST_ANSWER {
            if self.stop.load(Ordering::Relaxed) {
                stdin = None;
            }
            self.notify.alive();
            match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&TURN)) {
                // A load may keep running for a moment after the process has ended, and keep stdout
                // open.
                Ok(0) if child.try_wait().map_err(failed(ANSWER))?.is_some() => break,
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(failed(ANSWER)(error)),
            }
            match rustix::io::read(&stdout, &mut buffer) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(ANSWER)(error)),
            }
        }
        drop(stdin);
        Ok(answer)
    }

    /// Returns the result of a slot whose process ended without an answer.
    fn lost(&self, slot: &Slot, reason: String) -> SlotEnd {
        (self.recover)();
        let filter = SlotFilter {
            series: Some(slot.series.clone()),
            since: Some(slot.due),
            ..SlotFilter::default()
        };
        let kept = self.store.slots(&filter).unwrap_or_default();
        let same = |one: &&Slot| one.machine == slot.machine && one.due == slot.due;
        let named = kept.iter().find(same).and_then(|slot| slot.recording);
        SlotEnd {
            state: SlotState::Failed,
            reason: Some(reason),
            // The slot already names the recording before the recording begins, so the recording
            // may not exist.
            recording: named.filter(|id| self.store.find(&id.to_string()).is_ok()),
        }
    }
}

/// Returns the path of this program. If an update replaced the file, this is the path of the new
/// file.
fn program() -> Result<PathBuf, SlotProcessError> {
    let path = std::env::current_exe().map_err(failed("the path of this program"))?;
    // The kernel appends this text to the link if the file was deleted (proc(5)).
    let name = path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"));
    Ok(name.map_or_else(|| path.clone(), PathBuf::from))
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(code)) => format!("ended without a result (exit code {code})"),
        (None, None) => "ended without a result".to_owned(),
    }
}

/// Time limit for the processes of a killed service to end.
const ENDING: Duration = Duration::from_secs(5);

/// Waits until the processes of a killed service have ended. The kernel kills them together with
/// the service, but not immediately. Until they have ended, their recordings look like recordings
/// of another service.
///
/// # Errors
/// Fails if the store cannot be read or written.
pub fn wait_for_killed(store: &Store, machine: &str) -> Result<(), StoreError> {
    let running = SlotFilter {
        state: Some(SlotState::Running),
        ..SlotFilter::default()
    };
    let slots = store.slots(&running)?;
    let named: Vec<RecordingId> = slots
        .iter()
        .filter(|slot| slot.machine == machine)
        .filter_map(|slot| slot.recording)
        .collect();
    let host = Host::live();
    let began = Instant::now();
    loop {
        store.sweep(&|lease| host.may_live(lease))?;
        let live = store.list_by(&Filter {
            completion: Some(Completion::Running),
            ..Filter::default()
        })?;
        let is_one = |summary: &Summary| named.contains(&summary.id);
        if !live.iter().any(is_one) || began.elapsed() > ENDING {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
