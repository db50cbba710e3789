//! The late wake-ups of a running application.

use std::io::IsTerminal;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgMatches, value_parser};
use punctual_host::Host;
use punctual_model::{Completion, Nanos, Recording};
use punctual_report::{document, text};
use punctual_session::{Level, ObserveRequest, RunLength, Targets, observe};

use super::timelines;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, note};
use crate::verbs::{measure, parsed};

/// Default threshold.
const THRESHOLD: &str = "100us";

const HEADING: &str = "A running application";

pub(super) fn options() -> [Arg; 7] {
    let option = |name: &'static str| Arg::new(name).long(name).help_heading(HEADING);
    [
        option("pid")
            .value_name("PID")
            .value_parser(value_parser!(u32).range(1..))
            .value_delimiter(',')
            .conflicts_with_all(["recording", "outlier", "all-events"])
            .help("Watch these processes with all threads, or single threads"),
        option("comm")
            .value_name("NAME")
            .conflicts_with_all(["pid", "recording", "outlier", "all-events"])
            .help("Watch threads with this name, and processes with all threads"),
        option("threshold")
            .value_name("TIME")
            .value_parser(parsed::<Nanos>())
            .help(format!(
                "Explain each wait longer than this [default: {THRESHOLD}]"
            )),
        option("duration")
            .short('D')
            .value_name("TIME")
            .value_parser(ValueParser::new(measure::run_length))
            .help("Duration, or forever; ends with the application [default: 60s]"),
        option("events")
            .value_name("WHICH")
            .value_parser(PossibleValuesParser::new(["usual", "full"]))
            .help("Trace events: usual, or full with more detail and overhead [default: usual]"),
        option("label")
            .value_name("TEXT")
            .help("Label of the recording"),
        option("quiet")
            .short('q')
            .action(clap::ArgAction::SetTrue)
            .help("Disable the live view"),
    ]
}

/// The threads to watch; `None` for a recording.
pub(super) fn targets(matches: &ArgMatches) -> Result<Option<Targets>> {
    if let Some(pids) = matches.get_many::<u32>("pid") {
        return Ok(Some(Targets::Pids(pids.copied().collect())));
    }
    if let Some(comm) = matches.get_one::<String>("comm") {
        return Ok(Some(Targets::Comm(comm.clone())));
    }
    let only = ["threshold", "duration", "events", "label"];
    match only.iter().find(|name| matches.contains_id(name)) {
        Some(name) => Err(UsageError(format!(
            "--{name} is for a running application: give --pid or --comm"
        ))
        .into()),
        None => Ok(None),
    }
}

pub(super) fn run(matches: &ArgMatches, context: &Context, targets: Targets) -> Result<Exit> {
    let threshold = match matches.get_one::<Nanos>("threshold") {
        Some(threshold) => *threshold,
        None => THRESHOLD.parse()?,
    };
    let request = ObserveRequest {
        targets,
        threshold,
        level: match matches.get_one::<String>("events").map(String::as_str) {
            Some("full") => Level::Full,
            _ => Level::Default,
        },
        length: matches
            .get_one::<RunLength>("duration")
            .copied()
            .unwrap_or(RunLength::For(Nanos::from_secs(60))),
        label: matches.get_one::<String>("label").cloned(),
        command_line: std::env::args().collect(),
    };
    let store = context.store_if_wanted()?;
    let stop = measure::stop_flag()?;
    let mut view = crate::live::view(matches.get_flag("quiet"));
    let outcome = observe(
        &request,
        &Host::live(),
        store.as_ref(),
        view.as_mut(),
        &stop,
    )?;
    show(&outcome.recording, matches, context, store.as_ref())?;
    if let Some(error) = outcome.store_error {
        return Err(error.into());
    }
    Ok(match outcome.recording.completion {
        Completion::Stopped => Exit::Interrupted,
        _ => Exit::Done,
    })
}

fn show(
    recording: &Recording,
    matches: &ArgMatches,
    context: &Context,
    store: Option<&punctual_store::Store>,
) -> Result<()> {
    if matches.get_flag("json") {
        return output::print(&output::json(recording)?);
    }
    let style = context.style();
    output::print(&text::render(&document::recording(recording), &style))?;
    let Some(store) = store else {
        return Ok(());
    };
    if let Some(worst) = timelines::worst(store, recording)? {
        output::print(&format!(
            "\n{}",
            text::render(&document::outlier(&worst, false), &style)
        ))?;
    }
    if std::io::stdout().is_terminal() {
        let id = recording.id.short();
        note(&format!("the others: punctual explain {id} --outlier N"));
    }
    Ok(())
}
