//! All routes, one per line. The router and the API description are generated from them.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use crate::access::{self, Client, Need, guard};
use crate::problem::{BUSY, Problem};
use crate::route::Route;
use crate::state::App;
use crate::{api, assets, headers, pages};

/// Maximum size of forms and of lists of IDs. Deliveries have a separate limit.
const BODY: usize = 1 << 20;

/// Returns the router of all routes.
pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    let of_api = api::ENDPOINTS.iter().map(|endpoint| &endpoint.route);
    for route in of_api.chain(pages::ROUTES).chain(&OWN) {
        let guarded = from_fn_with_state((app.clone(), route.need), guard);
        router = router.route(route.path, (route.handler)().layer(guarded));
    }
    router
        .fallback(|| async { Problem::not_found("nothing is here") })
        .layer(from_fn_with_state(app.clone(), keep_deadline_and_log))
        .layer(from_fn_with_state(app.clone(), pages::show_problems))
        .layer(from_fn(headers::add))
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(app.clone())
}

/// Aborts a request that takes too long, including its body, to limit the cost of slow clients.
/// Logs this and every other refused request.
async fn keep_deadline_and_log(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let Client(from) = access::client(&app.config.proxies, from.ip(), request.headers());
    let answer = tokio::time::timeout(app.config.limits.deadline, next.run(request)).await;
    if let Ok(response) = &answer
        && let Some(reason) = refusal(response.status())
    {
        app.refusals.log(reason, from);
    }
    answer.unwrap_or_else(|_| {
        app.refusals.log("a request took too long", from);
        let message = "this request took too long: try again later";
        let problem = Problem {
            retry_after: Some(BUSY),
            ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
        };
        problem.into_response()
    })
}

/// Returns why a request with this answer was refused. Returns `None` if it was not refused, has
/// no token, or is logged elsewhere (a wrong token, a conflict).
fn refusal(answer: StatusCode) -> Option<&'static str> {
    Some(match answer {
        StatusCode::BAD_REQUEST => "a request is malformed (400)",
        StatusCode::FORBIDDEN => "a request is not allowed (403)",
        StatusCode::REQUEST_TIMEOUT => "a body took too long (408)",
        StatusCode::LENGTH_REQUIRED => "a body has no length (411)",
        StatusCode::PAYLOAD_TOO_LARGE => "a body is too large (413)",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "a body is not compressed with zstd (415)",
        StatusCode::UNPROCESSABLE_ENTITY => "a body cannot be kept (422)",
        StatusCode::TOO_MANY_REQUESTS => "too many requests at once (429)",
        _ => return None,
    })
}

const OWN: [Route; 1] = [Route {
    method: "GET",
    path: "/assets/{version}/{name}",
    need: Need::Open,
    handler: || axum::routing::get(assets::get),
}];
