//! `doctor`: what in this machine's state costs latency.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_checks::{AuditError, Request, Role};
use punctual_model::{Audit, CpuSet, FactSet, MeasuredWorst, Recording, ThreadRecord};
use punctual_report::document::{self, AuditDetail};
use punctual_report::{audit, text};
use punctual_store::Filter;

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
    match measured(context, &facts) {
        Ok(measured) => audit.expectation.measured = Some(measured),
        Err(why) => audit.expectation.not_measured = why,
    }
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
        let shown = document::audit(audit, AuditDetail { all });
        output::print(&text::render(&shown, &context.style()))?;
    }
    Ok(exit(audit, matches))
}

fn exit(audit: &Audit, matches: &ArgMatches) -> Exit {
    match audit.is_grave() && !matches.get_flag("report-only") {
        true => Exit::Broken,
        false => Exit::Done,
    }
}

/// The last timer measurement that can stand beside what is expected, or why there is
/// none: of this machine as it is set now, at a real-time policy, without a CPU quota.
/// A store that is not there or cannot be read is no reason not to audit.
fn measured(
    context: &Context,
    facts: &FactSet,
) -> std::result::Result<MeasuredWorst, Option<String>> {
    /// So many recordings are loaded to see how they were measured: not all of a large
    /// store.
    const LOOKED_AT: usize = 20;
    let store = context.store_to_read().map_err(|_| None)?;
    let filter = Filter {
        probe: Some(COMPARABLE.to_owned()),
        host: facts.host.hostname.get().cloned(),
        ..Filter::default()
    };
    let summaries = store.list_by(&filter).map_err(|_| None)?;
    let mut unfit = Unfit::default();
    for summary in summaries {
        let Some(max_ns) = summary.max_ns else {
            continue;
        };
        if summary.fingerprint.is_empty() || summary.fingerprint != facts.host.fingerprint {
            unfit.add("with other settings of the machine");
            continue;
        }
        if unfit.loaded == LOOKED_AT {
            break;
        }
        unfit.loaded += 1;
        let Ok(recording) = store.load(summary.id) else {
            continue;
        };
        match why_not(&recording) {
            Some(why) => unfit.add(why),
            None => {
                return Ok(MeasuredWorst {
                    recording: summary.id.short(),
                    headline: summary.headline,
                    started: summary.started,
                    max_ns,
                    samples: summary.recorded,
                    same_settings: true,
                });
            }
        }
    }
    Err(unfit.said())
}

/// Why the figures of a recording say nothing about what a real-time thread meets.
fn why_not(recording: &Recording) -> Option<&'static str> {
    let real_time = |thread: &ThreadRecord| thread.scheduling.policy.is_real_time();
    if !recording.threads.iter().all(real_time) {
        return Some("not at a real-time policy");
    }
    // Also one that was never used up: it is another machine than this one.
    (!recording.interference.groups.is_empty()).then_some("under a CPU quota")
}

/// Recordings that are not comparable, by the reason.
#[derive(Default)]
struct Unfit {
    reasons: Vec<(&'static str, usize)>,
    loaded: usize,
}

impl Unfit {
    fn add(&mut self, why: &'static str) {
        match self.reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((why, 1)),
        }
    }

    /// `3 recordings: 2 not at a real-time policy, 1 with other settings`; `None` where
    /// there is no recording.
    fn said(&self) -> Option<String> {
        let all: usize = self.reasons.iter().map(|(_, count)| count).sum();
        let each: Vec<String> = (self.reasons.iter())
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        let recordings = if all == 1 { "recording" } else { "recordings" };
        (all > 0).then(|| format!("{all} {recordings}: {}", each.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{GroupThrottle, Nanos, Policy, testing};

    use super::*;

    #[test]
    fn only_what_a_real_time_thread_met_is_comparable() {
        let recording = testing::recording(2, 2);
        assert_eq!(why_not(&recording), None);
        let mut other = recording.clone();
        other.threads[1].scheduling.policy = Policy::Other;
        assert_eq!(why_not(&other), Some("not at a real-time policy"));
        let mut under_quota = recording.clone();
        under_quota.interference.groups.push(GroupThrottle {
            group: "/build".to_owned(),
            periods: 40,
            throttled: 0,
            throttled_ns: Nanos::ZERO,
        });
        assert_eq!(why_not(&under_quota), Some("under a CPU quota"));
    }

    #[test]
    fn reasons_are_counted() {
        let mut unfit = Unfit::default();
        assert_eq!(unfit.said(), None);
        unfit.add("a");
        assert_eq!(unfit.said().unwrap(), "1 recording: 1 a");
        unfit.add("b");
        unfit.add("a");
        assert_eq!(unfit.said().unwrap(), "3 recordings: 2 a, 1 b");
    }
}
