//! `check`: whether this machine is fit for a periodic loop.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_checks::Role;
use punctual_experiment::{Around, CheckError, CheckRequest, Checked, check};
use punctual_host::Host;
use punctual_loads::LoadRequest;
use punctual_model::{Audit, CpuSet, LoopRequirement, Nanos, Outcome};
use punctual_report::html::HtmlOptions;
use punctual_report::{document, html, junit, text};
use punctual_session::{Keep, SessionError};

use super::measure::stop_flag;
use super::{Verb, explain::timelines, facts, output_option, parsed, serve_load, serve_partner};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::live;
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb { command, run };

/// How long the hardware probe looks; at most half as long as the load runs.
const HARDWARE: Nanos = Nanos::from_secs(5);

/// The longest that `--until-proven` measures where nothing is said.
const LONGEST: &str = "24h";

fn command() -> Command {
    Command::new("check")
        .about("Check whether this machine is fit for a real-time loop")
        .long_about(
            "Check whether this machine is fit for a real-time loop.\n\n\
             Audits the settings, looks for time that firmware or a hypervisor takes, and \
             measures the loop's period without load and under load. A period that begins \
             later than the budget is a miss. The verdict is on the rate of episodes of \
             misses under load, with 95% confidence: held, broken or not proven. Changes no \
             setting.",
        )
        .args(loop_options())
        .args(run_options())
        .args(output_options())
        .after_help(crate::exit::HELP)
}

fn loop_options() -> [Arg; 5] {
    [
        time("period", "Period of the loop").default_value("1ms"),
        time("budget", "A period that begins later than this is a miss").default_value("100us"),
        Arg::new("max-misses-per-day")
            .long("max-misses-per-day")
            .value_name("N")
            .allow_negative_numbers(true)
            .value_parser(ValueParser::new(misses))
            .default_value("10")
            .help("Episodes of misses a day that the application survives"),
        Arg::new("cpus")
            .short('a')
            .long("cpus")
            .value_name("LIST")
            .value_parser(parsed::<CpuSet>())
            .help("The CPUs to measure: 2-3 [default: all that this process may use]"),
        Arg::new("priority")
            .short('p')
            .long("priority")
            .value_name("N")
            .value_parser(value_parser!(u8))
            .help("Priority of the loop, 1 to 99 [default: 95, or the highest permitted]"),
    ]
}

fn run_options() -> [Arg; 4] {
    [
        Arg::new("load")
            .long("load")
            .value_name("LOAD")
            .action(ArgAction::Append)
            .help("What disturbs, as for measure; none for no load [default: farm]"),
        time("time", "How long under load; a quarter of it without load").default_value("60s"),
        Arg::new("until-proven")
            .long("until-proven")
            .value_name("LONGEST")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(LONGEST)
            .value_parser(ValueParser::new(length))
            .help("Measure until held or broken is proven [limit: 24h, or LONGEST]"),
        Arg::new("label")
            .long("label")
            .value_name("TEXT")
            .help("Name of the recordings [default: check]"),
    ]
}

fn output_options() -> [Arg; 4] {
    [
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("As JSON"),
        output_option("Write an HTML page with verdict, causes and plots"),
        Arg::new("junit")
            .long("junit")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Write JUnit XML for continuous integration"),
        Arg::new("quiet")
            .short('q')
            .long("quiet")
            .action(ArgAction::SetTrue)
            .help("Show no progress"),
    ]
}

fn time(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("TIME")
        .value_parser(ValueParser::new(length))
        .help(help)
}

fn length(text: &str) -> Result<Nanos, String> {
    let length: Nanos = text
        .parse()
        .map_err(|error: punctual_model::DurationError| error.to_string())?;
    match length {
        Nanos::ZERO => Err("must be longer than 0".to_owned()),
        length => Ok(length),
    }
}

