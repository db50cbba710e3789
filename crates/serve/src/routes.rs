//! All routes, a line each; the router and the description of the API are made of them.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::MethodRouter;

use crate::access::{Need, guard};
use crate::state::App;
use crate::{api, assets, headers, pages, problem::Problem};

/// A path, what it needs, and what answers it.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) need: Need,
    pub(crate) handler: fn() -> MethodRouter<App>,
}

/// Bodies of forms and lists of IDs are no longer; deliveries have their own limit.
const BODY: usize = 1 << 20;

/// The router of all routes.
pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    let of_api = api::ENDPOINTS.iter().map(|endpoint| &endpoint.route);
    for route in of_api.chain(pages::ROUTES).chain(&OWN) {
        let guarded = from_fn_with_state((app.clone(), route.need), guard);
        router = router.route(route.path, (route.handler)().layer(guarded));
    }
    router
        .fallback(|| async { Problem::not_found("nothing is here") })
        .layer(from_fn_with_state(app.clone(), pages::show_problems))
        .layer(from_fn(headers::add))
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(app.clone())
}

const OWN: [Route; 1] = [Route {
    method: "GET",
    path: "/assets/{version}/{name}",
    need: Need::Open,
    handler: || axum::routing::get(assets::get),
}];
