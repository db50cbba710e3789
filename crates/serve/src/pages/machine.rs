//! One machine: its state, hardware and system, and its recordings.

use axum::extract::{Query, State};
use axum::response::Html;
use jiff::Timestamp;
use maud::html;
use punctual_report::document;
use punctual_store::Wanted;
use serde::Deserialize;

use super::recordings::table;
use super::{encoded, frame, shown};
use crate::fleet;
use crate::problem::Problem;
use crate::state::App;

/// Which machine.
#[derive(Deserialize)]
pub(super) struct Asked {
    name: String,
}

/// Recordings that are shown; the list has the rest.
const RECORDINGS: usize = 30;

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<Asked>,
) -> Result<Html<String>, Problem> {
    let name = asked.name.clone();
    let (machine, facts, found) = app
        .work(move |app| {
            let machines = app.collection.machines()?;
            let machine = machines.into_iter().find(|one| one.name == name);
            let machine = machine.ok_or_else(|| Problem::not_found("no such machine"))?;
            let facts = match &machine.latest {
                Some(latest) => Some(app.collection.load(latest.id)?.1.host),
                None => None,
            };
            let found = app.collection.list(&Wanted {
                machine: Some(name),
                most: RECORDINGS,
                ..Wanted::default()
            })?;
            Ok((machine, facts, found))
        })
        .await?;
    let row = fleet::row(&machine, Timestamp::now(), app.config.silent_after);
    let document = document::machine(&row, facts.as_ref());
    let all = format!("/recordings?machine={}", encoded(&asked.name));
    let body = html! {
        (shown(&[document]))
        h2 { "Recordings" }
        (table(&found))
        @if machine.recordings > found.len() as u64 {
            p { a href=(all) { "All " (machine.recordings) " recordings" } }
        }
    };
    Ok(frame(&app, &machine.name, "", &body))
}
