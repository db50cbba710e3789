//! Whether the server lives, and whether it can work.

use axum::extract::State;

use crate::problem::Problem;
use crate::state::App;

/// The process answers.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// The store can be read.
pub(super) async fn ready(State(app): State<App>) -> Result<&'static str, Problem> {
    app.stored(|all| all.ready()).await?;
    Ok("ready\n")
}
