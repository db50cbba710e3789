//! `tune`: settings of the machine planned, applied, watched and put back.

mod document;
mod from_doctor;
mod rows;
mod settings;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use punctual_host::Host;
use punctual_model::CpuSet;
use punctual_report::document::Document;
use punctual_report::text;
use punctual_tune::{Options, PROFILES, Plan, Profile, Refusals, Request, Status, Wish};
use serde::Serialize;

use super::{Verb, parsed};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

const LONG: &str = "\
Settings of the machine: planned, applied, verified and restored.

`plan` shows what would change and writes nothing. `apply` writes the old value \
of each setting to a journal before it changes it, and reads it back after. A \
setting of a profile that the kernel refuses is left out, with the reason. If a setting of --set is refused, or any with --strict, everything is \
undone. What is applied stays until `revert`, which restores it exactly, also \
after a kill or a reboot.";

const EXAMPLES: &str = "\
Examples:
  punctual tune plan control --cpus 2-3
  sudo punctual tune apply control --cpus 2-3 --set swappiness=1
  punctual tune plan --from-doctor --cpus 2-3
  sudo punctual tune apply --set 'irq-affinity@eth0*=0' --set dma-latency-us=0
  punctual tune status
  sudo punctual tune revert
  punctual tune profiles --show control | sudo tee /etc/mine.toml
  sudo punctual tune apply /etc/mine.toml

Root uses only profiles that root owns and nobody else may write to or replace: keep
them in a folder of root.

Exit codes: 0 done, 1 failed (apply: nothing stays changed), 2 wrong usage,
3 verify: something is not as it was set.";

fn command() -> Command {
    Command::new("tune")
        .about("Change settings of the machine, and restore them exactly")
        .long_about(LONG)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            wished(Command::new("plan"))
                .about("Show what would change, and the risk; nothing is written"),
        )
        .subcommand(
            wished(Command::new("apply"))
                .about("Change the settings until revert")
                .arg(
                    Arg::new("strict")
                        .long("strict")
                        .action(ArgAction::SetTrue)
                        .conflicts_with("keep-going")
                        .help("Undo everything if the kernel refuses any setting"),
                )
                .arg(
                    Arg::new("keep-going")
                        .long("keep-going")
                        .action(ArgAction::SetTrue)
                        .help("Leave out settings of --set, too, if absent or refused"),
                ),
        )
        .subcommand(
            Command::new("status")
                .about("Show what is applied, and what has changed since")
                .arg(json()),
        )
        .subcommand(
            wished(Command::new("verify"))
                .about("Exit 3 if what was applied, or the given profile, is not in force"),
        )
        .subcommand(
            Command::new("revert")
                .about("Restore what was applied, the last change first")
                .arg(json())
                .arg(
                    Arg::new("forget")
                        .long("forget")
                        .action(ArgAction::SetTrue)
                        .help("Give up what cannot be restored, such as a removed device"),
                ),
        )
        .subcommand(
            Command::new("profiles")
                .about("List the built-in profiles")
                .arg(
                    Arg::new("show")
                        .long("show")
                        .value_name("NAME")
                        .help("Print a profile, to be copied and edited"),
                ),
        )
        .subcommand(settings::command())
}

fn json() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("Print JSON")
}

/// The options that say what is wanted.
fn wished(command: Command) -> Command {
    command
        .arg(
            Arg::new("profile")
                .value_name("PROFILE")
                .help("A built-in profile (see `punctual tune profiles`) or a TOML file"),
        )
        .args(from_doctor::options())
        .arg(
            Arg::new("cpus")
                .short('c')
                .long("cpus")
                .value_name("LIST")
                .value_parser(parsed::<CpuSet>())
                .help("CPUs that are measured or run the application, such as 2-3"),
        )
        .arg(
            Arg::new("set")
                .short('s')
                .long("set")
                .value_name("SETTING=VALUE")
                .action(ArgAction::Append)
                .help("One setting, also SETTING@INSTANCE=VALUE; overrides the profile"),
        )
        .arg(json())
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    match matches.subcommand() {
        Some(("plan", matches)) => plan(matches, context),
        Some(("apply", matches)) => apply(matches, context),
        Some(("status", matches)) => status(matches, context),
        Some(("verify", matches)) => verify(matches, context),
        Some(("revert", matches)) => revert(matches, context),
        Some(("profiles", matches)) => profiles(matches, context),
        Some(("settings", matches)) => settings::run(matches, &context.style()),
        _ => Err(UsageError("see punctual tune --help".to_owned()).into()),
    }
}

/// What is asked for beside the doctor's findings; `None` where nothing is.
fn request(matches: &ArgMatches) -> Result<Option<Request>> {
    let profile = matches
        .get_one::<String>("profile")
        .map(|name| Profile::find(name))
        .transpose()?;
    from_doctor::check(matches)?;
    let keep_going = matches.try_get_one("keep-going").ok().flatten() == Some(&true);
    let sets = matches
        .get_many::<String>("set")
        .unwrap_or_default()
        .map(|text| Wish::parse(text))
        .map(|wish| match keep_going {
            true => wish.map(Wish::lenient),
            false => wish,
        })
        .collect::<Result<Vec<_>, _>>()?;
    if profile.is_none() && sets.is_empty() {
        return Ok(None);
    }
    Ok(Some(Request {
        profile,
        sets,
        cpus: matches.get_one::<CpuSet>("cpus").cloned(),
    }))
}

