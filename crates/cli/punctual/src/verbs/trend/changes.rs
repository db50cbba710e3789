//! `trend changes`, `trend ack`, `trend reopen`: change points of a series, and the decisions that
//! users have made about them.

use anyhow::Result;
use clap::Args;
use punctual_history::{Series, decide};
use punctual_model::ChangeDecision;
use punctual_report::{document, text};
use punctual_stats::trend::ChangePoint;

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::span::{Span, author};
use crate::output;

// Which change points.
#[derive(Args)]
pub(super) struct List {
    /// Series, or label of recordings [default: the series, if there is only one]
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
