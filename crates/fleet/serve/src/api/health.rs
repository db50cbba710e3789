//! Health checks: whether the server is alive, and whether it is ready.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;

use crate::problem::Problem;
use crate::state::App;

/// Timeout of the readiness check. It is short, because those who check do not wait longer
/// (Kubernetes: 1 s, load balancers: 2 to 10 s).
const PATIENCE: Duration = Duration::from_secs(2);

/// The process responds.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// The store can be read.
pub(super) async fn ready(State(app): State<App>) -> Result<&'static str, Problem> {
    let read = app.stored(|all| all.ready());
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(result) => result.map(|()| "ready\n"),
        Err(_) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the store does not answer within {} s", PATIENCE.as_secs()),
        )),
    }
}
