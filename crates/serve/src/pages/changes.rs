//! Change points of all series, the open worsenings first, and decisions on them.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::{Html, Redirect};
use axum::{Extension, Form};
use jiff::Timestamp;
use maud::{Markup, html};
use punctual_model::{ChangeDecision, sanitize};
use punctual_report::document;
use punctual_stats::trend::{ChangePoint, Trend, TrendVerdict};
use punctual_store::AuditLine;
use serde::Deserialize;

use super::{frame, shown};
use crate::SourceError;
use crate::access::Who;
use crate::paths::{encoded, trend_path};
use crate::problem::Problem;
use crate::state::App;
use crate::trends::{Decided, SeriesOf};
use crate::worse::{Judged, is_worse};

/// A reason is no longer than this, in bytes.
const WHY: usize = 2_000;

/// Which changes are shown.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Asked {
    /// `open`, `acknowledged`, or all.
    show: String,
    /// Only of machines whose name contains this.
    machine: String,
    /// Only of series whose name contains this.
    series: String,
    /// Which page, from 0 on.
    page: usize,
}

/// Series of a page.
const PAGE: usize = 50;
/// Decisions that are listed.
const DECISIONS: usize = 20;

const SHOWN: [(&str, &str); 3] = [
    ("", "all"),
    ("open", "not acknowledged"),
    ("acknowledged", "acknowledged"),
];

impl Asked {
    fn fits(&self, (of, judged): &Judged) -> bool {
        let has = |name: &str, part: &str| name.to_lowercase().contains(&part.to_lowercase());
        let changes = || {
            let groups = judged.iter().flat_map(|trend| &trend.groups);
            groups.flat_map(|group| &group.changes)
        };
        has(of.machine.as_deref().unwrap_or_default(), &self.machine)
            && has(&of.series, &self.series)
            && match self.show.as_str() {
                "open" => changes().any(ChangePoint::is_open_worsening),
                "acknowledged" => changes().any(|change| change.acknowledged.is_some()),
                _ => true,
            }
    }
}

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<Asked>,
) -> Result<Html<String>, Problem> {
    let (look, decided) = app
        .work(|app| {
            let decided = app.collection.audit(1_000)?;
            let Some(trends) = &app.config.trends.0 else {
                return Ok((None, decided));
            };
            let look = match app.worse.last() {
                Some(look) => look,
                None => {
                    let machines = app.collection.machines()?;
                    let judged = app.worse.judge(trends.as_ref(), &machines, Duration::ZERO);
                    judged?
                }
            };
            Ok((Some(look), decided))
        })
        .await?;
    let known = look.iter().flat_map(|look| &look.all);
    let mut all: Vec<&Judged> = known.filter(|one| asked.fits(one)).collect();
    // Stable: by name beyond that.
    all.sort_by_key(|(_, judged)| match judged {
        Ok(trend) if is_worse(trend) => 0,
        Err(_) => 1,
        Ok(trend) if trend.verdict == TrendVerdict::NotJudged => 2,
        Ok(_) => 3,
    });
    let pages = all.len().div_ceil(PAGE).max(1);
    let page = asked.page.min(pages - 1);
    let body = html! {
        h1 { "Changes" }
        @match &look {
            None => p { "No series: plan one with punctual record." },
            Some(look) => {
                (filter(&asked))
                p .faint { (all.len()) " of " (look.all.len()) " series, judged at " (minute(look.at())) " UTC or later" }
            }
        }
        @for (of, judged) in all.iter().skip(page * PAGE).take(PAGE) { (series(of, judged)) }
        (turn(&asked, page, pages))
        (decisions(&decided))
    };
    Ok(frame(&app, "Changes", "/changes", &body))
}

fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

fn filter(asked: &Asked) -> Markup {
    html! {
        form .filter method="get" action="/changes" role="search" {
            label { "Show "
                select name="show" { @for (value, name) in SHOWN {
                    option value=(value) selected[value == asked.show] { (name) }
                } }
            }
            label { "Machine " input name="machine" value=(sanitize(&asked.machine)); }
            label { "Series " input name="series" value=(sanitize(&asked.series)); }
            button { "Filter" }
        }
    }
}