fn misses(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("must be a number, 0 or more".to_owned()),
    }
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let request = request(matches, context)?;
    // What cannot be written is known before anything is measured.
    let open = |name: &str| {
        matches
            .get_one::<PathBuf>(name)
            .map(|path| Output::open(path))
    };
    let (page, junit_file) = (open("output").transpose()?, open("junit").transpose()?);
    let json = matches.get_flag("json");
    let to_stdout = [&page, &junit_file]
        .into_iter()
        .flatten()
        .filter(|one| one.is_stdout());
    let on_stdout = usize::from(json) + to_stdout.count();
    if on_stdout > 1 {
        return Err(UsageError("only one form fits on stdout: name a file".to_owned()).into());
    }
    let audit = audit(request.cpus.clone())?;
    let store = context.store_if_wanted()?;
    let stop = stop_flag()?;
    let quiet = matches.get_flag("quiet");
    let mut view = live::view(quiet);
    let shown = live::is_shown(quiet);
    let say = |text: &str| {
        if !quiet && !shown {
            output::note(text);
        }
    };
    let checked = check(
        &request,
        Around {
            host: &Host::live(),
            audit,
            store: store.as_ref().map(|store| store as &dyn Keep),
            view: view.as_mut(),
            stop: &stop,
            say: &say,
        },
    )
    .map_err(told)?;
    if let Some(file) = junit_file {
        file.put(junit::checkup(&checked.checkup)?.as_bytes())?;
    }
    if json {
        output::print(&output::json(&checked.checkup)?)?;
    } else if on_stdout == 0 {
        output::print(&text::render(
            &document::checkup(&checked.checkup),
            &context.style(),
        ))?;
    }
    let exit = exit(&checked);
    if let Some(page) = page {
        let outliers = match &store {
            Some(store) => (checked.recordings.iter())
                .filter_map(|recording| timelines::worst(store, recording).transpose())
                .collect::<Result<_>>()?,
            None => Vec::new(),
        };
        let options = HtmlOptions {
            title: Some("Check-up".to_owned()),
            outliers,
            first: vec![document::checkup(&checked.checkup)],
            ..HtmlOptions::default()
        };
        page.put(html::render(&checked.recordings, &options)?.as_bytes())?;
    }
    if let Some(error) = checked.store_error {
        return Err(error).context("a recording could not be kept whole");
    }
    Ok(exit)
}

/// An error with its own exit code: that of the command line, or of the session.
fn told(error: CheckError) -> anyhow::Error {
    match error {
        CheckError::Parameter(text) => UsageError(format!("--period: {text}")).into(),
        CheckError::Nothing => UsageError(error.to_string()).into(),
        CheckError::Session(error) => error.into(),
        CheckError::Probe(error) => SessionError::from(error).into(),
    }
}

/// That of the verdict; what was stopped is broken or says so.
fn exit(checked: &Checked) -> Exit {
    match checked.checkup.outcome {
        Outcome::Broken => Exit::Broken,
        _ if checked.stopped => Exit::Interrupted,
        Outcome::Held => Exit::Done,
        Outcome::NotProven | Outcome::NoRequirement => Exit::NotProven,
    }
}

fn request(matches: &ArgMatches, context: &Context) -> Result<CheckRequest> {
    let time = |name: &str| matches.get_one::<Nanos>(name).copied().unwrap_or_default();
    let given = matches.get_many::<String>("load").into_iter().flatten();
    let mut names: Vec<&str> = given.map(String::as_str).collect();
    if names.is_empty() {
        names.push("farm");
    }
    let loads: Vec<LoadRequest> = (names.into_iter())
        .filter(|name| *name != "none")
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(SessionError::from)?;
    let requirement = LoopRequirement {
        period_ns: time("period"),
        budget_ns: time("budget"),
        max_misses_per_day: matches
            .get_one("max-misses-per-day")
            .copied()
            .unwrap_or(0.0),
    };
    if requirement.budget_ns > requirement.period_ns {
        return Err(UsageError(format!(
            "--budget {} is longer than the period of {}: a period that late is missed",
            requirement.budget_ns, requirement.period_ns
        ))
        .into());
    }
    let until_proven = matches.get_one::<Nanos>("until-proven").copied();
    if until_proven.is_some() && requirement.max_misses_per_day == 0.0 {
        return Err(UsageError(
            "--until-proven needs --max-misses-per-day above 0: no time proves that there is none"
                .to_owned(),
        )
        .into());
    }
    let loaded = time("time");
    Ok(CheckRequest {
        requirement,
        cpus: matches.get_one::<CpuSet>("cpus").cloned(),
        priority: matches.get_one::<u8>("priority").copied(),
        // Without a load that is the only condition.
        idle: match loads.is_empty() {
            true => loaded,
            false => Nanos(loaded.0 / 4),
        },
        loaded,
        loads: loads.into_iter().map(serve_load::in_subprocess).collect(),
        hardware: HARDWARE.min(Nanos(loaded.0 / 2)),
        until_proven,
        journal: context.journal(),
        partner: serve_partner::program(),
        label: matches.get_one::<String>("label").cloned(),
        command_line: std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
    })
}

/// The audit of this machine for a control loop on the measured CPUs.
pub(super) fn audit(cpus: Option<CpuSet>) -> Result<Audit> {
    let asked = punctual_checks::Request {
        role: Role::default(),
        cpus,
    };
    let wrong = |error: punctual_checks::AuditError| UsageError(error.to_string());
    let facts = facts::here(Some(facts::SAMPLE), |facts| {
        punctual_checks::measured_cpus(facts, &asked).map_err(wrong)
    })?;
    Ok(punctual_checks::audit(&facts, &asked).map_err(wrong)?)
}
