//! One explained outlier of a recording, with its events over time.

use axum::extract::{Path, State};
use axum::response::Html;
use maud::{Markup, PreEscaped, html};
use punctual_model::{Outlier, Recording, RecordingId};
use punctual_report::plot::{self, Heading, PlotOptions};
use punctual_report::{OutlierTimeline, document};

use super::{frame, shown};
use crate::SourceError;
use crate::paths::recording_path;
use crate::problem::Problem;
use crate::state::{App, Inner};

/// Maximum number of outliers that a recording's page links to, the longest first.
const LINKS: usize = 50;

/// Returns the explained outliers of a recording, the longest first.
fn outliers(recording: &Recording) -> Vec<&Outlier> {
    let all = recording.explanation.iter().flat_map(|all| &all.outliers);
    let mut all: Vec<&Outlier> = all.collect();
    all.sort_by_key(|one| one.order());
    all
}

/// Returns the longest outlier with its events, if they are stored on this server.
pub(super) fn largest(app: &Inner, recording: &Recording) -> Result<Vec<OutlierTimeline>, Problem> {
    let Some(largest) = outliers(recording).first().map(|one| one.number) else {
        return Ok(Vec::new());
    };
    Ok(timeline(app, recording, largest)?.into_iter().collect())
}

pub(super) fn timeline(
    app: &Inner,
    recording: &Recording,
    number: u64,
) -> Result<Option<OutlierTimeline>, SourceError> {
    let Some(store) = app.stored()? else {
        return Ok(None);
    };
    let found = store.window(recording.id, number)?;
    Ok(found.map(|(outlier, window)| OutlierTimeline::new(recording, outlier, window)))
}

/// Returns links to the longest outliers.
pub(super) fn links(recording: &Recording) -> Markup {
    let all = outliers(recording);
    html! { @if !all.is_empty() {
        h2 { "Outliers by time" }
        p .actions { @for one in all.iter().take(LINKS) {
            a href=(path(recording.id, one.number)) { (one.number) ": " (one.latency_ns) }
        } }
        @if all.len() > LINKS { p .faint { "The largest " (LINKS) " of " (all.len()) "." } }
    } }
}

fn path(recording: RecordingId, number: u64) -> String {
    format!("{}/outliers/{number}", recording_path(recording))
}

pub(super) async fn get(
    State(app): State<App>,
    Path((id, number)): Path<(String, u64)>,
) -> Result<Html<String>, Problem> {
    let body = app
        .work(move |app| {
            let (_, recording) = app.collection.load(app.collection.find(&id)?)?;
            let found = timeline(app, &recording, number)?;
            let found = found.ok_or_else(|| {
                Problem::not_found(format!(
                    "the events of outlier {number} are not stored on the collector; the events \
                     of a pushed recording stay on its machine"
                ))
            })?;
            page(&recording, &found)
        })
        .await?;
    Ok(frame(&app, &format!("Outlier {number}"), "", &body))
}

fn page(recording: &Recording, timeline: &OutlierTimeline) -> Result<Markup, Problem> {
    let options = PlotOptions {
        heading: Heading::None,
        ..PlotOptions::default()
    };
    let drawn = plot::outlier(timeline, &options);
    let drawn = drawn.map_err(|error| super::cannot_draw(&error))?;
    let all = outliers(recording);
    let place = all
        .iter()
        .position(|one| one.number == timeline.outlier.number);
    let next = place.and_then(|place| all.get(place + 1));
    let previous = place.and_then(|place| all.get(place.checked_sub(1)?));
    Ok(html! {
        nav .crumbs aria-label="Above" {
            a href=(recording_path(recording.id)) { (punctual_model::sanitize(&recording.headline())) }
        }
        h1 { "Outlier " (timeline.outlier.number) }
        // `Plot::svg` returns escaped texts only.
        figure { (PreEscaped(super::plain_svg(&drawn))) }
        (shown(&[document::outlier(timeline, true)]))
        nav .turn aria-label="Other outliers" {
            @if let Some(one) = previous { a rel="prev" href=(path(recording.id, one.number)) { "Larger" } }
            @if let Some(one) = next { a rel="next" href=(path(recording.id, one.number)) { "Smaller" } }
        }
    })
}
