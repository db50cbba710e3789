//! `record run`, `once` and `snapshot`: the service, one run, and the incident that a
//! user saw.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use punctual_files::lease::{Holder, Lease, holder, remove};
use punctual_host::Host;
use punctual_model::{Note, RecordingId, Slot, SlotCause, SlotState, WakeWindow};
use punctual_record::{
    Clock, Notify, Plan, Runner, Service, SessionRunner, SystemClock, Watching, epoch_of, next_due,
};
use punctual_report::{document, text};
use punctual_store::{Store, StoreError};

use super::options::PlanFile;
use super::settings;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verbs::measure::stop_flag;
use crate::verbs::{command_line, serve_load, serve_partner};

/// The file that the service of a store holds.
fn lease_path(store: &Store) -> PathBuf {
    let mut name = store.path().as_os_str().to_owned();
    name.push(".service");
    PathBuf::from(name)
}

/// Who serves a store; `None`: nobody.
pub(super) fn service_of(store: &Store) -> Option<String> {
    let path = lease_path(store);
    let note = || note_of(&path).unwrap_or_else(|| "its process is not known".to_owned());
    match holder(&path) {
        Holder::NoLease | Holder::Gone => None,
        Holder::Lives | Holder::Unknown { .. } => Some(note()),
    }
}

fn note_of(path: &Path) -> Option<String> {
    let note = punctual_files::bounded::text(path, 1_024).ok()?;
    Some(note.trim().to_owned()).filter(|note| !note.is_empty())
}

/// Only one service on a store: two would each measure every slot.
fn only_one(store: &Store) -> Result<Lease> {
    let path = lease_path(store);
    if let Some(who) = service_of(store) {
        let text = format!(
            "another service records into {} ({who})",
            store.path().display()
        );
        anyhow::bail!(text);
    }
    remove(&path);
    Ok(Lease::take(
        &path,
        &format!("process {}", std::process::id()),
    )?)
}

pub(super) fn run(file: &PlanFile, context: &Context) -> Result<Exit> {
    let plan = file.read()?;
    let store = context.store_to_change()?;
    let _only = only_one(&store)?;
    let host = Host::live();
    let stop = stop_flag()?;
    let machine = super::machine(&host);
    let clock = SystemClock;
    let mut log = |text: &str| output::note(text);
    let settings = || settings::before_run(&host, context);
    let mut runner = runner(&store, (&host, &settings), &stop, context, &mut log);
    let mut service = Service::begin(&plan, &store, &clock, machine.clone())?;
    // Registered in any case: its default action would end the service.
    let close = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&close))?;
    let next = next_slot(&plan);
    runner.notify.ready(&next);
    runner.say(&next);
    let own = plan.window.map(|_| Store::open(store.path())).transpose()?;
    std::thread::scope(|scope| {
        if let (Some(window), Some(store)) = (plan.window, own) {
            let (machine, stop, close) = (&machine, &stop, &close);
            let pid_max = host.pid_max().unwrap_or(USUAL_PID_MAX);
            scope.spawn(move || {
                let watching = Watching {
                    store: &store,
                    machine,
                    window,
                    pid_max,
                    clock: &SystemClock,
                    stop,
                    close,
                };
                watching.watch(&mut |text| output::note(text));
            });
        }
        if let Some(deliver) = &plan.deliver {
            let (path, stop) = (store.path(), &stop);
            scope.spawn(move || super::delivery::deliver(deliver, path, stop));
        }
        service.serve(&mut runner, &stop);
    });
    runner.notify.stopping();
    Ok(Exit::Done)
}

/// The largest number of a thread where the kernel does not say its own: its usual limit
/// (kernel: include/linux/threads.h).
const USUAL_PID_MAX: u32 = 4 << 20;

fn next_slot(plan: &Plan) -> String {
    let (now, zone) = (SystemClock.now(), SystemClock.zone());
    let next = plan.series.iter().filter_map(|series| {
        let next = next_due(series, now, &zone)?;
        Some((next, &series.name))
    });
    match next.min() {
        Some((next, name)) => {
            let time = next.to_zoned(zone.clone()).strftime("%F %H:%M:%S");
            format!("next: {name} at {time}")
        }
        None => "waiting for events".to_owned(),
    }
}

