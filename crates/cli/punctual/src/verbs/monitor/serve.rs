//! `monitor run`: runs the service.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use punctual_host::Host;
use punctual_metrics::Scrape;
use punctual_model::Wakeups;
use punctual_monitor::{
    Answering, Clock, FlightPlan, FlightRecorder, Machine, Notify, Plan, ProcessRunner, Runner,
    Service, StoredSnapshot, SystemClock, Watching, next_due, only_service, wait_for_killed,
};
use punctual_store::Store;

use super::options::PlanFile;
use super::slot_process;
use crate::context::Context;
use crate::exit::{Exit, with_causes};
use crate::output;
use crate::running::stop_flag;
use crate::verb::command_line;

pub(super) fn run(file: &PlanFile, context: &Context) -> Result<Exit> {
    // The threads of the service are idle most of the time. If each thread had its own heap, it
    // would only retain freed memory.
    punctual_rt::share_heap();
    let text = file.text()?;
    let plan = super::read(&text)?;
    punctual_command::upgrade::for_service(context)?;
    // Open the store to delete from it, because the service removes expired data.
    let store = context.store_to_delete()?;
    let host = Host::live();
    let stop = stop_flag()?;
    let machine = Machine::of(&host);
    // Always register these handlers, and do so before other programs can see the service, because
    // the default action of the signal would end it.
    let (close, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    for flag in [&close, &asked] {
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(flag))?;
    }
    let _only = only_service(&store)?;
    let offered = StoredSnapshot::offering(plan.watch.is_some(), plan.flight.is_some());
    offered.write(&store, &machine.id)?;
    wait_for_killed(&store, &machine.id)?;
    let clock = SystemClock;
    let recorder = plan.flight.map(|plan| arm(&host, plan));
    let recover = || {
        crate::context::recover_settings();
        crate::context::recover_tracer();
        if let Err(error) = context.store_to_change() {
            output::note(&with_causes(&error));
        }
    };
    let mut runner = ProcessRunner {
        store: &store,
        verb: slot_process::NAME,
        command_line: command_line(),
        recover: &recover,
        say: output::note,
        plan: text,
        stop: &stop,
        notify: Notify::from_env(&|name| std::env::var_os(name)),
        flight: recorder
            .as_ref()
            .and_then(|recorder| recorder.as_ref().ok()),
    };
    let mut service = Service::begin(&plan, &store, &clock, machine.clone())?;
    let next = next_slot(&plan, &store, &machine)?;
    runner.notify.ready(&next);
    runner.say(&next);
    let watch_plan = plan.watch.as_ref();
    let own = watch_plan.map(|_| Store::open(store.path())).transpose()?;
    let listen = watch_plan.and_then(|watch| watch.listen);
    let scrape = listen.map(Scrape::start).transpose()?;
    if let Some(scrape) = &scrape {
        output::note(&format!("metrics: http://{}/metrics", scrape.address));
    }
    let of_snapshots = plan.flight.map(|_| Store::open(store.path())).transpose()?;
    std::thread::scope(|scope| {
        if let (Some(plan), Some(store)) = (watch_plan, own) {
            let (machine, host, scrape) = (&machine, &host, scrape.as_ref());
            let (stop, close) = (&*stop, &*close);
            let publish = move |seen: &Wakeups| {
                if let Some(scrape) = scrape {
                    scrape.publish(seen, &plan.by);
                }
            };
            scope.spawn(move || {
                let watching = Watching {
                    store: &store,
                    machine,
                    plan,
                    host,
                    publish: scrape.is_some().then_some(&publish),
                    clock: &SystemClock,
                    stop,
                    close,
                    rest: &|| {
                        punctual_rt::release_heap();
                    },
                };
                watching.watch(&mut |text| output::note(text));
            });
        }
        if let (Some(recorder), Some(store)) = (&recorder, of_snapshots) {
            let answering = Answering {
                store,
                machine: &machine.id,
                recorder,
                windows: plan.watch.is_some(),
                asked: &asked,
                stop: &stop,
                say: output::note,
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

fn arm(host: &Host, plan: FlightPlan) -> Result<FlightRecorder, String> {
    FlightRecorder::arm(host, plan).map_err(|error| {
        let why = format!(
            "the flight recorder is not armed: {}",
            with_causes(&error.into())
        );
        output::note(&why);
        why
    })
}

fn next_slot(plan: &Plan, store: &Store, machine: &Machine) -> Result<String> {
    let (now, zone) = (SystemClock.now(), SystemClock.zone());
    let epochs = store.series()?;
    let next = plan.series.iter().filter_map(|series| {
        let own = epochs
            .iter()
            .filter(|epoch| epoch.machine == machine.id && epoch.name == series.name);
        let newest = own.max_by_key(|epoch| epoch.epoch);
        let next = next_due(series, newest, now, &zone)?;
        Some((next, &series.name))
    });
    Ok(match next.min() {
        Some((next, name)) => {
            let time = next.to_zoned(zone.clone()).strftime("%F %H:%M:%S");
            format!("next: {name} at {time}")
        }
        None => "waiting for events".to_owned(),
    })
}
