//! `doctor`: what in this machine's state costs latency.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_checks::{AuditError, Request, Role};
use punctual_model::{Audit, CpuSet, FactSet, MeasuredWorst};
use punctual_report::audit::{self, AuditDetail};

use super::{Verb, facts, parsed};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb { command, run };

/// The probe whose worst case the rule of thumb speaks of.
const COMPARABLE: &str = "timer";

fn command() -> Command {
    Command::new("doctor")
        .about("Say what in this machine's state costs latency, and what to do about it")
        .long_about(
            "Say what in this machine's state costs latency, and what to do about it.\n\n\
             Changes nothing. Each finding names what was read, why it matters, where that is said, \
             and what would change it. Run it as the user that runs the application, or as root to \
             see more.",
        )
        .arg(
            Arg::new("cpus")
                .short('a')
                .long("cpus")
                .value_name("LIST")
                .value_parser(parsed::<CpuSet>())
                .help("The CPUs that latency matters on: 2-3 [default: those that are isolated, else all]"),
        )
        .arg(role_option())
        .arg(facts::sample_option().conflicts_with("facts"))
        .arg(facts::no_sample_option())
        .arg(
            Arg::new("facts")
                .long("facts")
                .value_name("FILE|DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Audit the machine whose facts were captured: a file of punctual facts capture, or a folder with its /proc and /sys"),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .help("Show also what is ok and what does not apply"),
        )
        .args(output_options())
        .arg(
            Arg::new("fix-script")
                .long("fix-script")
                .action(ArgAction::SetTrue)
                .conflicts_with("json")
                .help("Print a shell script of what can be changed now, with the rest as comments"),
        )
        .arg(
            Arg::new("list")
                .long("list")
                .action(ArgAction::SetTrue)
                .help("Print all that is looked at, as Markdown, and look at nothing"),
        )
        .after_help(crate::exit::HELP)
}

/// `--role`.
pub(super) fn role_option() -> Arg {
    let roles: Vec<String> = punctual_checks::ROLES
        .iter()
        .map(|(_, name, meaning)| format!("{name} ({meaning})"))
        .collect();
    Arg::new("role")
        .long("role")
        .value_name("ROLE")
        .value_parser(parsed::<Role>())
        .help(format!(
            "What the machine is for: {} [default: control]",
            roles.join(", ")
        ))
}

/// The forms an audit can take besides text, and its exit code.
pub(super) fn output_options() -> [Arg; 4] {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(help)
    };
    [
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("As JSON"),
        file("sarif", "Write SARIF 2.1.0 for code scanning; - for stdout"),
        file(
            "junit",
            "Write JUnit XML for continuous integration; - for stdout",
        ),
        Arg::new("report-only")
            .long("report-only")
            .action(ArgAction::SetTrue)
            .help("End with 0 whatever is found"),
    ]
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    if matches.get_flag("list") {
        output::print(&punctual_checks::page())?;
        return Ok(Exit::Done);
    }
    let request = Request {
        role: matches.get_one::<Role>("role").copied().unwrap_or_default(),
        cpus: matches.get_one::<CpuSet>("cpus").cloned(),
    };
    let wrong = |error: AuditError| UsageError(error.to_string());
    let facts = match matches.get_one::<PathBuf>("facts") {
        Some(path) => facts::load(path)?,
        None => {
            let length = facts::sample_length(matches);
            facts::here(length, |facts| {
                punctual_checks::measured_cpus(facts, &request).map_err(wrong)
            })?
        }
    };
    let mut audit = punctual_checks::audit(&facts, &request).map_err(wrong)?;
    audit.expectation.measured = measured(context, &facts);
    if matches.get_flag("fix-script") {
        output::print(&punctual_checks::fix_script(&audit))?;
        return Ok(exit(&audit, matches));
    }
    show(&audit, matches, context, matches.get_flag("all"))
}

/// Writes an audit in the forms that were asked for: text where none was.
pub(super) fn show(
    audit: &Audit,
    matches: &ArgMatches,
    context: &Context,
    all: bool,
) -> Result<Exit> {
    let files: Vec<(&str, &PathBuf)> = ["sarif", "junit"]
        .into_iter()
        .filter_map(|form| Some((form, matches.get_one::<PathBuf>(form)?)))
        .collect();
    let json = matches.get_flag("json");
    let dashes = files.iter().filter(|(_, path)| path.as_os_str() == "-");
    // Seen before anything is written.
    let on_stdout = usize::from(json) + dashes.count();
    if on_stdout > 1 {
        let wrong = "only one form fits on stdout: name a file".to_owned();
        return Err(UsageError(wrong).into());
    }
    for (form, path) in files {
        let text = match form {
            "sarif" => output::json(&audit::sarif(audit))?,
            _ => audit::junit(audit)?,
        };
        Output::open(path)?.put(text.as_bytes())?;
    }
    if json {
        output::print(&output::json(audit)?)?;
    } else if on_stdout == 0 {
        output::print(&audit::text(audit, AuditDetail { all }, &context.style()))?;
    }
    Ok(exit(audit, matches))
}

fn exit(audit: &Audit, matches: &ArgMatches) -> Exit {
    match audit.is_grave() && !matches.get_flag("report-only") {
        true => Exit::Missed,
        false => Exit::Done,
    }
}

/// The last timer measurement of the same machine: with the same settings if
/// there is one, else of the same name. A store that is not there or cannot be
/// read is no reason not to audit.
fn measured(context: &Context, facts: &FactSet) -> Option<MeasuredWorst> {
    /// A recording is loaded to see whose it is: not all of a large store.
    const LOOKED_AT: usize = 20;
    let store = context.store_to_read().ok()?;
    let summaries = store.list().ok()?;
    let mut comparable = summaries
        .iter()
        .filter(|summary| summary.probe == COMPARABLE && summary.max_ns.is_some());
    let same = comparable
        .clone()
        .find(|summary| summary.fingerprint == facts.host.fingerprint);
    let hostname = facts.host.hostname.get();
    let named = || {
        comparable.by_ref().take(LOOKED_AT).find(|summary| {
            let recording = store.load(summary.id).ok();
            hostname.is_some() && recording.is_some_and(|r| r.host.hostname.get() == hostname)
        })
    };
    let summary = same.or_else(named)?;
    Some(MeasuredWorst {
        recording: summary.id.short(),
        headline: summary.headline.clone(),
        started: summary.started,
        max_ns: summary.max_ns?,
        samples: summary.recorded,
        same_settings: summary.fingerprint == facts.host.fingerprint,
    })
}