fn wanted(matches: &ArgMatches, context: &Context) -> Result<Plan> {
    let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    let asked = request(matches)?;
    let places = context.tune_places()?;
    if matches.get_flag(from_doctor::FLAG) {
        return from_doctor::plan(matches, asked.unwrap_or_default(), &places.applied);
    }
    let request = asked.ok_or_else(|| {
        UsageError(format!(
            "nothing was asked for: give a profile ({}, or a TOML file), --set SETTING=VALUE \
             or --from-doctor",
            names.join(", ")
        ))
    })?;
    Ok(Plan::make(&request, &Host::live(), &places.applied)?)
}

/// Prints a value as JSON where that is asked for, else as text.
fn show<T: Serialize>(
    matches: &ArgMatches,
    context: &Context,
    value: &T,
    document: impl FnOnce() -> Document,
) -> Result<()> {
    match matches.get_flag("json") {
        true => output::print(&output::json(value)?),
        false => print(&document(), context),
    }
}

fn print(document: &Document, context: &Context) -> Result<()> {
    output::print(&text::render(document, &context.style()))
}

fn plan(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let plan = wanted(matches, context)?;
    show(matches, context, &plan, || document::plan(&plan))?;
    Ok(Exit::Done)
}

fn apply(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let plan = wanted(matches, context)?;
    let refusals = match (matches.get_flag("strict"), matches.get_flag("keep-going")) {
        (true, _) => Refusals::UndoAll,
        (_, true) => Refusals::LeaveOutAll,
        _ => Refusals::LeaveOutWishes,
    };
    let options = Options { refusals };
    let places = context.tune_places()?;
    let applied = punctual_tune::apply(&plan, &Host::live(), &places, options)?;
    show(matches, context, &applied, || {
        document::applied(&plan, &applied)
    })?;
    // All that was to change was refused.
    let failed = applied.changes.is_empty() && !applied.refused.is_empty();
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Applies settings, as `tune apply --set` does: for the verbs that are the short
/// way to it.
pub(super) fn apply_some(settings: &[String], context: &Context) -> Result<Exit> {
    let wishes = settings.iter().map(|setting| Wish::parse(setting));
    let request = Request {
        profile: None,
        sets: wishes.collect::<Result<_, _>>()?,
        cpus: None,
    };
    let places = context.tune_places()?;
    let host = Host::live();
    let plan = Plan::make(&request, &host, &places.applied)?;
    let applied = punctual_tune::apply(&plan, &host, &places, Options::default())?;
    print(&document::applied(&plan, &applied), context)?;
    Ok(Exit::Done)
}

fn status(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let status = Status::read(&context.tune_places()?.applied, &Host::live())?;
    show(matches, context, &status, || {
        document::status(status.as_ref())
    })?;
    Ok(Exit::Done)
}

/// Without a profile: what was applied. With one: what it asks for.
fn verify(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    if matches.get_flag(from_doctor::FLAG) || request(matches)?.is_some() {
        let plan = wanted(matches, context)?;
        let holds = plan.changes().next().is_none();
        show(matches, context, &plan, || document::verified(&plan))?;
        return Ok(if holds { Exit::Done } else { Exit::Broken });
    }
    let status = Status::read(&context.tune_places()?.applied, &Host::live())?;
    show(matches, context, &status, || {
        document::status(status.as_ref())
    })?;
    let holds = status.is_some_and(|status| status.holds());
    Ok(if holds { Exit::Done } else { Exit::Broken })
}

fn revert(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let places = context.tune_places()?;
    let forget = matches.get_flag("forget");
    match punctual_tune::revert(&Host::live(), &places, forget) {
        Ok(restored) => {
            show(matches, context, &restored, || {
                document::reverted(&restored)
            })?;
            Ok(Exit::Done)
        }
        Err(punctual_tune::TuneError::NotRestored { restored, failures }) => {
            // What was put back is worth telling too.
            if !matches.get_flag("json") && !restored.is_empty() {
                print(&document::reverted(&restored), context)?;
            }
            let error = punctual_tune::TuneError::NotRestored { restored, failures };
            Err(anyhow::Error::from(error).context(
                "not everything is as it was (the next command tries again; `punctual tune revert \
                 --forget` gives up what is left)",
            ))
        }
        Err(error) => {
            if let punctual_tune::TuneError::NotRecorded { restored, .. } = &error
                && !matches.get_flag("json")
            {
                print(&document::reverted(restored), context)?;
            }
            Err(error.into())
        }
    }
}

fn profiles(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let Some(name) = matches.get_one::<String>("show") else {
        print(&document::profiles()?, context)?;
        return Ok(Exit::Done);
    };
    match PROFILES.iter().find(|profile| profile.name == name) {
        Some(profile) => output::print(profile.text)?,
        None => {
            // Says which there are.
            let profile = Profile::find(name)?;
            return Err(UsageError(format!("{} is a file already", profile.name)).into());
        }
    }
    Ok(Exit::Done)
}