fn turn(asked: &Asked, page: usize, pages: usize) -> Markup {
    let to = |page: usize| {
        let [show, machine, series] =
            [&asked.show, &asked.machine, &asked.series].map(|text| encoded(text));
        format!("/changes?show={show}&machine={machine}&series={series}&page={page}")
    };
    html! {
        @if pages > 1 {
            nav .turn aria-label="Pages of the list" {
                @if page > 0 { a rel="prev" href=(to(page - 1)) { "Previous" } }
                span { "Page " (page + 1) " of " (pages) }
                @if page + 1 < pages { a rel="next" href=(to(page + 1)) { "Next" } }
            }
        }
    }
}

/// Who decided what and when.
fn decisions(log: &[AuditLine]) -> Markup {
    let is_decision = |line: &&AuditLine| {
        let decided = [ChangeDecision::Acknowledged, ChangeDecision::Reopened];
        line.action == "note" || decided.iter().any(|one| one.to_string() == line.action)
    };
    let lines: Vec<&AuditLine> = log.iter().filter(is_decision).take(DECISIONS).collect();
    html! { @if !lines.is_empty() {
        h2 { "Latest decisions and notes" }
        div .wide { table {
            thead { tr { th { "time (UTC)" } th { "who" } th { "decision" } th { "of" } } }
            tbody { @for line in lines { tr {
                td .whole { (minute(line.at)) }
                td { (sanitize(&line.who)) }
                td { (sanitize(&line.action)) }
                td { (sanitize(&line.what)) }
            } } }
        } }
    } }
}

fn series(of: &SeriesOf, judged: &Result<Trend, SourceError>) -> Markup {
    html! {
        h2 {
            a href=(trend_path(of)) { (sanitize(&of.series)) }
            @if let Some(machine) = &of.machine { " " small .faint { (sanitize(machine)) } }
        }
        @match judged {
            Err(why) => p .warn { (sanitize(&why.to_string())) },
            Ok(trend) => {
                p { (sanitize(&trend.sentence)) }
                @if trend.groups.iter().any(|group| !group.changes.is_empty()) {
                    (shown(&[document::changes(trend)]))
                }
                @for change in trend.groups.iter().flat_map(|group| &group.changes) {
                    (form(of, change))
                }
            }
        }
    }
}

/// What can be decided of a change point, if anything.
fn form(of: &SeriesOf, change: &ChangePoint) -> Markup {
    let (word, decision) = match (&change.acknowledged, change.is_open_worsening()) {
        (Some(_), _) => ("Reopen", "reopened"),
        (None, true) => ("Acknowledge", "acknowledged"),
        (None, false) => return html! {},
    };
    html! {
        form .filter method="post" action="/changes" {
            input type="hidden" name="series" value=(of.series);
            input type="hidden" name="machine" value=(of.machine.as_deref().unwrap_or_default());
            input type="hidden" name="change" value=(change.id);
            input type="hidden" name="decision" value=(decision);
            label { code { (sanitize(&change.id)) } " because "
                input name="why" required maxlength=(WHY) size="40";
            }
            button { (word) }
        }
    }
}

/// A decision, as a form sends it.
#[derive(Deserialize)]
pub(super) struct Decision {
    series: String,
    machine: String,
    change: String,
    decision: ChangeDecision,
    why: String,
}

pub(super) async fn decide(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Form(form): Form<Decision>,
) -> Result<Redirect, Problem> {
    if form.why.trim().is_empty() || form.why.len() > WHY {
        let message = format!("a decision needs a reason of at most {WHY} bytes");
        return Err(Problem::bad_request(message));
    }
    app.work(move |app| {
        let trends = app.config.trends.0.as_ref();
        let trends = trends.ok_or_else(|| Problem::not_found("no series are served here"))?;
        let of = SeriesOf {
            series: form.series,
            machine: Some(form.machine).filter(|name| !name.is_empty()),
        };
        let decided = Decided {
            change: form.change,
            decision: form.decision,
            who: who.name().to_owned(),
            why: form.why,
        };
        trends.decide(&of, &decided)?;
        app.worse.judge_again(trends.as_ref(), &of);
        Ok(app.collection.log(&AuditLine {
            at: Timestamp::now(),
            who: decided.who,
            action: decided.decision.to_string(),
            what: format!("{} of {}: {}", decided.change, of.series, decided.why),
        })?)
    })
    .await?;
    Ok(Redirect::to("/changes"))
}
