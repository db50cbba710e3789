//! The pages, which show documents of `report` in a common frame. They work without scripts.

mod changes;
mod compare;
mod live;
mod login;
mod machine;
mod notes;
mod outlier;
mod overview;
mod recording;
mod recordings;
mod series;
mod spread;
mod strip;
mod trend;
mod views;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use punctual_model::sanitize;
use punctual_report::document::{self, Document};
use punctual_report::html::fragment;

use crate::access::Need;
use crate::assets;
use crate::paths::encoded;
use crate::problem::Problem;
use crate::route::Route;
use crate::state::App;
use crate::worse::Judged;

/// All pages. Add new ones here.
pub(crate) const ROUTES: &[Route] = &[
    page("/", || get(overview::get)),
    page("/machine", || get(machine::get)),
    page("/recordings", || get(recordings::get)),
    page("/recordings/{id}", || get(recording::get)),
    page("/recordings/{id}/report", || get(recording::report)),
    page("/recordings/{id}/export/{format}", || {
        get(recording::export)
    }),
    page("/recordings/{id}/bundle", || get(recording::bundle)),
    page("/recordings/{id}/outliers/{number}", || get(outlier::get)),
    page("/compare", || get(compare::get)),
    page("/trend", || get(trend::get)),
    page("/trend/{view}", || get(views::get)),
    page("/live", || get(live::get)),
    page("/live/{id}", || get(crate::live::get)),
    page("/series", || get(series::get)),
    page("/changes", || get(changes::get)),
    Route {
        method: "POST",
        path: "/changes",
        need: Need::Change,
        handler: || post(changes::decide),
    },
    Route {
        method: "POST",
        path: "/notes",
        need: Need::Change,
        handler: || post(notes::add),
    },
    Route {
        method: "GET",
        path: "/login",
        need: Need::Open,
        handler: || get(login::form),
    },
    Route {
        method: "POST",
        path: "/login",
        need: Need::Open,
        handler: || post(login::login),
    },
    Route {
        method: "POST",
        path: "/logout",
        need: Need::Open,
        handler: || post(login::logout),
    },
];

const fn page(path: &'static str, handler: fn() -> axum::routing::MethodRouter<App>) -> Route {
    Route {
        method: "GET",
        path,
        need: Need::Read,
        handler,
    }
}

/// The login page. It has no navigation.
const LOGIN: &str = "/login";

/// The entries of the navigation.
const PLACES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/recordings", "Recordings"),
    ("/series", "Series"),
    ("/changes", "Changes"),
    ("/compare", "Compare"),
    ("/live", "Live"),
];

/// Returns a page in the common frame. `place` is the current entry of the navigation.
pub(super) fn frame(app: &App, title: &str, place: &str, body: &Markup) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (sanitize(title)) " - punctual" }
                link rel="stylesheet" href=(assets::path("style.css"));
                link rel="icon" type="image/svg+xml" href=(assets::path("icon.svg"));
                script type="module" src=(assets::path("script.js")) {}
            }
            body {
                a .skip href="#main" { "Skip to content" }
                header .bar {
                    nav aria-label="Pages" {
                        strong { "punctual" }
                        @if place != LOGIN { @for (path, name) in PLACES {
                            a href=(path) aria-current=[(path == place).then_some("page")] { (name) }
                        } }
                    }
                    @if place != LOGIN && app.config.needs_login() {
                        form method="post" action="/logout" { button { "Log out" } }
                    }
                }
                main #main { (body) }
                footer {
                    "Times are UTC. A " b { "-" } " marks unknown values, and percentiles that \
                        need more samples."
                }
            }
        }
    };
    Html(page.into_string())
}

/// Returns documents as part of a page.
pub(super) fn shown(documents: &[Document]) -> Markup {
    // The renderer escapes all texts in this document.
    PreEscaped(fragment(documents))
}

/// Returns the verdict over the runs of a sampled series, with each run; empty for other series.
fn proven(judged: &Judged) -> Markup {
    let why = judged.proof.as_ref().err().map(ToString::to_string);
    html! {
        @if let Some(why) = why { p .warn { (sanitize(&why)) } }
        @if let Some(proof) = judged.proven() {
            (shown(&[document::series_proof(proof, &TimeZone::UTC)]))
        }
    }
}

/// Returns a plot to embed in a page. Its inline style is removed, because browsers ignore it under
/// our policy, and the page's style sheet contains the same rules.
pub(super) fn plain_svg(plot: &punctual_report::plot::Plot) -> String {
    plot.svg().replacen(r#" style="white-space:pre""#, "", 1)
}

/// A query value that is not one of the choices.
fn unknown(what: &str, given: &str) -> Problem {
    Problem::bad_request(format!("there is no {what} '{given}'"))
}

/// A report that cannot be drawn.
pub(super) fn cannot_draw(error: &punctual_report::ReportError) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
}

/// Turns problems of pages into pages, and redirects users who are not logged in to the login page.
pub(crate) async fn show_problems(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Response {
    let uri = request.uri().clone();
    let path = uri.path();
    let machines = ["/v1/", "/health", "/ready", "/metrics"];
    let is_page = !machines.iter().any(|prefix| path.starts_with(prefix));
    let is_get = request.method() == axum::http::Method::GET;
    let response = as_problem(next.run(request).await).await;
    let Some(problem) = response.extensions().get::<Problem>().cloned() else {
        return response;
    };
    if !is_page {
        return response;
    }
    if problem.status == StatusCode::UNAUTHORIZED && is_get {
        let wanted = uri.path_and_query().map_or("/", |wanted| wanted.as_str());
        return Redirect::to(&format!("/login?to={}", encoded(wanted))).into_response();
    }
    let reason = problem.status.canonical_reason().unwrap_or("failed");
    let (place, back, to) = match path {
        LOGIN => (LOGIN, LOGIN, "Log in"),
        _ => ("", "/", "Overview"),
    };
    let body = html! {
        h1 { (reason) }
        p .warn { (sanitize(&problem.message)) }
        p { a href=(back) { (to) } }
    };
    let mut shown = (problem.status, frame(&app, reason, place, &body)).into_response();
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        let headers = shown.headers_mut();
        headers.insert(header::RETRY_AFTER, after.clone());
    }
    shown
}

/// Maximum length of a rejection reason to read.
const REASON: usize = 4 << 10;

/// Converts a rejection by the framework (because of an invalid query, path, form or method) into a
/// problem with our own text.
async fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_refusal = status.is_client_error() || status.is_server_error();
    if !is_refusal || response.extensions().get::<Problem>().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let reason = axum::body::to_bytes(body, REASON).await.unwrap_or_default();
    let reason = String::from_utf8_lossy(&reason).into_owned();
    let after = |marks: [&str; 2]| {
        let rest = marks.iter().find_map(|mark| reason.strip_prefix(mark));
        rest.map(|rest| rest.trim_start_matches(": ").to_owned())
    };
    let message = if status == StatusCode::METHOD_NOT_ALLOWED {
        "this address does not support this method".to_owned()
    } else if reason.starts_with("Invalid URL") {
        "a part of this address is not a number".to_owned()
    } else if let Some(why) = after(["Failed to deserialize query string"; 2]) {
        format!("this address cannot be read: {why}")
    } else if let Some(why) = after(["Failed to deserialize form body", "Failed to parse form"]) {
        format!("this form cannot be read: {why}")
    } else if reason.is_empty() {
        status.canonical_reason().unwrap_or("failed").to_lowercase()
    } else {
        reason.clone()
    };
    let mut response = Problem::new(status, message).into_response();
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
