//! A series over time.

use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};
use punctual_model::sanitize;
use punctual_report::document;

use super::{frame, proven, shown, views};
use crate::look::ViewParams;
use crate::paths::{encoded, machine_path};
use crate::problem::Problem;
use crate::state::App;

pub(super) async fn get(
    State(app): State<App>,
    Query(look): Query<ViewParams>,
) -> Result<Html<String>, Problem> {
    if look.series.is_empty() {
        return Err(Problem::bad_request("name a series: /trend?series=NAME"));
    }
    let wanted = look.clone();
    let (document, pictures, judged) = app
        .work(move |app| {
            let (trend, _) = wanted.judged(app)?;
            let pictures = views::all(&wanted, &trend);
            let judged = app.worse.of(&wanted.series());
            Ok((document::trend(&trend, None), pictures, judged))
        })
        .await?;
    let body = html! {
        nav .crumbs aria-label="Above" {
            a href="/changes" { "Changes" }
            @if !look.machine.is_empty() {
                " / " a href=(machine_path(&look.machine)) { (sanitize(&look.machine)) }
            }
        }
        @if let Some(judged) = &judged { (proven(judged)) }
        (shown(&[document]))
        (filter(&look))
        (pictures)
        h2 .screen { "Note" }
        form .filter method="post" action="/notes" {
            input type="hidden" name="series" value=(look.series);
            input type="hidden" name="machine" value=(look.machine);
            label { "About " input name="at" placeholder="2026-11-03" size="12" required; }
            label { "Text " input name="text" required maxlength=(punctual_model::LONGEST_NOTE) size="40"; }
            button { "Add note" }
        }
        p .actions {
            a href={ "/series?name=" (encoded(&look.series)) } { "This series on all machines" }
        }
    };
    Ok(frame(&app, &look.series, "", &body))
}

/// Returns the form for the time span and the threshold.
fn filter(look: &ViewParams) -> Markup {
    html! {
        form .filter method="get" action="/trend" {
            input type="hidden" name="series" value=(look.series);
            input type="hidden" name="machine" value=(look.machine);
            label { "From " input name="from" value=(sanitize(&look.from)) placeholder="2026-11-03" size="12"; }
            label { "To " input name="to" value=(sanitize(&look.to)) placeholder="2026-11-30" size="12"; }
            label { "Count later than " input name="threshold" value=(sanitize(&look.threshold)) placeholder="100us" size="8"; }
            button { "Show" }
        }
    }
}
