//! Running measurements.

use axum::extract::State;
use axum::response::Html;
use maud::{Markup, html};
use punctual_model::{Completion, RecordingId, sanitize};
use punctual_store::Wanted;

use super::frame;
use crate::paths::{machine_path, recording_path};
use crate::problem::Problem;
use crate::state::App;

/// Number of the newest recordings among which running ones are searched.
const NEWEST: usize = 200;

pub(super) async fn get(State(app): State<App>) -> Result<Html<String>, Problem> {
    let wanted = Wanted {
        most: NEWEST,
        ..Wanted::default()
    };
    let mut found = app.stored(move |all| all.list(&wanted)).await?;
    found.retain(|one| one.summary.completion == Completion::Running);
    let body = html! {
        h1 { "Live" }
        @if found.is_empty() {
            p { "No measurement is running in this store." }
            p .faint { "Recordings are pushed after they finish." }
        }
        @for one in &found {
            h2 {
                a href=(recording_path(one.summary.id)) { (sanitize(&one.summary.headline)) }
                " " small .faint { a href=(machine_path(&one.machine)) { (sanitize(&one.machine)) } }
            }
            (panel(one.summary.id))
        }
    };
    Ok(frame(&app, "Live", "/live", &body))
}

/// Returns the figures of a run. A script updates them.
pub(super) fn panel(id: RecordingId) -> Markup {
    const FIELDS: [(&str, &str); 6] = [
        ("elapsed_ns", "elapsed"),
        ("recorded", "samples"),
        ("missed", "missed"),
        ("p50_ns", "p50"),
        ("p99_ns", "p99"),
        ("max_ns", "max"),
    ];
    html! {
        section .live data-live={ "/live/" (id) } aria-label="Running measurement" {
            dl .tiles { @for (field, name) in FIELDS {
                div { dt { (name) } dd data-field=(field) { "-" } }
            } }
            div .canvas { canvas role="img" aria-label="Largest latency of each of the last \
                intervals" {} }
            noscript { p .faint { "Running. Reload this page to see the newest figures." } }
        }
    }
}
