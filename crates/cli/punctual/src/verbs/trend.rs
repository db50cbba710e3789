//! `trend`: the runs of a series over time, judged.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::Parser;
use punctual_model::{Nanos, RecordingId};
use punctual_report::{document, text};
use punctual_stats::trend::{Trend, TrendVerdict};
use punctual_store::{Filter, Store};

use super::looking_back::{self, Series, Span};
use super::{Run, Verb, measure, watching};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb::of::<TrendOf>("trend");

/// How often the store is looked at for a new run.
const LOOK: Nanos = Nanos::from_secs(1);

/// Show a series over time: levels, change points, spikes, holes
///
/// A series is a name of the plan of punctual monitor; other names are labels of
/// recordings. Of each load and class of CPUs three figures are followed: the rate of late
/// periods (above several thresholds), p99 and p50. A step is listed where it is larger
/// than levels that wander from run to run, drift or follow seasons make it.
#[derive(Parser)]
#[command(after_help = crate::exit::OF_TREND)]
struct TrendOf {
    /// Series, or label of recordings [default: the only series]
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
        let store = context.store_to_read()?;
        let (mut trend, mut known) = self.show(&store, context)?;
        if self.follow {
            let stop = measure::stop_flag()?;
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
}

impl TrendOf {
    /// Also returns the newest run that it can be about.
    fn show(&self, store: &Store, context: &Context) -> Result<(Trend, Option<RecordingId>)> {
        let name = looking_back::name_of(store, self.series.as_deref())?;
        // Before runs are read: one that ends meanwhile is a new one.
        let newest = newest(store, &name)?;
        let series = Series::load(store, Some(&name), &self.span)?;
        let trend = series.trend(&self.span);
        match self.json {
            true => output::print(&output::json(&trend)?)?,
            false => {
                let next = document::acknowledge(&trend, context.named_store());
                let page = document::trend(&trend, next);
                output::print(&text::render(&page, &context.style()))?;
            }
        }
        Ok((trend, newest))
    }
}

/// `false`: it was stopped.
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

/// The newest run that has ended.
fn newest(store: &Store, series: &str) -> Result<Option<RecordingId>> {
    let is_planned = store.series()?.iter().any(|epoch| epoch.name == series);
    let name = Some(series.to_owned());
    let filter = match is_planned {
        true => Filter {
            series: name,
            limit: Some(2),
            ..Filter::default()
        },
        false => Filter {
            label: name,
            limit: Some(2),
            ..Filter::default()
        },
    };
    let listed = store.list_by(&filter)?;
    let ended = listed
        .iter()
        .find(|one| one.completion != punctual_model::Completion::Running);
    Ok(ended.map(|one| one.id))
}
