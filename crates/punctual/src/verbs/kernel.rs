//! `kernel`: check of a configuration, a fragment to build from, and steps to install
//! a real-time kernel.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_checks::{Role, install, kernel};
use punctual_host::Host;
use punctual_model::Fact;

use super::{Verb, doctor};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("kernel")
        .about("Check a kernel's configuration, make one, or print installation steps")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("check")
                .about("Check a kernel's configuration, before or after the build")
                .arg(
                    Arg::new("config")
                        .long("config")
                        .value_name("FILE")
                        .value_parser(value_parser!(PathBuf))
                        .help("A .config, compressed with gzip or not [default: the running kernel's]"),
                )
                .arg(doctor::role_option())
                .arg(
                    Arg::new("all")
                        .long("all")
                        .action(ArgAction::SetTrue)
                        .help("Show also findings that are ok or not applicable"),
                )
                .args(doctor::output_options())
                .after_help(crate::exit::HELP),
        )
        .subcommand(
            Command::new("fragment")
                .about("Print the options as a fragment for the kernel's merge_config.sh")
                .arg(doctor::role_option()),
        )
        .subcommand(
            Command::new("install-steps")
                .about("Print the steps to install a real-time kernel; installs nothing")
                .arg(
                    Arg::new("distribution")
                        .long("distribution")
                        .value_name("NAME")
                        .help(format!(
                            "{} [default: this machine's]",
                            install::names()
                        )),
                ),
        )
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    match matches.subcommand() {
        Some(("check", matches)) => check(matches, context),
        Some(("fragment", matches)) => {
            output::print(&kernel::fragment(role(matches)))?;
            Ok(Exit::Done)
        }
        Some(("install-steps", matches)) => {
            install_steps(matches.get_one::<String>("distribution"))
        }
        _ => Err(UsageError(
            "a subcommand is missing: check, fragment or install-steps".to_owned(),
        )
        .into()),
    }
}

fn role(matches: &ArgMatches) -> Role {
    matches.get_one::<Role>("role").copied().unwrap_or_default()
}

fn check(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let audit = match matches.get_one::<PathBuf>("config") {
        Some(path) => {
            let absolute = std::path::absolute(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let text = Host::live()
                .kernel_config(&absolute.to_string_lossy())
                .map_err(|why| {
                    anyhow::anyhow!("cannot read the configuration in {}: {why}", path.display())
                })?;
            let name = path.display().to_string();
            kernel::audit(&Fact::known(text, &name), role(matches), None, &name)
        }
        None => {
            let facts = Host::live().capture(&punctual_checks::patterns());
            let release = facts.host.kernel.release.get();
            let name = release
                .map_or("the running kernel", String::as_str)
                .to_owned();
            kernel::audit(&facts.kernel_config, role(matches), Some(&facts), &name)
        }
    };
    doctor::show(&audit, matches, context, matches.get_flag("all"))
}

fn install_steps(distribution: Option<&String>) -> Result<Exit> {
    let host = Host::live();
    let facts = host.facts();
    let found = facts.distribution.id.get();
    let name = distribution.or(found).ok_or_else(|| {
        UsageError(format!(
            "unknown distribution ({}): give --distribution {}",
            facts
                .distribution
                .id
                .unknown
                .as_deref()
                .unwrap_or("no os-release"),
            install::names()
        ))
    })?;
    let machine = facts.kernel.architecture.get();
    let machine = machine.map_or("x86_64", String::as_str);
    // An explicit distribution wins.
    let like = match distribution {
        Some(_) => Vec::new(),
        None => host.distribution_like(),
    };
    let text =
        install::steps(name, &like, machine).map_err(|error| UsageError(error.to_string()))?;
    output::print(&text)?;
    Ok(Exit::Done)
}
