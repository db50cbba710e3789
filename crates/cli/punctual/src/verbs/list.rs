//! `list`: lists the stored recordings.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Parser;
use jiff::Timestamp;
use punctual_report::document::{self, ListRow};
use punctual_report::text::{LongTable, TextStyle};
use punctual_store::{Filter, StoreError, Summary};

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
        let store = match context.store_to_read() {
            Ok(store) => Some(store),
            // A missing store is not an error, because it is created by the first measurement. A
            // name that the user gave may be mistyped.
            Err(error) if is_not_there(&error) && context.named_store().is_none() => None,
            Err(error) => return Err(error),
        };
        let listed = |filter: &Filter| store.as_ref().map(|store| store.list_by(filter));
        let summaries = listed(&filter).transpose()?.unwrap_or_default();
        if self.json {
            output::print_json_list(summaries.into_iter().map(Summary::into_line))?;
        } else if summaries.is_empty() {
            let all = Filter {
                without_blocks: filter.without_blocks,
                ..Filter::default()
            };
            let has_any = || matches!(listed(&Filter::default()), Some(Ok(all)) if !all.is_empty());
            let only_blocks = || !self.blocks && has_any();
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
        let rows: Vec<ListRow> = (summaries.iter().cloned())
            .map(|summary| summary.into_line().into())
            .collect();
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
