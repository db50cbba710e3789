//! A route of the server.

use axum::routing::MethodRouter;

use crate::access::Need;
use crate::state::App;

/// A path, the permission it needs, and its handler.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) need: Need,
    pub(crate) handler: fn() -> MethodRouter<App>,
}
