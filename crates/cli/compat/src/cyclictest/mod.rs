//! cyclictest measures the wake-up latency of periodic threads.
//!
//! The facts about the original are from rt-tests 2.10, `src/cyclictest/cyclictest.c` and
//! `src/lib/rt-numa.c`, and from its output.

mod options;
mod pipe;
mod request;
mod resolution;
mod result;
mod settings;
mod smi;
mod snapshot;
mod view;

#[cfg(test)]
mod tests;

use std::path::Path;

use punctual_files::Output;
use punctual_model::CpuSet;
use punctual_rt::{DmaLatency, LockMode};
use punctual_session::Session;

use crate::live_output::LiveOutput;
use crate::machine::Machine;
use crate::option_row::specs;
use crate::shared;
use crate::{CompatError, Family, Parsed, Tool, ToolContext};
use settings::{Affinity, CyclictestSettings};
use view::View;

pub(crate) const TOOL: Tool = Tool {
    name: "cyclictest",
    summary: "how late periodic threads wake",
    probe: "timer",
    family: Family::RtTests,
    options: &specs::<_, { options::OPTIONS.len() }>(options::OPTIONS),
    removed: options::REMOVED,
    differences: options::DIFFERENCES,
    run,
};

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    let machine = Machine::from_host(&context.host)?;
    let settings = CyclictestSettings::read(parsed, options::OPTIONS, &machine)?;
    for line in &settings.first_lines {
        writeln!(context.out, "{line}")?;
    }
    for note in &settings.notes {
        context.say(note);
    }
    let files = Files::open(&settings)?;
    let session = shared::prepare(request::request(&settings, context)?, context)?;
    heads(&settings, &machine, context)?;
    let held = hold(&settings, context)?;
    if settings.resolution {
        resolution::check(&settings, context);
    }
    if settings.smi {
        smi::check(&request::cpus_used(&settings, &machine), context)?;
    }
    measure(&settings, session, files, held, context)
}

/// Files written at the end of the run.
struct Files {
    json: Option<Output>,
    histogram: Option<Output>,
}

impl Files {
    fn open(settings: &CyclictestSettings) -> Result<Self, CompatError> {
        let histogram = match settings.histogram {
            0 => None,
            _ => settings.common.histogram_file.as_ref(),
        };
        Ok(Self {
            json: shared::json_file(settings.common.json.as_ref())?,
            histogram: histogram.map(shared::output_file).transpose()?,
        })
    }
}

/// Prints the first lines that `-v` adds.
fn heads(
    settings: &CyclictestSettings,
    machine: &Machine,
    context: &mut ToolContext<'_>,
) -> Result<(), CompatError> {
    if !settings.verbose {
        return Ok(());
    }
    let online = context.host.online().map_or(0, |cpus| cpus.len());
    writeln!(context.out, "Max CPUs = {}", machine.present.len())?;
    writeln!(context.out, "Online CPUs = {online}")?;
    if let Affinity::Chosen(cpus) = &settings.affinity {
        writeln!(context.out, "{}", settings::using(cpus))?;
    }
    Ok(())
}

/// Locks memory, and limits the exit latency of the CPUs' idle states until the returned value is
/// dropped. The session also does both. They are done here to print the messages of the original.
fn hold(
    settings: &CyclictestSettings,
    context: &mut ToolContext<'_>,
) -> Result<Option<DmaLatency>, CompatError> {
    if settings.common.lock_memory
        && let Err(error) = punctual_rt::lock_process_memory(LockMode::OnFault)
    {
        return Err(CompatError::Exit {
            message: format!("mlockall: {error}"),
            status: 255,
        });
    }
    let left = match settings {
        CyclictestSettings { laptop: true, .. } => " to save battery power",
        CyclictestSettings {
            default_system: true,
            ..
        } => " from cyclictest",
        CyclictestSettings {
            idle_state: Some(_),
            ..
        } => ", --deepest-idle-state is set instead",
        _ => return hold_latency(settings.latency_us, context),
    };
    context.warn(&format!("not setting cpu_dma_latency{left}"));
    Ok(None)
}

fn hold_latency(
    micros: i32,
    context: &mut ToolContext<'_>,
) -> Result<Option<DmaLatency>, CompatError> {
    match DmaLatency::hold(Path::new(DmaLatency::DEFAULT_PATH), micros) {
        Ok(held) => {
            writeln!(context.out, "# /dev/cpu_dma_latency set to {micros}us")?;
            Ok(Some(held))
        }
        // The session warns about this error, and the warning is printed at the end.
        Err(_) => Ok(None),
    }
}

fn measure(
    settings: &CyclictestSettings,
    session: Session,
    files: Files,
    held: Option<DmaLatency>,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    if let Some(cpus) = &settings.main_affinity {
        bind_main(cpus, context);
    }
    context.out.flush()?;
    let mut view = View::new(
        settings,
        LiveOutput::new(&mut *context.out, context.signals.clone()),
        &mut *context.err,
        context.host.clone(),
    );
    let stop = std::sync::Arc::clone(&context.signals.stop);
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    let seen = view.finish()?;
    let outcome = outcome?;
    drop(held);
    result::write(settings, &outcome, seen, files, context)
}

fn bind_main(cpus: &CpuSet, context: &mut ToolContext<'_>) {
    let cpus: Vec<u32> = cpus.iter().collect();
    if let Err(error) = punctual_rt::affinity::set(punctual_rt::current_tid(), &cpus) {
        context.warn(&format!("Couldn't setaffinity in main thread: {error}"));
    }
}
