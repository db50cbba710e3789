//! Change points of all series, open regressions first, and decisions on them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::{Html, Redirect};
use axum::{Extension, Form};
use jiff::Timestamp;
use maud::{Markup, html};
use punctual_model::{ChangeDecision, Nanos, sanitize};
use punctual_report::document;
use punctual_stats::trend::{ChangePoint, Trend, TrendVerdict};
use punctual_store::AuditLine;
use serde::Deserialize;

use super::{frame, shown};
use crate::SourceError;
use crate::access::Who;
use crate::look::{self, threshold};
use crate::paths::{encoded, trend_path};
use crate::problem::Problem;
use crate::state::{App, Inner};
use crate::trends::{Decided, SeriesOf, Trends};
use crate::worse::{Judged, JudgedSeries, is_worse};

/// Maximum length of a reason, in bytes.
const WHY: usize = 2_000;

/// The filter of the page.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    /// `open`, `acknowledged`, or empty for all.
    show: String,
    /// Only machines whose name contains this.
    machine: String,
    /// Only series whose name contains this.
    series: String,
    /// The threshold above which a period is late, such as `100us`. If empty, it depends on the
    /// runs.
    threshold: String,
    /// The page, from 0.
    page: usize,
}

/// Number of series per page.
const PAGE: usize = 50;
/// Maximum number of series to judge with another threshold at once.
const ABOVE: usize = 20;
/// Number of decisions to list.
const DECISIONS: usize = 20;

const SHOWN: [(&str, &str); 3] = [
    ("", "all"),
    ("open", "not acknowledged"),
    ("acknowledged", "acknowledged"),
];

impl PageQuery {
    fn is_of(&self, of: &SeriesOf) -> bool {
        let has = |name: &str, part: &str| name.to_lowercase().contains(&part.to_lowercase());
        has(of.machine.as_deref().unwrap_or_default(), &self.machine)
            && has(&of.series, &self.series)
    }

    fn fits(&self, judged: &Judged) -> bool {
        let changes = || {
            let groups = judged.trend.iter().flat_map(|trend| &trend.groups);
            groups.flat_map(|group| &group.changes)
        };
        self.is_of(&judged.of)
            && match self.show.as_str() {
                "open" => changes().any(ChangePoint::is_open_worsening),
                "acknowledged" => changes().any(|change| change.acknowledged.is_some()),
                _ => true,
            }
    }
}

/// The series of the page.
enum Shown {
    /// The latest verdicts, which are computed in the background.
    Last(Arc<JudgedSeries>),
    /// Verdicts that are computed for this page, by the late periods above one threshold.
    Above(Vec<Judged>),
}

impl Shown {
    fn all(&self) -> &[Judged] {
        match self {
            Self::Last(last) => &last.all,
            Self::Above(all) => all,
        }
    }
}

fn last(app: &Inner, trends: &dyn Trends) -> Result<Arc<JudgedSeries>, Problem> {
    match app.worse.last() {
        Some(look) => Ok(look),
        None => {
            let machines = app.collection.machines()?;
            Ok(app.worse.judge(trends, &machines, Duration::ZERO)?)
        }
    }
}

/// Judges the selected series with another threshold. Judging takes time, so there must not be
/// many.
fn judged_above(
    trends: &dyn Trends,
    asked: &PageQuery,
    above: Nanos,
) -> Result<Vec<Judged>, Problem> {
    let mut all = trends.series()?;
    all.retain(|of| asked.is_of(of));
    if all.len() > ABOVE {
        let message = format!(
            "{} series match, but with a threshold, at most {ABOVE} series can be analysed: \
             select a machine or series",
            all.len()
        );
        return Err(Problem::bad_request(message));
    }
    let judged = all.into_iter().map(|of| Judged {
        trend: look::above(trends, &of, above),
        proof: Ok(None),
        of,
    });
    Ok(judged.collect())
}

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<PageQuery>,
) -> Result<Html<String>, Problem> {
    let threshold = threshold(&asked.threshold)?;
    let (look, decided, asked) = app
        .work(move |app| {
            let decided = app.collection.audit(1_000)?;
            let look = match (&app.config.trends.0, threshold) {
                (None, _) => None,
                (Some(trends), None) => Some(Shown::Last(last(app, trends.as_ref())?)),
                (Some(trends), Some(above)) => {
                    Some(Shown::Above(judged_above(trends.as_ref(), &asked, above)?))
                }
            };
            Ok((look, decided, asked))
        })
        .await?;
    let known = look.iter().flat_map(Shown::all);
    let mut all: Vec<&Judged> = known.filter(|one| asked.fits(one)).collect();
    // The sort is stable, so equal entries stay sorted by name.
    all.sort_by_key(|one| match &one.trend {
        Ok(trend) if is_worse(trend) => 0,
        Err(_) => 1,
        Ok(trend) => match trend.verdict {
            TrendVerdict::Drifting => 2,
            TrendVerdict::NotJudged => 3,
            _ => 4,
        },
    });
    let pages = all.len().div_ceil(PAGE).max(1);
    let page = asked.page.min(pages - 1);
    let body = html! {
        h1 { "Changes" }
        @match &look {
            None => p { "No series found. Plan a series with punctual monitor." },
            Some(look) => {
                (filter(&asked))
                p .faint { (all.len()) " of " (look.all().len()) " series, " @match look {
                    Shown::Last(last) => { "judged at " (minute(last.at())) " UTC or later" },
                    Shown::Above(_) => { "periods later than " (sanitize(&asked.threshold)) " counted" },
                } }
            }
        }
        @for one in all.iter().skip(page * PAGE).take(PAGE) { (series(&one.of, &one.trend, &asked.threshold)) }
        (turn(&asked, page, pages))
        (decisions(&decided))
    };
    Ok(frame(&app, "Changes", "/changes", &body))
}

fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

fn filter(asked: &PageQuery) -> Markup {
    html! {
        form .filter method="get" action="/changes" role="search" {
            label { "Show "
                select name="show" { @for (value, name) in SHOWN {
                    option value=(value) selected[value == asked.show] { (name) }
                } }
            }
            label { "Machine " input name="machine" value=(sanitize(&asked.machine)); }
            label { "Series " input name="series" value=(sanitize(&asked.series)); }
            label { "Count later than "
                input name="threshold" value=(sanitize(&asked.threshold)) placeholder="100us" size="8";
            }
            button { "Filter" }
        }
    }
}

/// Returns the path to the change points of a machine's series.
fn changes_path(series: &str, machine: &str, threshold: &str) -> String {
    let [series, machine, threshold] = [series, machine, threshold].map(encoded);
    format!("/changes?series={series}&machine={machine}&threshold={threshold}")
}

/// Returns the path to a series over time, with this threshold if there is one.
fn above_path(of: &SeriesOf, threshold: &str) -> String {
    match threshold.trim() {
        "" => trend_path(of),
        text => format!("{}&threshold={}", trend_path(of), encoded(text)),
    }
}

fn turn(asked: &PageQuery, page: usize, pages: usize) -> Markup {
    let to = |page: usize| {
        let path = changes_path(&asked.series, &asked.machine, &asked.threshold);
        format!("{path}&show={}&page={page}", encoded(&asked.show))
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

/// Returns the list of decisions with user and time.
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

fn series(of: &SeriesOf, judged: &Result<Trend, SourceError>, threshold: &str) -> Markup {
    html! {
        h2 {
            a href=(above_path(of, threshold)) { (sanitize(&of.series)) }
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
                    (form(of, change, threshold))
                }
            }
        }
    }
}

/// Returns the form for deciding on a change point. It is empty if there is nothing to decide.
fn form(of: &SeriesOf, change: &ChangePoint, threshold: &str) -> Markup {
    let (word, decision) = match (&change.acknowledged, change.is_open_worsening()) {
        (Some(_), _) => ("Reopen", "reopened"),
        (None, true) => ("Acknowledge", "acknowledged"),
        (None, false) => return html! {},
    };
    html! {
        form .filter method="post" action="/changes" {
            input type="hidden" name="series" value=(of.series);
            input type="hidden" name="machine" value=(of.machine.as_deref().unwrap_or_default());
            input type="hidden" name="threshold" value=(threshold);
            input type="hidden" name="change" value=(change.id);
            input type="hidden" name="decision" value=(decision);
            label { code { (sanitize(&change.id)) } " because "
                input name="why" required maxlength=(WHY) size="40";
            }
            button { (word) }
        }
    }
}

/// A decision, as sent by a form.
#[derive(Deserialize)]
pub(super) struct Decision {
    series: String,
    machine: String,
    #[serde(default)]
    threshold: String,
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
        let message = format!("a decision needs a reason, with at most {WHY} bytes");
        return Err(Problem::bad_request(message));
    }
    let above = threshold(&form.threshold)?;
    let back = match above {
        None => "/changes".to_owned(),
        Some(_) => changes_path(&form.series, &form.machine, &form.threshold),
    };
    app.work(move |app| {
        let trends = app.config.trends.0.as_ref();
        let trends = trends.ok_or_else(|| Problem::not_found("this server has no series"))?;
        let of = SeriesOf {
            series: form.series,
            machine: Some(form.machine).filter(|name| !name.is_empty()),
        };
        let decided = Decided {
            change: form.change,
            threshold: above,
            decision: form.decision,
            who: who.name().to_owned(),
            why: form.why,
        };
        trends.decide(&of, &decided)?;
        app.worse.rejudge(trends.as_ref(), &of);
        Ok(app.collection.log(&AuditLine {
            at: Timestamp::now(),
            who: decided.who,
            action: decided.decision.to_string(),
            what: format!("{} of {}: {}", decided.change, of.series, decided.why),
        })?)
    })
    .await?;
    Ok(Redirect::to(&back))
}
