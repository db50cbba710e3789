//! Slots are measured in a process each: what a measurement maps, locks and touches goes
//! with that process, and whatever ends it does not end the service.

use std::io::{BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use punctual_host::Host;
use punctual_model::{RecordingId, SeriesEpoch, Slot, SlotState};
use punctual_monitor::{FlightRecorder, Notify, Runner, SeriesPlan, SlotEnd};
use punctual_store::{SlotFilter, Store};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::in_process;
use super::options::PlanText;
use crate::context::Context;
use crate::exit::{Exit, with_causes};
use crate::output;
use crate::verbs::measure::stop_flag;
use crate::verbs::{Run, Verb, command_line};

pub(in crate::verbs) const VERB: Verb = Verb::new::<ServeSlot>(NAME);

const NAME: &str = "serve-slot";

/// The longest task, in bytes: a plan has 1 MiB at most, escaped twice that.
const LONGEST_TASK: u64 = 4 << 20;

/// The longest answer, in bytes.
const LONGEST_ANSWER: usize = 64 << 10;

/// How often the service looks whether it is to end, and tells its manager that it lives.
const TURN: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// What the service asks of the process: one line of JSON on its stdin, which stays open
/// until the run is to end.
#[derive(Serialize, Deserialize)]
struct Task {
    /// The process of the service.
    service: i32,
    /// Its command line, for the recording.
    command_line: Vec<String>,
    /// The plan as the service read it: the file may be another one by now.
    plan: PlanText,
    epoch: SeriesEpoch,
    slot: Slot,
}

/// How the slot ended: one line of JSON on its stdout.
#[derive(Serialize, Deserialize)]
struct Answer {
    state: SlotState,
    reason: Option<String>,
    recording: Option<RecordingId>,
}

/// Measure one slot; started by monitor run
#[derive(Parser)]
#[command(hide = true)]
struct ServeSlot {}

impl Run for ServeSlot {
    fn run(self, context: &Context) -> Result<Exit> {
        let mut line = String::new();
        let mut input = std::io::stdin().lock().take(LONGEST_TASK);
        input.read_line(&mut line).context("the task")?;
        let task: Task = serde_json::from_str(&line).context("the task")?;
        // As if it were measured in the service: that one killed, this one is.
        set_parent_process_death_signal(Some(Signal::KILL)).context("the service")?;
        ensure!(
            getppid() == Pid::from_raw(task.service),
            "the service has ended"
        );
        let stop = stop_flag()?;
        stop_with_stdin(&stop);
        let plan = task.plan.plan()?;
        let name = &task.epoch.name;
        let series = plan.series.iter().find(|series| series.name == *name);
        let series = series.with_context(|| format!("the plan has no series '{name}'"))?;
        let store = Store::open(&context.store_path()?)?;
        let host = Host::live();
        let mut log = |text: &str| output::note(text);
        let settings = || super::settings::before_run(&host, context);
        let machine = (&host, &settings as &dyn Fn() -> Option<String>);
        let mut runner = in_process::runner(&store, machine, &stop, context, &mut log);
        runner.notify = Notify::default();
        runner.command_line = task.command_line;
        let end = runner.run(series, &task.epoch, &task.slot);
        let answer = serde_json::to_string(&Answer {
            state: end.state,
            reason: end.reason,
            recording: end.recording,
        })?;
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{answer}")?;
        Ok(Exit::Done)
    }
}

/// Sets `stop` when the service closes the pipe.
fn stop_with_stdin(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stop.store(true, Ordering::Relaxed);
    });
}

/// Has each slot measured by a process of its own.
pub(super) struct ProcessRunner<'a> {
    pub(super) context: &'a Context,
    /// Where the slot and its recording are.
    pub(super) store: &'a Store,
    pub(super) plan: PlanText,
    pub(super) stop: &'a AtomicBool,
    pub(super) notify: Notify,
    /// Paused while a slot is measured.
    pub(super) flight: Option<&'a FlightRecorder>,
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
        output::note(text);
    }

    fn turn(&mut self) {
        self.notify.alive();
    }

    fn rest(&mut self) {
        punctual_rt::release_heap();
    }
}

impl ProcessRunner<'_> {
    /// Pauses the flight recorder, or has it go on; what its slot says where that fails.
    fn record_events(&self, on: bool) -> Option<String> {
        let flight = self.flight?;
        let result = if on { flight.resume() } else { flight.pause() };
        let error = result.err()?;
        output::note(&format!("flight recorder: {error}"));
        Some(format!("measured while the flight recorder ran: {error}"))
    }

    fn measure(&mut self, epoch: &SeriesEpoch, slot: &Slot) -> Result<SlotEnd> {
        let task = serde_json::to_string(&Task {
            service: std::process::id().cast_signed(),
            command_line: command_line(),
            plan: self.plan.clone(),
            epoch: epoch.clone(),
            slot: slot.clone(),
        })?;
        let mut child = Command::new(program()?)
            .arg0("punctual")
            .arg("--store")
            .arg(std::path::absolute(self.store.path())?)
            .arg(NAME)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C ends the service, which ends the run.
            .process_group(0)
            .spawn()
            .context("the process that measures cannot be started")?;
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            // Where it has ended, its status says more than the broken pipe.
            let _ = stdin.write_all(format!("{task}\n").as_bytes());
        }
        let answer = self.answer(&mut child, stdin);
        if answer.is_err() {
            let _ = child.kill();
        }
        let status = child.wait()?;
        match serde_json::from_slice::<Answer>(&answer?) {
            Ok(answer) => Ok(SlotEnd {
                state: answer.state,
                reason: answer.reason,
                recording: answer.recording,
            }),
            Err(_) => bail!("the process that measured {}", ended(status)),
        }
    }

    /// What the process answers; closes its stdin when the service is to end.
    fn answer(&mut self, child: &mut Child, mut stdin: Option<ChildStdin>) -> Result<Vec<u8>> {
        let stdout = child.stdout.take().context("the process has no stdout")?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
        while !answer.ends_with(b"\n") && answer.len() < LONGEST_ANSWER {
            if self.stop.load(Ordering::Relaxed) {
                stdin = None;
            }
            self.notify.alive();
            match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&TURN)) {
                // A load that outlives it for a moment may hold its stdout.
                Ok(0) if child.try_wait()?.is_some() => break,
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => bail!("poll: {error}"),
            }
            match rustix::io::read(&stdout, &mut buffer) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(error) => bail!("the answer of the process that measures: {error}"),
            }
        }
        drop(stdin);
        Ok(answer)
    }

    /// The end of a slot whose process ended without an answer: its recording is
    /// interrupted, its settings are restored.
    fn lost(&self, slot: &Slot, reason: String) -> SlotEnd {
        self.context.recover_settings();
        self.context.recover_tracer();
        if let Err(error) = self.context.store_to_change() {
            output::note(&with_causes(&error));
        }
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
            // It is named before it begins.
            recording: named.filter(|id| self.store.find(&id.to_string()).is_ok()),
        }
    }
}

/// This program; where its file was replaced by an update, the new one.
fn program() -> Result<PathBuf> {
    let path = std::env::current_exe().context("the path of this program")?;
    // proc(5): the link of a file that is gone ends so.
    let name = path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"));
    Ok(name.map_or_else(|| path.clone(), PathBuf::from))
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(code)) => format!("ended without an answer, exit code {code}"),
        (None, None) => "ended without an answer".to_owned(),
    }
}
