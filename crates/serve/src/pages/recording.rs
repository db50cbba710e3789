//! One recording: its report.

use axum::extract::{Path, State};
use axum::response::Html;
use maud::html;
use punctual_report::html::{HtmlOptions, documents};

use super::{frame, machine_path, shown};
use crate::problem::Problem;
use crate::state::App;

pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let (machine, id, title, documents) = app
        .work(move |app| {
            let id = app.collection.find(&id)?;
            let (machine, recording) = app.collection.load(id)?;
            let (title, documents) = documents(&[recording], &HtmlOptions::default())
                .map_err(|error| super::cannot_draw(&error))?;
            Ok((machine, id, title, documents))
        })
        .await?;
    let body = html! {
        nav .crumbs aria-label="Above" {
            a href=(machine_path(&machine)) { (punctual_model::sanitize(&machine)) }
        }
        (shown(&documents))
        p .actions {
            a href={ "/v1/recordings/" (id) } download={ (id) ".json" } { "Download as JSON" }
            " " a href={ "/compare?id=" (id) } { "Compare with another" }
        }
    };
    Ok(frame(&app, &title, "", &body))
}
