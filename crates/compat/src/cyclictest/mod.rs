//! cyclictest: how late periodic threads wake.
//!
//! Facts from rt-tests 2.10, `src/cyclictest/cyclictest.c` and
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

use crate::paper::Paper;
use crate::shared;
use crate::{CompatError, Parsed, Stage, Tool};
use settings::{Affinity, Machine, Settings};
use view::View;

pub(crate) const TOOL: Tool = Tool {
    name: "cyclictest",
    summary: "how late periodic threads wake",
    probe: "timer",
    options: options::OPTIONS,
    removed: options::REMOVED,
    differences: options::DIFFERENCES,
    run,
};

fn run(parsed: &Parsed, stage: &mut Stage<'_>) -> Result<u8, CompatError> {
    let machine = Machine::of(&stage.host)?;
    let settings = Settings::read(parsed, &machine)?;
    for line in &settings.first_lines {
        writeln!(stage.out, "{line}")?;
    }
    for note in &settings.notes {
        stage.say(note);
    }
    let files = Files::open(&settings)?;
    let session = prepare(&settings, stage)?;
    heads(&settings, &machine, stage)?;
    let held = hold(&settings, stage)?;
    if settings.resolution {
        resolution::check(&settings, stage);
    }
    if settings.smi {
        smi::check(&request::cpus_used(&settings, &machine), stage)?;
    }
    measure(&settings, session, files, held, stage)
}

/// Files that are written when the run is over.
struct Files {
    json: Option<Output>,
    histogram: Option<Output>,
}

impl Files {
    fn open(settings: &Settings) -> Result<Self, CompatError> {
        let histogram = match settings.histogram {
            0 => None,
            _ => settings.histogram_file.as_ref(),
        };
        Ok(Self {
            json: shared::json_file(settings.json.as_ref())?,
            histogram: histogram.map(shared::output_file).transpose()?,
        })
    }
}

fn prepare(settings: &Settings, stage: &Stage<'_>) -> Result<Session, CompatError> {
    let request = request::request(settings, stage)?;
    Session::prepare(request, stage.host.clone()).map_err(|error| {
        if Stage::is_privilege(&error) {
            return CompatError::Exit {
                message: "Unable to change scheduling policy!\n\
                          either run as root or join realtime group"
                    .to_owned(),
                status: 1,
            };
        }
        error.into()
    })
}

/// What `-v` says first.
fn heads(settings: &Settings, machine: &Machine, stage: &mut Stage<'_>) -> Result<(), CompatError> {
    if !settings.verbose {
        return Ok(());
    }
    let online = stage.host.online().map_or(0, |cpus| cpus.len());
    writeln!(stage.out, "Max CPUs = {}", machine.present.len())?;
    writeln!(stage.out, "Online CPUs = {online}")?;
    if let Affinity::Chosen(cpus) = &settings.affinity {
        writeln!(stage.out, "{}", settings::using(cpus))?;
    }
    Ok(())
}

/// Locked memory and the exit latency of the CPUs, for as long as this lives.
/// The session holds both too; here they are held to say what the original says.
fn hold(settings: &Settings, stage: &mut Stage<'_>) -> Result<Option<DmaLatency>, CompatError> {
    if settings.lock_memory
        && let Err(error) = punctual_rt::lock_process_memory(LockMode::OnFault)
    {
        return Err(CompatError::Exit {
            message: format!("mlockall: {error}"),
            status: 255,
        });
    }
    let left = match settings {
        Settings { laptop: true, .. } => " to save battery power",
        Settings {
            default_system: true,
            ..
        } => " from cyclictest",
        Settings {
            idle_state: Some(_),
            ..
        } => ", --deepest-idle-state is set instead",
        _ => return hold_latency(settings.latency_us, stage),
    };
    stage.warn(&format!("not setting cpu_dma_latency{left}"));
    Ok(None)
}

fn hold_latency(micros: i32, stage: &mut Stage<'_>) -> Result<Option<DmaLatency>, CompatError> {
    match DmaLatency::hold(Path::new(DmaLatency::DEFAULT_PATH), micros) {
        Ok(held) => {
            writeln!(stage.out, "# /dev/cpu_dma_latency set to {micros}us")?;
            Ok(Some(held))
        }
        // The session warns of it, and the warning is printed at the end.
        Err(_) => Ok(None),
    }
}

fn measure(
    settings: &Settings,
    session: Session,
    files: Files,
    held: Option<DmaLatency>,
    stage: &mut Stage<'_>,
) -> Result<u8, CompatError> {
    if let Some(cpus) = &settings.main_affinity {
        bind_main(cpus, stage);
    }
    stage.out.flush()?;
    let mut view = View::new(
        settings,
        Paper::new(&mut *stage.out, stage.signals.clone()),
        &mut *stage.err,
        stage.host.clone(),
    );
    let stop = std::sync::Arc::clone(&stage.signals.stop);
    let outcome = session.run(stage.store.as_deref(), &mut view, &stop);
    let seen = view.finish()?;
    let outcome = outcome?;
    drop(held);
    result::write(settings, &outcome, seen, files, stage)
}

fn bind_main(cpus: &CpuSet, stage: &mut Stage<'_>) {
    let cpus: Vec<u32> = cpus.iter().collect();
    if let Err(error) = punctual_rt::affinity::set(punctual_rt::current_tid(), &cpus) {
        stage.warn(&format!("Couldn't setaffinity in main thread: {error}"));
    }
}
