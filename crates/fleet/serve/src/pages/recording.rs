//! One recording: its report, and the recording in the formats of other tools.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use punctual_formats::{Export, ExportOptions, FORMATS, Format, NoSamples};
use punctual_model::{Completion, Recording};
use punctual_report::OutlierTimeline;
use punctual_report::html::{HtmlOptions, documents, render};
use punctual_store::bundle::{Bundle, Readers};

use super::{frame, outlier, shown};
use crate::SourceError;
use crate::paths::machine_path;
use crate::problem::Problem;
use crate::state::{App, Inner};

pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let (machine, id, title, documents, running, links) = app
        .work(move |app| {
            let id = app.collection.find(&id)?;
            let (machine, recording) = app.collection.load(id)?;
            let running = recording.completion == Completion::Running;
            let options = drawn(app, &recording)?;
            let links = if options.outliers.is_empty() {
                Markup::default()
            } else {
                outlier::links(&recording)
            };
            let (title, documents) =
                documents(&[recording], &options).map_err(|error| super::cannot_draw(&error))?;
            Ok((machine, id, title, documents, running, links))
        })
        .await?;
    let body = html! {
        nav .crumbs aria-label="Above" {
            a href=(machine_path(&machine)) { (punctual_model::sanitize(&machine)) }
        }
        @if running { (super::live::panel(id)) }
        (shown(&documents))
        (links)
        (downloads(&id.to_string()))
    };
    Ok(frame(&app, &title, "", &body))
}

/// Returns the formats that do not need individual samples, because a collector does not store
/// these.
fn formats() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|format| !format.needs_samples)
}

fn downloads(id: &str) -> Markup {
    html! {
        h2 { "Downloads" }
        p .actions {
            a href={ "/recordings/" (id) "/bundle" } download { "Bundle (.tar.zst)" }
            a href={ "/v1/recordings/" (id) } download={ (id) ".json" } { "JSON" }
            a href={ "/recordings/" (id) "/report" } download={ (id) ".html" } { "Report (HTML)" }
            @for format in formats().filter(|format| format.name != "json") {
                a href={ "/recordings/" (id) "/export/" (format.name) } download { (format.name) }
            }
        }
        p .actions { a href={ "/compare?id=" (id) } { "Compare with another" } }
    }
}

/// Returns the options of the report. The report includes the longest outlier if its events are
/// stored on this server.
fn drawn(app: &Inner, recording: &Recording) -> Result<HtmlOptions, Problem> {
    Ok(HtmlOptions {
        outliers: outlier::largest(app, recording)?,
        ..HtmlOptions::default()
    })
}

/// Returns all data of the recording in one file.
pub(super) async fn bundle(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (name, packed) = app
        .work(move |app| {
            let id = app.collection.find(&id)?;
            let (_, recording) = app.collection.load(id)?;
            let packed = packed(app, &recording)?;
            Ok((format!("punctual-{}.tar.zst", id.short()), packed))
        })
        .await?;
    let headers = [
        (header::CONTENT_TYPE, "application/zstd".to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
    ];
    Ok((headers, packed).into_response())
}

/// Makes a bundle without the current state of this machine, because the recording may be from
/// another machine.
fn packed(app: &Inner, recording: &Recording) -> Result<Vec<u8>, SourceError> {
    let store = app.stored()?;
    let mut bundle = Bundle::new(Vec::new(), store.as_ref(), recording, Readers::Owner)?;
    if store.is_some() && recording.explanation.is_some() {
        let outliers = recording.explanation.iter().flat_map(|all| &all.outliers);
        let timelines =
            outliers.filter_map(|one| outlier::timeline(app, recording, one.number).transpose());
        let timelines: Vec<OutlierTimeline> = timelines.collect::<Result<_, _>>()?;
        let text = punctual_report::outliers_text(&timelines);
        bundle.add("outliers.txt", "causes of each outlier", text.as_bytes())?;
    }
    bundle.lack(
        "trace.dat",
        "the stored trace events are in the file store.db",
    );
    Ok(bundle.finish()?)
}

/// Returns the report as one self-contained page.
pub(super) async fn report(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let page = app
        .work(move |app| {
            let id = app.collection.find(&id)?;
            let (_, recording) = app.collection.load(id)?;
            let options = drawn(app, &recording)?;
            render(&[recording], &options).map_err(|error| super::cannot_draw(&error))
        })
        .await?;
    Ok(Html(page))
}

/// Returns the recording in the format of another tool.
pub(super) async fn export(
    State(app): State<App>,
    Path((id, format)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let format = formats().find(|known| known.name == format);
    let format = format.ok_or_else(|| Problem::not_found("no such format"))?;
    let (id, bytes) = app
        .work(move |app| {
            let id = app.collection.find(&id)?;
            let (_, recording) = app.collection.load(id)?;
            let export = Export {
                recording: &recording,
                samples: &NoSamples,
                options: ExportOptions::default(),
            };
            let mut bytes = Vec::new();
            (format.write)(&export, &mut bytes).map_err(|error| {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            })?;
            Ok((id, bytes))
        })
        .await?;
    let name = format!("attachment; filename=\"{id}.{}\"", format.extension);
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, bytes).into_response())
}
