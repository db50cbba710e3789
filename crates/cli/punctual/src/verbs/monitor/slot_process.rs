//! The process that measures one slot for the service.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_host::Host;
use punctual_monitor::{Notify, Runner, SERVICE_ENDED, SlotTask};
use punctual_store::Store;

use super::in_process;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::running::stop_flag;
use crate::verb::{Run, Verb};

pub(in crate::verbs) const VERB: Verb = Verb::new::<ServeSlot>(NAME);

pub(super) const NAME: &str = "serve-slot";

/// Measure one slot of a series; started by monitor run
#[derive(Parser)]
#[command(hide = true)]
struct ServeSlot {}

impl Run for ServeSlot {
    fn run(self, context: &Context) -> Result<Exit> {
        let stop = stop_flag()?;
        punctual_rt::demote_at_signals(&[SERVICE_ENDED])?;
        let task = SlotTask::read(std::io::stdin().lock())?;
        stop_with_stdin(&stop);
        let plan = super::read(&task.plan)?;
        let name = &task.epoch.name;
        let series = plan.series.iter().find(|series| series.name == *name);
        let series = series.with_context(|| format!("the plan has no series '{name}'"))?;
        let store = Store::open(&context.store_path()?)?;
        let host = Host::live();
        let mut log = |text: &str| output::note(text);
        let settings = || super::settings::before_run(&host);
        let machine = (&host, &settings as &dyn Fn() -> Option<String>);
        let mut runner = in_process::runner(&store, machine, &stop, &mut log);
        runner.notify = Notify::default();
        runner.command_line = task.command_line;
        let end = runner.run(series, &task.epoch, &task.slot);
        let answer = end.answer();
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{answer}")?;
        Ok(Exit::Done)
    }
}

/// Sets `stop` when the service closes the pipe.
fn stop_with_stdin(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        #[expect(
            clippy::disallowed_methods,
            reason = "ends when the service closes the pipe"
        )]
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stop.store(true, Ordering::Relaxed);
    });
}
