//! `monitor install`: prints or writes the unit file of the service.

use std::path::Path;

use anyhow::{Context as _, Result};
use punctual_command::unit::path_text;
use punctual_files::Output;
use punctual_host::Host;
use punctual_model::CpuSet;
use punctual_monitor::{Measured, Plan, SeriesPlan};

use super::options::PlanFile;
use super::unit::{UNIT_PATH, Unit, unit_file};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) fn install(file: &PlanFile, write: bool, context: &Context) -> Result<Exit> {
    // Read the plan first, because a service with an unreadable plan must not be installed.
    let plan = file.read()?;
    let store = context.place_of_store()?;
    let folder = store.parent().unwrap_or(Path::new("/")).to_owned();
    let path = std::path::absolute(&file.plan)?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let housekeeping = housekeeping(&plan, &Host::live());
    let text = unit_file(&Unit {
        program: path_text(&program)?,
        plan: path_text(&path)?,
        store: path_text(&store)?,
        folder: path_text(&folder)?,
        housekeeping: housekeeping.as_ref(),
    })?;
    if !write {
        output::print(&text)?;
        return Ok(Exit::Done);
    }
    Output::open(Path::new(UNIT_PATH))?.put(text.as_bytes())?;
    context.done(Exit::Done, format!("{UNIT_PATH} is written"));
    output::print(&format!(
        "{UNIT_PATH} was written; to start the service: systemctl daemon-reload && systemctl \
         enable --now punctual-monitor\n"
    ))?;
    Ok(Exit::Done)
}

/// Returns the online CPUs that no series measures; `None` if there are none.
fn housekeeping(plan: &Plan, host: &Host) -> Option<CpuSet> {
    let online = host.online().ok()?;
    let mut rest = online.clone();
    let of_probes = |series: &&SeriesPlan| matches!(series.measured, Measured::Probe(..));
    for series in plan.series.iter().filter(of_probes) {
        let measured = series.cpus.as_ref().unwrap_or(&online);
        rest = rest.difference(measured);
    }
    (!rest.is_empty()).then_some(rest)
}
