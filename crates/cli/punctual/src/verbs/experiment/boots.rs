//! Experiments that compare boots: the output between two boots.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use punctual_experiment::{BootRequest, BootStep};
use punctual_files::Budget;
use punctual_host::Host;
use punctual_model::Experiment;

use super::options::Booting;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

/// This folder exists if systemd is running as the init system (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// Returns what an experiment that compares boots may write, and the program that its unit starts.
pub(super) fn request(booting: Booting, context: &Context) -> Result<BootRequest> {
    let program = std::env::current_exe().context("the path of this program")?;
    let store = std::path::absolute(context.store_path()?)?;
    let text = |path: &std::path::Path| {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("{}: not UTF-8", path.display()))
    };
    Ok(BootRequest {
        machine: Host::live(),
        write: booting.write,
        program: vec![text(&program)?, "--store".to_owned(), text(&store)?],
        folder: store.parent().unwrap_or(&store).to_owned(),
        own: crate::context::own_experiments()?,
    })
}

/// Prints which system to boot next.
pub(super) fn show(step: &BootStep, experiment: &Experiment, json: bool) -> Result<()> {
    let BootStep::Boot {
        what,
        chosen,
        steps,
    } = step
    else {
        return Ok(());
    };
    if json {
        return output::print(&output::json(experiment));
    }
    let chosen = match chosen {
        true => "chosen for the next boot",
        false => "not chosen for the next boot",
    };
    let mut text = format!(
        "{what}: {chosen}\nexperiment {}, {} blocks measured\n",
        experiment.id.short(),
        experiment.blocks.len()
    );
    let by_hand = experiment
        .boots
        .as_ref()
        .and_then(|boots| boots.by_hand.as_ref());
    if let Some(reason) = by_hand {
        text.push_str(&format!("cannot use a boot loader: {reason}\n"));
    }
    for (place, step) in steps.iter().enumerate() {
        text.push_str(&format!("{}. {step}\n", place + 1));
    }
    output::print(&text)
}

/// Reboots if requested. Returns an error if no boot entry is chosen.
pub(super) fn leave(step: &BootStep, booting: Booting) -> Result<Exit> {
    let chosen = matches!(step, BootStep::Boot { chosen: true, .. });
    if !booting.reboot {
        return Ok(Exit::Done);
    }
    ensure!(
        chosen,
        "not rebooted, because no boot entry is chosen for the next boot: follow the steps, or \
         pass --write"
    );
    let mut command = if std::path::Path::new(SYSTEMD).exists() {
        Command::new("systemctl")
    } else {
        Command::new("reboot")
    };
    if command.get_program() == "systemctl" {
        command.arg("reboot");
    }
    let mut child = command.spawn().context("reboot")?;
    let status = Budget::time(Duration::from_secs(60)).end(&mut child);
    let status = status.context("reboot")?;
    ensure!(status.success(), "reboot: {status}");
    Ok(Exit::Done)
}
