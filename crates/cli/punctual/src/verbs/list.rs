//! `list`: lists the stored recordings.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Parser;
use jiff::Timestamp;
use punctual_model::{Completion, Nanos, Origin, Outcome, RecordingId, Unknown};
use punctual_report::document::{self, ListRow};
use punctual_report::text::{LongTable, TextStyle};
use punctual_store::{Filter, StoreError, Summary};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::options::since;
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<List>("list");

/// List the recordings, newest first
#[derive(Parser)]
struct List {
    /// Only recordings of this probe
    #[arg(long, value_name = "NAME")]
    probe: Option<String>,
    /// Only recordings of this machine
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Only runs of this series
    #[arg(long, value_name = "SERIES")]
    series: Option<String>,
    /// Only recordings whose label contains this text
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Only recordings since this time: 2026-11-03, an RFC 3339 time, or 24h
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only the newest N
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Include the blocks of experiments
    #[arg(long)]
    blocks: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Run for List {
    fn run(self, context: &Context) -> Result<Exit> {
        let filter = Filter {
            probe: self.probe,
            host: self.host,
            series: self.series,
            label: self.label,
            since: self.since,
            limit: self.limit,
            completion: None,
            without_blocks: !self.blocks,
        };
        let summaries = match context.store_to_read() {
            Ok(store) => store.list_by(&filter)?,
            // A missing store is not an error, because it is created by the first measurement.
            Err(error) if is_not_there(&error) => Vec::new(),
            Err(error) => return Err(error),
        };
        if self.json {
            output::print_json_list(summaries.into_iter().map(as_json))?;
        } else if summaries.is_empty() {
            let all = Filter {
                without_blocks: filter.without_blocks,
                ..Filter::default()
            };
            let only_blocks =
                || !self.blocks && context.listed().is_ok_and(|listed| !listed.is_empty());
            output::note(match filter == all {
                true if only_blocks() => {
                    "the store has only blocks of experiments: show them \
                    with punctual list --blocks"
                }
                true => "no recordings yet: run punctual measure timer",
                false => "no recording matches these filters",
            });
        } else {
            print(&summaries, context.list_style())?;
        }
        Ok(Exit::Done)
    }
}

/// Number of rows to lay out at once, so that the cells of a list of ten years are not all in
/// memory at the same time.
const PAGE: usize = 512;

fn print(summaries: &[Summary], style: TextStyle) -> Result<()> {
    let hosts: BTreeSet<&str> = (summaries.iter())
        .filter_map(|summary| summary.host.as_deref())
        .collect();
    let page_of = |summaries: &[Summary]| {
        let rows: Vec<ListRow> = summaries.iter().map(as_row).collect();
        document::list_page(&rows, hosts.len() > 1)
    };
    let mut table = LongTable::new(style);
    for page in summaries.chunks(PAGE) {
        table.measure(&page_of(page));
    }
    for page in summaries.chunks(PAGE) {
        output::print(&table.render(&page_of(page)))?;
    }
    if let Some(page) = summaries.chunks(PAGE).next() {
        output::print(&table.end(&page_of(page)))?;
    }
    Ok(())
}

fn is_not_there(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::NotThere { .. }))
}

fn as_row(summary: &Summary) -> ListRow {
    ListRow {
        id: summary.id.short(),
        anchor: None,
        started: summary.knows(Unknown::Started).then_some(summary.started),
        headline: summary.headline.clone(),
        duration: (summary.knows(Unknown::Duration)).then_some(summary.duration_ns),
        recorded: summary.recorded,
        missed: summary.knows(Unknown::Missed).then_some(summary.missed),
        max: summary.max_ns,
        completion: summary.completion,
        outcome: summary.outcome,
        host: summary.host.clone(),
        label: summary.label.clone(),
    }
}

/// A recording in the list, as JSON.
#[derive(Serialize)]
pub(super) struct ListedJson {
    /// The recording.
    id: RecordingId,
    /// Its label; null if it has none.
    label: Option<String>,
    /// The probe that measured.
    probe: String,
    /// A summary of the measurement on one line.
    headline: String,
    /// Its start; null if an imported file does not contain it.
    started: Option<Timestamp>,
    /// Its length; null if an imported file does not contain it.
    duration_ns: Option<Nanos>,
    /// Whether it ended as planned.
    completion: Completion,
    /// Whether its requirement was met.
    outcome: Outcome,
    /// Samples of all threads.
    recorded: u64,
    /// Missed periods of all threads; null if an imported file does not contain them.
    missed: Option<u64>,
    /// The largest latency; null if there are no samples.
    max_ns: Option<Nanos>,
    /// The 99th percentile; null if there are no samples.
    p99_ns: Option<Nanos>,
    /// The name of the machine; null if it is unknown.
    host: Option<String>,
    /// The fingerprint of the machine.
    fingerprint: String,
    /// Whether the samples were kept.
    samples: bool,
    /// The source of an imported recording; null if punctual measured it.
    origin: Option<Origin>,
}

punctual_model::to_json!(ListedJson);

fn as_json(summary: Summary) -> ListedJson {
    let knows = |what| summary.knows(what);
    ListedJson {
        started: knows(Unknown::Started).then_some(summary.started),
        duration_ns: knows(Unknown::Duration).then_some(summary.duration_ns),
        missed: knows(Unknown::Missed).then_some(summary.missed),
        id: summary.id,
        label: summary.label,
        probe: summary.probe,
        headline: summary.headline,
        completion: summary.completion,
        outcome: summary.outcome,
        recorded: summary.recorded,
        max_ns: summary.max_ns,
        p99_ns: summary.p99_ns,
        host: summary.host,
        fingerprint: summary.fingerprint,
        samples: summary.samples,
        origin: summary.origin,
    }
}
