//! The plots of a series. The server draws them as images. In a browser with scripts, interactive
//! plots replace them, and the images are not requested.

use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use punctual_report::ReportError;
use punctual_report::plot::{self, Heading, LongTerm, Plot, PlotOptions};
use punctual_stats::trend::Trend;
use serde::Deserialize;

use crate::look::ViewParams;
use crate::problem::Problem;
use crate::state::App;

type Draw = fn(&LongTerm<'_>, &PlotOptions) -> Result<Plot, ReportError>;

/// Name, height and caption of each plot.
const VIEWS: [(&str, u32, &str, Draw); 3] = [
    (
        "trend",
        460,
        "Figures of each run. Vertical lines mark change points.",
        plot::trend,
    ),
    (
        "surface",
        560,
        "Latency by run, with the oldest run at the back.",
        plot::surface,
    ),
    (
        "heatmap",
        460,
        "Number of periods by time and latency. Grey: no run.",
        plot::heatmap,
    ),
];
/// The width of an image.
const WIDTH: u32 = 800;

/// Returns the plots of each group.
pub(super) fn all(look: &ViewParams, trend: &Trend) -> Markup {
    html! { @for (place, group) in trend.groups.iter().enumerate() {
        h2 { (punctual_model::sanitize(&group.name())) }
        @for (name, height, caption, _) in VIEWS {
            @let query = format!("{}&group={place}", look.query());
            figure .moves data-view=(name) data-group=(place) data-source={ "/v1/longterm?" (query) } {
                div .still {
                    img src={ "/trend/" (name) ".svg?" (query) } alt={ (group.name()) ": " (caption) }
                        width=(WIDTH) height=(height) loading="lazy";
                }
                figcaption { (caption) }
            }
        }
    } }
}

/// The number of the group, from 0.
#[derive(Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    group: usize,
}

/// Returns one plot as an image.
pub(super) async fn get(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(asked): Query<PageQuery>,
    Query(look): Query<ViewParams>,
) -> Result<Response, Problem> {
    let view = name.strip_suffix(".svg");
    let view = VIEWS.iter().find(|(known, ..)| Some(*known) == view);
    let (_, height, _, draw) = view.ok_or_else(|| Problem::not_found("no such picture"))?;
    let svg = app
        .work(move |app| {
            let (trend, runs) = look.judged(app)?;
            let group = trend.groups.get(asked.group);
            let group = group
                .ok_or_else(|| Problem::not_found("the series has no group with this number"))?;
            let own = group.pick(&runs);
            let options = PlotOptions {
                heading: Heading::None,
                width: WIDTH,
                height: *height,
                ..PlotOptions::default()
            };
            let drawn = draw(&LongTerm::new(&trend, group, &own), &options);
            let drawn = drawn.map_err(|error| super::cannot_draw(&error))?;
            Ok(super::plain_svg(&drawn))
        })
        .await?;
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response())
}
