//! `trend changes`, `trend ack`, `trend reopen`: change points of a series, and the decisions that
//! users have made about them.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;
use punctual_history::{Series, decide};
use punctual_model::ChangeDecision;
use punctual_report::{document, text};
use punctual_stats::trend::{ChangePoint, TrendQuery};
use punctual_store::Store;

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::span::{Span, author};
use crate::output;

// Which change points.
#[derive(Args)]
pub(super) struct List {
    /// Series, or label of recordings [default: the only series; with --open, all on all machines]
    #[arg(value_name = "SERIES")]
    series: Option<String>,
    #[command(flatten)]
    span: Span,
    /// Only open regressions: worse, and not acknowledged
    #[arg(long)]
    open: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

// A decision.
#[derive(Args)]
pub(super) struct Decide {
    /// Change point, as listed
    #[arg(value_name = "CHANGE")]
    change: String,
    /// Reason
    #[arg(value_name = "WHY")]
    why: String,
    /// Series, or label of recordings [default: the series, if there is only one]
    #[arg(long, value_name = "SERIES")]
    series: Option<String>,
    /// Name of the person who decides [default: the user]
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    #[command(flatten)]
    span: Span,
}

impl List {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let query = self.span.query();
        if self.open && self.series.is_none() {
            let places = places(&context.store_to_read()?, query.host.as_deref())?;
            if places.len() > 1 {
                return self.everywhere(&places, context);
            }
        }
        let series = Series::load(&context.store_to_read()?, self.series.as_deref(), &query)?;
        let mut trend = series.trend(&query);
        if self.open {
            let groups = trend.groups.iter_mut();
            groups.for_each(|group| group.changes.retain(ChangePoint::is_open_worsening));
        }
        if self.json {
            let all = trend.groups.iter().flat_map(|group| &group.changes);
            output::print(&output::json(&all.collect::<Vec<_>>()))?;
            return Ok(Exit::Done);
        }
        let judged = trend.groups.iter().any(|group| group.judged);
        match (
            trend.groups.iter().all(|group| group.changes.is_empty()),
            judged,
        ) {
            (true, true) if self.open => {
                output::note(&format!("no open regression in {}", trend.series))
            }
            (true, true) => output::note(&format!("no change points in {}", trend.series)),
            (true, false) => output::note(&trend.sentence),
            (false, _) => {
                let page = document::changes(&trend);
                output::print(&text::render(&page, &context.style()))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Returns each series with each of its machines.
fn places(store: &Store, host: Option<&str>) -> Result<BTreeSet<(String, String)>> {
    let epochs = store.series()?.into_iter();
    let places = epochs.map(|epoch| {
        let machine = epoch.host.unwrap_or(epoch.machine);
        (epoch.name, machine)
    });
    Ok(places
        .filter(|(_, machine)| host.is_none_or(|host| host == machine))
        .collect())
}

impl List {
    /// Prints the open regressions of several series or machines.
    fn everywhere(&self, places: &BTreeSet<(String, String)>, context: &Context) -> Result<Exit> {
        if self.json {
            let text = "--json with several series or machines: pass SERIES and --host";
            return Err(UsageError(text.to_owned()).into());
        }
        let store = context.store_to_read()?;
        let mut found = 0;
        for (name, machine) in places {
            let query = TrendQuery {
                host: Some(machine.clone()),
                ..self.span.query()
            };
            let mut trend = Series::load(&store, Some(name), &query)?.trend(&query);
            let groups = trend.groups.iter_mut();
            groups.for_each(|group| group.changes.retain(ChangePoint::is_open_worsening));
            let open: usize = trend.groups.iter().map(|group| group.changes.len()).sum();
            if open == 0 {
                continue;
            }
            if found > 0 {
                output::print("\n")?;
            }
            found += open;
            let mut page = document::changes(&trend);
            page.title = format!("{name} on {machine}");
            output::print(&text::render(&page, &context.style()))?;
        }
        if found == 0 {
            output::note("no open regression in any series on any machine");
        }
        Ok(Exit::Done)
    }
}

impl Decide {
    pub(super) fn run(self, context: &Context, decision: ChangeDecision) -> Result<Exit> {
        if self.why.trim().is_empty() {
            return Err(UsageError("a decision needs a reason: pass WHY".to_owned()).into());
        }
        let store = context.store_to_change()?;
        let query = self.span.query();
        let series = Series::load(&store, self.series.as_deref(), &query)?;
        let trend = series.trend(&query);
        let name = decide(
            &store,
            &trend,
            &self.change,
            decision,
            author(self.who)?,
            self.why,
        )?;
        output::note(&format!("{name} {decision}"));
        Ok(Exit::Done)
    }
}
