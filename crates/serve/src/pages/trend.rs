//! A series over time.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Html;
use maud::html;
use punctual_report::document;
use serde::Deserialize;

use super::{frame, shown};
use crate::paths::encoded;
use crate::problem::Problem;
use crate::state::App;
use crate::trends::SeriesOf;

/// Which series.
#[derive(Deserialize)]
pub(super) struct Asked {
    series: String,
    machine: Option<String>,
}

impl From<Asked> for SeriesOf {
    fn from(Asked { series, machine }: Asked) -> Self {
        Self {
            series,
            machine: machine.filter(|name| !name.is_empty()),
        }
    }
}

/// The page of a series.
pub(super) fn path(of: &SeriesOf) -> String {
    let series = encoded(&of.series);
    let machine = of.machine.as_deref().map(encoded).unwrap_or_default();
    format!("/trend?series={series}&machine={machine}")
}

/// A series that cannot be read or judged.
pub(super) fn not_judged(why: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why)
}

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<Asked>,
) -> Result<Html<String>, Problem> {
    let of = SeriesOf::from(asked);
    let wanted = of.clone();
    let document = app
        .work(move |app| {
            let trends = app.config.trends.0.as_ref();
            let trends = trends.ok_or_else(|| Problem::not_found("no series are served here"))?;
            let (trend, runs) = trends.trend(&wanted).map_err(not_judged)?;
            document::pictured(&trend, &runs).map_err(|error| super::cannot_draw(&error))
        })
        .await?;
    let body = html! {
        nav .crumbs aria-label="Above" {
            a href="/changes" { "Changes" }
            @if let Some(machine) = &of.machine {
                " / " a href=(crate::paths::machine_path(machine)) { (punctual_model::sanitize(machine)) }
            }
        }
        (shown(&[document]))
    };
    Ok(frame(&app, &of.series, "", &body))
}