fn runner<'a>(
    store: &'a Store,
    (host, settings): (&'a Host, &'a dyn Fn() -> Option<String>),
    stop: &'a Arc<AtomicBool>,
    context: &Context,
    log: &'a mut dyn FnMut(&str),
) -> SessionRunner<'a> {
    SessionRunner {
        store,
        host,
        journal: context.journal(),
        partner: serve_partner::program(),
        place: &serve_load::in_subprocess,
        locks: context.cpu_locks(),
        command_line: command_line(),
        settings,
        stop,
        notify: Notify::of(&|name| std::env::var_os(name)),
        log,
    }
}

pub(super) fn once(name: &str, file: &PlanFile, context: &Context) -> Result<Exit> {
    let plan = file.read()?;
    let Some(series) = plan.series.iter().find(|series| series.name == name) else {
        let names: Vec<&str> = plan
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        let known = names.join(", ");
        return Err(UsageError(format!("there is no series '{name}': one of {known}")).into());
    };
    let store = context.store_to_change()?;
    let host = Host::live();
    let stop = stop_flag()?;
    let due = Timestamp::now();
    let epoch = epoch_of(&store, &super::machine(&host), series, due)?;
    let mut slot = Slot {
        machine: epoch.machine.clone(),
        series: epoch.name.clone(),
        epoch: epoch.epoch,
        due,
        cause: SlotCause::Once,
        state: SlotState::Running,
        reason: None,
        recording: None,
    };
    store.add_slot(&epoch, &slot)?;
    let mut log = |text: &str| output::note(text);
    let settings = || settings::before_run(&host, context);
    let mut runner = runner(&store, (&host, &settings), &stop, context, &mut log);
    let end = runner.run(series, &epoch, &slot);
    (slot.state, slot.reason, slot.recording) = (end.state, end.reason, end.recording);
    store.set_slot(&epoch, &slot)?;
    let recording = slot
        .recording
        .map(|id| format!(", recording {}", id.short()));
    let reason = slot.reason.as_ref().map(|reason| format!(": {reason}"));
    output::print(&format!(
        "{name}: {}{}{}\n",
        slot.state,
        recording.unwrap_or_default(),
        reason.unwrap_or_default()
    ))?;
    Ok(match slot.state {
        SlotState::Recorded => Exit::Done,
        _ if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        _ => Exit::Failed,
    })
}

/// How long the service may take to end its window.
const CLOSING: Duration = Duration::from_secs(15);

/// How far back windows are shown.
const SHOWN: Duration = Duration::from_secs(600);

pub(super) fn snapshot(note: Option<&str>, context: &Context) -> Result<Exit> {
    let store = context.store_to_change()?;
    let who = service_of(&store).ok_or_else(|| {
        anyhow::anyhow!(
            "no service records into {}: nothing is watched",
            store.path().display()
        )
    })?;
    let now = Timestamp::now();
    let pid = who
        .strip_prefix("process ")
        .and_then(|pid| pid.parse().ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| anyhow::anyhow!("the process of the service is not known"))?;
    rustix::process::kill_process(pid, rustix::process::Signal::USR1)
        .context("the service cannot be signalled")?;
    let began = Instant::now();
    let windows = loop {
        let windows = windows_since(&store, now - SHOWN)?;
        let end = |window: &WakeWindow| window.start + Duration::from(window.length_ns);
        if windows.last().is_some_and(|window| end(window) >= now) {
            break windows;
        }
        anyhow::ensure!(
            began.elapsed() < CLOSING,
            "the service kept no window: [watch] is not in its plan, or is refused (punctual record \
             slots --series watch)"
        );
        std::thread::sleep(Duration::from_millis(100));
    };
    store.put_note(&Note {
        id: RecordingId::new(),
        recording: None,
        series: None,
        at: now,
        text: note.map_or_else(|| "snapshot".to_owned(), |text| format!("snapshot: {text}")),
        author: std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()),
        written: now,
    })?;
    let shown = document::wake_windows(&windows, &SystemClock.zone());
    output::print(&text::render(&shown, &context.style()))?;
    Ok(Exit::Done)
}

fn windows_since(store: &Store, since: Timestamp) -> Result<Vec<WakeWindow>, StoreError> {
    let mut windows = Vec::new();
    store.wake_windows(Some(since), &mut |window| -> Result<(), StoreError> {
        windows.push(window);
        Ok(())
    })?;
    Ok(windows)
}
