//! Measures each slot in a separate process. The memory that a measurement maps, locks and touches
//! is freed with that process, and an error that ends the process does not end the service.

use std::io::{self, BufRead, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
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

/// Time limits of the process that measures a slot. A process that hangs must not stop the other
/// series.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Time from the start until the run is asked to end.
    run: Duration,
    /// Time from that request until the process is killed.
    end: Duration,
}

impl Patience {
    /// Time for everything that a run does outside its length: audit, loads, writes to the store.
    const AROUND: Duration = Duration::from_secs(120);

    fn of(series: &SeriesPlan) -> Self {
        Self {
            run: Duration::from(series.length()).saturating_add(Self::AROUND),
            end: Duration::from_secs(30),
        }
    }
}

/// Time limit for a killed process to end. A process that waits for a device in the kernel ends
/// later.
const DYING: Duration = Duration::from_secs(5);

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
    /// The process hung and was killed.
    #[error("the process that measured did not end: killed after {} s", .0.as_secs())]
    DidNotEnd(Duration),
    /// The process was killed, but did not end.
    #[error("the process that measured did not end, even when it was killed: it is process {0}")]
    CannotEnd(u32),
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
        #[expect(clippy::disallowed_methods, reason = "the input is limited")]
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
        let end = self.measure(Patience::of(series), epoch, slot);
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

    fn measure(
        &mut self,
        patience: Patience,
        epoch: &SeriesEpoch,
        slot: &Slot,
    ) -> Result<SlotEnd, SlotProcessError> {
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
        let stdin = child.stdin.take().map(|stdin| hand_over(stdin, task));
        let notify = &mut self.notify;
        let mut alive = || notify.alive();
        let answer = answer(&mut child, stdin, self.stop, patience, &mut alive);
        // A process with an answer ends on its own.
        let grace = answer.as_ref().map_or(Duration::ZERO, |_| patience.end);
        let status = end(&mut child, grace, &mut alive);
        let answer = Answer::from_json(&answer?);
        let answer = match (answer, status) {
            (Ok(answer), _) => answer,
            (Err(_), status) => return Err(SlotProcessError::NoAnswer(ended(status?))),
        };
        Ok(SlotEnd {
            state: answer.state,
            reason: answer.reason,
            recording: answer.recording,
        })
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

/// Writes the task in a thread, because a hung process does not read it. Stdin stays open until the
/// returned sender is dropped.
fn hand_over(mut stdin: ChildStdin, task: String) -> Sender<()> {
    let (open, closed) = channel();
    #[expect(clippy::disallowed_methods, reason = "ends when `open` is dropped")]
    std::thread::spawn(move || {
        // Ignore a broken pipe. It means that the process has ended, and then its exit status is
        // more precise.
        let _ = stdin.write_all(format!("{task}\n").as_bytes());
        let _ = closed.recv();
    });
    open
}

/// Waits for the answer of the process and returns it. Closes its stdin if the service is asked to
/// stop, or if the run takes too long. `alive` is called at least once a second.
fn answer(
    child: &mut Child,
    mut stdin: Option<Sender<()>>,
    stop: &AtomicBool,
    patience: Patience,
    alive: &mut dyn FnMut(),
) -> Result<Vec<u8>, SlotProcessError> {
    const ANSWER: &str = "cannot read the result of the measuring process";
    let Some(stdout) = child.stdout.take() else {
        return Ok(Vec::new());
    };
    // The monotonic clock stops while the machine sleeps, and the run does as well.
    let began = Instant::now();
    let mut asked: Option<Instant> = None;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
    while !answer.ends_with(b"\n") && answer.len() < LONGEST_ANSWER {
        if stop.load(Ordering::Relaxed) || began.elapsed() > patience.run {
            stdin = None;
            asked.get_or_insert_with(Instant::now);
        }
        if asked.is_some_and(|asked| asked.elapsed() > patience.end) {
            return Err(SlotProcessError::DidNotEnd(began.elapsed()));
        }
        alive();
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

/// Waits until the process has ended, and kills it after `grace`.
fn end(
    child: &mut Child,
    grace: Duration,
    alive: &mut dyn FnMut(),
) -> Result<ExitStatus, SlotProcessError> {
    let began = Instant::now();
    let mut killed: Option<Instant> = None;
    loop {
        if let Some(status) = child
            .try_wait()
            .map_err(failed("the process that measures"))?
        {
            return Ok(status);
        }
        match killed {
            Some(killed) if killed.elapsed() > DYING => {
                return Err(SlotProcessError::CannotEnd(child.id()));
            }
            None if began.elapsed() >= grace => {
                punctual_rt::demote_threads_of(child.id());
                let _ = child.kill();
                killed = Some(Instant::now());
            }
            _ => {}
        }
        alive();
        std::thread::sleep(Duration::from_millis(20));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a program that never answers.
    fn hung() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::piped());
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    const SHORT: Duration = Duration::from_millis(10);

    #[test]
    fn hung_process_is_ended() {
        let never = Duration::from_secs(1_000);
        for (stopped, run) in [(false, SHORT), (true, never)] {
            let mut child = hung();
            // More than fits into the pipe.
            let task = "x".repeat(1 << 20);
            let stdin = child.stdin.take().map(|stdin| hand_over(stdin, task));
            let stop = AtomicBool::new(stopped);
            let mut turns = 0;
            let patience = Patience { run, end: SHORT };
            let error = answer(&mut child, stdin, &stop, patience, &mut || turns += 1);
            let error = error.unwrap_err();
            assert!(matches!(error, SlotProcessError::DidNotEnd(_)), "{error}");
            assert!(turns > 0);
            let status = end(&mut child, Duration::ZERO, &mut || {}).unwrap();
            assert_eq!(status.signal(), Some(9));
        }
    }

    /// A process that ends when it is asked to keeps its answer.
    #[test]
    fn late_answer_is_taken() {
        let mut child = Command::new("sh")
            .args(["-c", "cat >/dev/null; echo answer"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdin = stdin.map(|stdin| hand_over(stdin, "task".to_owned()));
        let patience = Patience {
            run: SHORT,
            end: Duration::from_secs(1_000),
        };
        let stop = AtomicBool::new(false);
        let given = answer(&mut child, stdin, &stop, patience, &mut || {}).unwrap();
        assert_eq!(given, b"answer\n");
        assert!(
            end(&mut child, Duration::from_secs(1_000), &mut || {})
                .unwrap()
                .success()
        );
    }
}
