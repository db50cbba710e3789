//! Notes about a series, written in a browser.

use axum::extract::State;
use axum::response::Redirect;
use axum::{Extension, Form};
use jiff::Timestamp;
use punctual_model::LONGEST_NOTE;
use punctual_store::AuditLine;
use serde::Deserialize;

use crate::access::Who;
use crate::look::time;
use crate::paths::trend_path;
use crate::problem::Problem;
use crate::state::App;
use crate::trends::{Noted, SeriesOf};

/// A note, as sent by a form.
#[derive(Deserialize)]
pub(super) struct Note {
    series: String,
    machine: String,
    at: String,
    text: String,
}

pub(super) async fn add(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Form(form): Form<Note>,
) -> Result<Redirect, Problem> {
    if form.text.trim().is_empty() || form.text.len() > LONGEST_NOTE {
        return Err(Problem::bad_request(format!(
            "a note needs text, with at most {LONGEST_NOTE} bytes"
        )));
    }
    let at = time(&form.at, false)?;
    let at = at.ok_or_else(|| Problem::bad_request("a note needs a time"))?;
    let of = SeriesOf {
        series: form.series,
        machine: Some(form.machine).filter(|name| !name.is_empty()),
    };
    let path = trend_path(&of);
    app.work(move |app| {
        let trends = app.config.trends.0.as_ref();
        let trends = trends.ok_or_else(|| Problem::not_found("this server has no series"))?;
        let noted = Noted {
            at,
            who: who.name().to_owned(),
            text: form.text,
        };
        trends.note(&of, &noted)?;
        app.worse.rejudge(trends.as_ref(), &of);
        Ok(app.collection.log(&AuditLine {
            at: Timestamp::now(),
            who: noted.who,
            action: "note".to_owned(),
            what: format!("{}: {}", of.series, noted.text),
        })?)
    })
    .await?;
    Ok(Redirect::to(&path))
}
