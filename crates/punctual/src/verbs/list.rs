//! `list`: the recordings that are kept.

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_model::Unknown;
use punctual_report::text::{self, ListRow};
use punctual_store::{StoreError, Summary};
use serde_json::json;

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("list")
        .about("List the recordings, the newest first")
        .arg(
            Arg::new("number")
                .short('n')
                .long("number")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .help("Only the newest N"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("As JSON"),
        )
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let mut summaries = match context.store_to_read() {
        Ok(store) => store.list()?,
        // Before the first measurement there is no store, and that is no error.
        Err(error) if is_not_there(&error) => Vec::new(),
        Err(error) => return Err(error),
    };
    if let Some(number) = matches.get_one::<usize>("number") {
        summaries.truncate(*number);
    }
    if matches.get_flag("json") {
        let rows: Vec<_> = summaries.iter().map(as_json).collect();
        output::print(&output::json(&rows)?)?;
    } else if summaries.is_empty() {
        output::note("no recordings yet: make one with punctual measure timer");
    } else {
        let rows: Vec<ListRow> = summaries.iter().map(as_row).collect();
        output::print(&text::list(&rows, &context.style()))?;
    }
    Ok(Exit::Done)
}

fn is_not_there(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::NotThere { .. }))
}

fn as_row(summary: &Summary) -> ListRow {
    ListRow {
        id: summary.id.short(),
        started: summary.knows(Unknown::Started).then_some(summary.started),
        headline: summary.headline.clone(),
        duration: (summary.knows(Unknown::Duration)).then_some(summary.duration_ns),
        recorded: summary.recorded,
        missed: summary.knows(Unknown::Missed).then_some(summary.missed),
        max: summary.max_ns,
        completion: summary.completion,
        outcome: summary.outcome,
        label: summary.label.clone(),
    }
}

fn as_json(summary: &Summary) -> serde_json::Value {
    // Null where the source of an import does not say.
    let known = |what, value: serde_json::Value| summary.knows(what).then_some(value);
    json!({
        "id": summary.id,
        "label": summary.label,
        "probe": summary.probe,
        "headline": summary.headline,
        "started": known(Unknown::Started, json!(summary.started)),
        "duration_ns": known(Unknown::Duration, json!(summary.duration_ns)),
        "completion": summary.completion,
        "outcome": summary.outcome,
        "recorded": summary.recorded,
        "missed": known(Unknown::Missed, json!(summary.missed)),
        "max_ns": summary.max_ns,
        "p99_ns": summary.p99_ns,
        "fingerprint": summary.fingerprint,
        "samples": summary.samples,
        "origin": summary.origin,
    })
}
