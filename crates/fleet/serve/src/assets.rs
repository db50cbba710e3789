//! Files of the dashboard, compiled into the program.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// The name, media type and parts of each file.
const ASSETS: &[(&str, &str, &[&str])] = &[
    (
        "style.css",
        "text/css; charset=utf-8",
        &[
            punctual_report::html::STYLE,
            include_str!("../assets/dashboard.css"),
        ],
    ),
    (
        "icon.svg",
        "image/svg+xml",
        &[include_str!("../assets/icon.svg")],
    ),
    // The parts form one module, so they share a namespace.
    (
        "script.js",
        "text/javascript; charset=utf-8",
        &[
            include_str!("../assets/figures.js"),
            include_str!("../assets/common.js"),
            include_str!("../assets/surface.js"),
            include_str!("../assets/heatmap.js"),
            include_str!("../assets/trend.js"),
            include_str!("../assets/live.js"),
            include_str!("../assets/strips.js"),
            include_str!("../assets/start.js"),
        ],
    ),
];

/// Returns one of the files. Their path contains the program version.
pub(crate) async fn get(Path((_, name)): Path<(String, String)>) -> Result<Response, Problem> {
    let found = ASSETS.iter().find(|(known, _, _)| *known == name);
    let (_, kind, parts) = found.ok_or_else(|| Problem::not_found("no such file"))?;
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CACHE_CONTROL, "public, max-age=86400"),
    ];
    Ok((headers, parts.concat()).into_response())
}

/// Returns the path of a file.
pub(crate) fn path(name: &str) -> String {
    format!("/assets/{}/{name}", env!("CARGO_PKG_VERSION"))
}
