//! `monitor run`: the service.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use punctual_host::Host;
use punctual_model::{Completion, Nanos, RecordingId, SlotState};
use punctual_monitor::{
    Clock, FlightPlan, FlightRecorder, Machine, Notify, Plan, Runner, Service, SystemClock,
    Watching, next_due,
};
use punctual_store::{Filter, SlotFilter, Store, Summary};

use super::lease::only_one;
use super::options::PlanFile;
use super::slot_process::ProcessRunner;
use super::snapshot::{Answering, StoredSnapshot};
use crate::context::{Context, sweep};
use crate::exit::Exit;
use crate::output;
use crate::verbs::measure::stop_flag;

pub(super) fn run(file: &PlanFile, context: &Context) -> Result<Exit> {
    // Its threads wait nearly always: a heap of each would only keep what was freed.
    punctual_rt::share_heap();
    let text = file.text()?;
    let plan = text.plan()?;
    // It removes what ages out.
    let store = context.store_to_delete()?;
    let host = Host::live();
    let stop = stop_flag()?;
    let machine = super::machine(&host);
    // Registered in any case, and before others see that there is a service: the signal's
    // default action would end it.
    let (close, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    for flag in [&close, &asked] {
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(flag))?;
    }
    let _only = only_one(&store)?;
    let offered = StoredSnapshot::offering(plan.window.is_some(), plan.flight.is_some());
    offered.write(&store, &machine.id)?;
    wait_for_killed(&store, &machine.id)?;
    let clock = SystemClock;
    let recorder = plan.flight.map(|plan| arm(&host, plan));
    let mut runner = ProcessRunner {
        context,
        store: &store,
        plan: text,
        stop: &stop,
        notify: Notify::from_env(&|name| std::env::var_os(name)),
        flight: recorder
            .as_ref()
            .and_then(|recorder| recorder.as_ref().ok()),
    };
    let mut service = Service::begin(&plan, &store, &clock, machine.clone())?;
    let next = next_slot(&plan);
    runner.notify.ready(&next);
    runner.say(&next);
    let own = plan.window.map(|_| Store::open(store.path())).transpose()?;
    let of_snapshots = plan.flight.map(|_| Store::open(store.path())).transpose()?;
    std::thread::scope(|scope| {
        if let (Some(window), Some(store)) = (plan.window, own) {
            let (machine, flags) = (&machine, (&*stop, &*close));
            let pid_max = host.pid_max();
            scope.spawn(move || watch(&store, machine, (window, pid_max), flags));
        }
        if let (Some(recorder), Some(store)) = (&recorder, of_snapshots) {
            let answering = Answering {
                store,
                machine: &machine.id,
                recorder,
                windows: plan.window.is_some(),
                asked: &asked,
                stop: &stop,
            };
            scope.spawn(move || answering.answer());
        }
        if let Some(push) = &plan.push {
            let (path, stop) = (store.path(), &stop);
            scope.spawn(move || super::push::push(push, path, stop));
        }
        service.serve(&mut runner, &stop);
    });
    runner.notify.stopping();
    Ok(Exit::Done)
}

/// Watches windows of wake-ups; the flags end the service and the current window.
fn watch(
    store: &Store,
    machine: &Machine,
    (window, pid_max): (Nanos, u32),
    (stop, close): (&AtomicBool, &AtomicBool),
) {
    let watching = Watching {
        store,
        machine,
        window,
        pid_max,
        clock: &SystemClock,
        stop,
        close,
        rest: &|| {
            punctual_rt::release_heap();
        },
    };
    watching.watch(&mut |text| output::note(text));
}

fn arm(host: &Host, plan: FlightPlan) -> Result<FlightRecorder> {
    let armed = FlightRecorder::arm(host, plan);
    armed.map_err(|error| {
        let why = anyhow!("the flight recorder is not armed: {error}");
        output::note(&why.to_string());
        why
    })
}

/// How long processes of a service that was killed may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// A process that measures a slot is killed with its service, but is not gone at once: its
/// recording would look like that of another program that measures the slot.
fn wait_for_killed(store: &Store, machine: &str) -> Result<()> {
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
    let began = Instant::now();
    loop {
        sweep(store)?;
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
