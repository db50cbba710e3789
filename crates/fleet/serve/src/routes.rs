//! All routes, one per line. The router and the API description are generated from them.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use crate::access::{Need, guard};
use crate::problem::{BUSY, Problem};
use crate::route::Route;
use crate::state::App;
use crate::{api, assets, headers, pages};

/// Maximum size of forms and lists of IDs. Deliveries have a separate limit.
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
        .layer(from_fn_with_state(app.clone(), keep_deadline))
        .layer(from_fn_with_state(app.clone(), pages::show_problems))
        .layer(from_fn(headers::add))
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(app.clone())
}

/// Aborts a request that takes too long, including its body, to limit the cost of slow clients.
async fn keep_deadline(State(app): State<App>, request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(app.config.limits.deadline, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        let message = "this request took too long: try again later";
        let problem = Problem {
            retry_after: Some(BUSY),
            ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
        };
        problem.into_response()
    })
}

const OWN: [Route; 1] = [Route {
    method: "GET",
    path: "/assets/{version}/{name}",
    need: Need::Open,
    handler: || axum::routing::get(assets::get),
}];
