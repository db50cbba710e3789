//! `trend`: judges the runs of a series over time, and stores decisions and notes about them.

pub(super) mod changes;
mod notes;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use punctual_history::Series;
use punctual_model::{ChangeDecision, Nanos, RecordingId};
use punctual_report::{document, text};
use punctual_stats::trend::{Trend, TrendVerdict};
use punctual_store::{Filter, Store};

use crate::context::Context;
use crate::exit::Exit;
use crate::options::span::Span;
use crate::output;
use crate::running::{stop_flag, watching};
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<TrendOf>("trend");

/// Interval at which the store is polled for a new run.
const LOOK: Nanos = Nanos::from_secs(1);

/// Show whether a series got better or worse over time
///
/// A series is a name in the plan of punctual monitor, or a label that recordings share. For each
/// load and class of CPUs, it follows three figures: the rate of late periods (above several
/// thresholds), p99 and p50. A step is reported only if it is larger than differences between runs,
/// drift and seasonal changes can explain.
#[derive(Parser)]
#[command(after_help = crate::exit::OF_TREND, args_conflicts_with_subcommands = true)]
#[command(disable_help_subcommand = true)]
struct TrendOf {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Subcommand)]
enum Other {
    /// List change points of a series, and machine changes at these times
    Changes(changes::List),
    /// Acknowledge a change point: it no longer counts as a regression
    Ack(changes::Decide),
    /// Reopen an acknowledged change point: it counts as a regression again
    Reopen(changes::Decide),
    /// Add, list or delete notes on recordings and times
    #[command(subcommand, disable_help_subcommand = true)]
    Note(notes::Notes),
}

// Selection of the series, and format of the output.
#[derive(Args)]
struct Shown {
    /// Series, or label of recordings [default: the series, if there is only one]
    #[arg(value_name = "SERIES")]
    series: Option<String>,
    #[command(flatten)]
    span: Span,
    /// Judge again after each new run, until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Run for TrendOf {
    fn run(self, context: &Context) -> Result<Exit> {
        match self.other {
            None => self.shown.run(context),
            Some(Other::Changes(list)) => list.run(context),
            Some(Other::Ack(decide)) => decide.run(context, ChangeDecision::Acknowledged),
            Some(Other::Reopen(decide)) => decide.run(context, ChangeDecision::Reopened),
            Some(Other::Note(notes)) => notes.run(context),
        }
    }
}

impl Shown {
    fn run(self, context: &Context) -> Result<Exit> {
        let store = context.store_to_read()?;
        let (mut trend, mut known) = self.show(&store, context)?;
        if self.follow {
            let stop = stop_flag()?;
            while wait_for_a_run(&store, (&trend.series, known), &stop)? {
                (trend, known) = self.show(&store, context)?;
            }
        }
        Ok(match trend.verdict {
            TrendVerdict::Worse => Exit::Broken,
            TrendVerdict::NotJudged | TrendVerdict::Drifting => Exit::NotProven,
            TrendVerdict::NoWorsening => Exit::Done,
        })
    }

    /// Shows the trend. Also returns the newest run that the trend can include.
    fn show(&self, store: &Store, context: &Context) -> Result<(Trend, Option<RecordingId>)> {
        let name = punctual_history::name_of(store, self.series.as_deref())?;
        // Find the newest run before the runs are loaded. Then a run that ends in the meantime
        // counts as new.
        let newest = newest(store, &name)?;
        let query = self.span.query();
        let trend = Series::load(store, Some(&name), &query)?.trend(&query);
        if self.json {
            output::print(&output::json(&trend))?
        } else {
            let next = document::acknowledge(&trend, context.named_store());
            let page = document::trend(&trend, next);
            output::print(&text::render(&page, &context.style()))?;
        }
        Ok((trend, newest))
    }
}

/// Waits for a new run. Returns `false` if `stop` was set.
fn wait_for_a_run(
    store: &Store,
    (series, known): (&str, Option<RecordingId>),
    stop: &AtomicBool,
) -> Result<bool> {
    while !stop.load(Ordering::Relaxed) {
        watching::wait(Some(LOOK), stop, || Ok(()))?;
        if newest(store, series)? != known {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the newest run that has ended.
fn newest(store: &Store, series: &str) -> Result<Option<RecordingId>> {
    let is_planned = store.series()?.iter().any(|epoch| epoch.name == series);
    let name = Some(series.to_owned());
    let filter = if is_planned {
        Filter {
            series: name,
            limit: Some(2),
            ..Filter::default()
        }
    } else {
        Filter {
            label: name,
            limit: Some(2),
            ..Filter::default()
        }
    };
    let listed = store.list_by(&filter)?;
    let ended = listed
        .iter()
        .find(|one| one.completion != punctual_model::Completion::Running);
    Ok(ended.map(|one| one.id))
}
