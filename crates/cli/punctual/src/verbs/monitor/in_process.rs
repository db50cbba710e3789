//! Slots that this process measures itself, either for `monitor once` or for the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use jiff::Timestamp;
use punctual_host::Host;
use punctual_model::{Slot, SlotCause, SlotState};
use punctual_monitor::{Machine, Notify, Runner, SessionRunner, epoch_of};
use punctual_store::Store;

use super::options::PlanFile;
use super::settings;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::processes::{serve_load, serve_partner, serve_symbols};
use crate::running::stop_flag;
use crate::verb::command_line;

/// Returns the runner that measures a slot.
pub(super) fn runner<'a>(
    store: &'a Store,
    (host, settings): (&'a Host, &'a dyn Fn() -> Option<String>),
    stop: &'a Arc<AtomicBool>,
    log: &'a mut dyn FnMut(&str),
) -> SessionRunner<'a> {
    SessionRunner {
        store,
        host,
        journal: crate::context::journal(),
        partner: serve_partner::program(),
        reader: serve_symbols::program(),
        isolate: &serve_load::in_subprocess,
        locks: crate::context::cpu_locks(),
        command_line: command_line(),
        settings,
        stop,
        notify: Notify::from_env(&|name| std::env::var_os(name)),
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
        return Err(UsageError(format!("unknown series '{name}': choose one of {known}")).into());
    };
    let store = context.store_to_change()?;
    let host = Host::live();
    let stop = stop_flag()?;
    let due = Timestamp::now();
    let epoch = epoch_of(&store, &Machine::of(&host), series, due)?;
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
    let settings = || settings::before_run(&host);
    let mut runner = runner(&store, (&host, &settings), &stop, &mut log);
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
