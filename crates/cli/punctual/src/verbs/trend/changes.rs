//! `trend changes`, `trend ack`, `trend reopen`: change points of a series, and the decisions that
//! users have made about them.

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use punctual_model::{ChangeAnnotation, ChangeDecision, RecordingId};
use punctual_report::{document, text};
use punctual_stats::trend::{ChangePoint, Group, Trend};
use punctual_store::SeriesStore;

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verbs::looking_back::{Series, Span, author, figure};

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
        let series = Series::load(
            &context.store_to_read()?,
            self.series.as_deref(),
            &self.span,
        )?;
        let mut trend = series.trend(&self.span);
        if self.open {
            let groups = trend.groups.iter_mut();
            groups.for_each(|group| group.changes.retain(ChangePoint::is_open_worsening));
        }
        if self.json {
            let all = trend.groups.iter().flat_map(|group| &group.changes);
            output::print(&output::json(&all.collect::<Vec<_>>())?)?;
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
        let series = Series::load(&store, self.series.as_deref(), &self.span)?;
        let trend = series.trend(&self.span);
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

/// Stores a decision about the change point with this name, or about the only one whose name begins
/// with it. Returns the full name.
pub(in crate::verbs) fn decide(
    store: &dyn SeriesStore,
    trend: &Trend,
    name: &str,
    decision: ChangeDecision,
    who: String,
    why: String,
) -> Result<String> {
    let (group, change) = found(trend, name)?;
    let recording = match (decision, &change.acknowledged) {
        (ChangeDecision::Reopened, None) => {
            let text = format!("{} is not acknowledged", change.id);
            return Err(UsageError(text).into());
        }
        // The acknowledgement may refer to a neighbouring run.
        (ChangeDecision::Reopened, Some(known)) => known.recording,
        (ChangeDecision::Acknowledged, _) => change.recording,
    };
    store.put_change_mark(&ChangeAnnotation {
        id: RecordingId::new(),
        series: trend.series.clone(),
        figure: figure(group, change),
        recording,
        decision,
        who,
        why,
        at: Timestamp::now(),
    })?;
    Ok(change.id.clone())
}

/// Returns the change point with this name, or the only one whose name begins with it.
fn found<'a>(trend: &'a Trend, name: &str) -> Result<(&'a Group, &'a ChangePoint)> {
    let all: Vec<(&Group, &ChangePoint)> = (trend.groups.iter())
        .flat_map(|group| group.changes.iter().map(move |change| (group, change)))
        .collect();
    if let Some(exact) = all.iter().find(|(_, change)| change.id == name) {
        return Ok(*exact);
    }
    let begin = all.iter().filter(|(_, change)| change.id.starts_with(name));
    let refused = match begin.collect::<Vec<_>>().as_slice() {
        [one] => return Ok(**one),
        [] => {
            let known: Vec<&str> = all.iter().map(|(_, change)| change.id.as_str()).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            format!(
                "{} has no change point '{name}' in these runs; its change points: {known}",
                trend.series
            )
        }
        _ => format!("several change points begin with '{name}': pass a longer part of the ID"),
    };
    Err(UsageError(refused).into())
}
