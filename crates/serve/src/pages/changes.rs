//! Change points of all series, the open worsenings first, and decisions on them.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, Redirect};
use axum::{Extension, Form};
use jiff::Timestamp;
use maud::{Markup, html};
use punctual_model::{ChangeDecision, sanitize};
use punctual_report::document;
use punctual_stats::trend::{ChangePoint, Trend, TrendVerdict};
use punctual_store::AuditLine;
use serde::Deserialize;

use super::trend::{not_judged, path};
use super::{frame, shown};
use crate::access::Who;
use crate::problem::Problem;
use crate::state::App;
use crate::trends::{Decided, SeriesOf};
use crate::worse::is_worse;

/// A reason is no longer than this, in bytes.
const WHY: usize = 2_000;

pub(super) async fn get(State(app): State<App>) -> Result<Html<String>, Problem> {
    let mut all = app
        .work(|app| {
            let Some(trends) = &app.config.trends.0 else {
                return Ok(Vec::new());
            };
            let series = trends.series().map_err(not_judged)?;
            let judge = |of: SeriesOf| {
                let judged = trends.trend(&of).map(|(trend, _)| trend);
                (of, judged)
            };
            Ok(series.into_iter().map(judge).collect::<Vec<_>>())
        })
        .await?;
    // Stable: by name beyond that.
    all.sort_by_key(|(_, judged)| match judged {
        Ok(trend) if is_worse(trend) => 0,
        Err(_) => 1,
        Ok(trend) if trend.verdict == TrendVerdict::NotJudged => 2,
        Ok(_) => 3,
    });
    let body = html! {
        h1 { "Changes" }
        @if all.is_empty() { p { "No series: plan one with punctual record." } }
        @for (of, judged) in &all { (series(of, judged)) }
    };
    Ok(frame(&app, "Changes", "/changes", &body))
}

fn series(of: &SeriesOf, judged: &Result<Trend, String>) -> Markup {
    html! {
        h2 {
            a href=(path(of)) { (sanitize(&of.series)) }
            @if let Some(machine) = &of.machine { " " small .faint { (sanitize(machine)) } }
        }
        @match judged {
            Err(why) => p .warn { (sanitize(why)) },
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
        return Err(Problem::new(StatusCode::BAD_REQUEST, message));
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
        trends.decide(&of, &decided).map_err(not_judged)?;
        Ok(app.collection.log(&AuditLine {
            at: Timestamp::now(),
            who: decided.who,
            action: decided.decision.to_string(),
            what: format!("{} of {}", decided.change, of.series),
        })?)
    })
    .await?;
    Ok(Redirect::to("/changes"))
}
