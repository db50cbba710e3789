//! The response to a failed request.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_model::cut_to;
use punctual_store::StoreError;
use serde::Serialize;

use crate::SourceError;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// Seconds to wait before a retry.
    pub(crate) retry_after: Option<u32>,
}

/// The same as JSON.
#[derive(Serialize)]
pub(crate) struct Failure {
    /// What failed, and how to resolve it.
    error: String,
}

/// Seconds to wait if there is no space.
const NO_ROOM: u32 = 60;
/// Seconds to wait if there are too many requests.
pub(crate) const BUSY: u32 = 5;

/// Maximum length of a message in bytes, because a message about an invalid body can quote it.
const LONGEST_MESSAGE: usize = 2_000;

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: cut_to(message.into(), LONGEST_MESSAGE),
            retry_after: None,
        }
    }

    pub(crate) fn busy(message: impl Into<String>, retry_after: u32) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// Returns the problem of a request whose handler panicked.
    pub(crate) fn fault() -> Self {
        let message = "this request failed because of a bug in punctual";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

/// A series, an outlier or a bundle that cannot be read or created.
impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSuch { selector, .. } => Self::not_found(format!(
                "no recording '{selector}' is stored on the collector"
            )),
            StoreError::Ambiguous { .. } => Self::bad_request(error.to_string()),
            StoreError::DiskFull { .. } => Self::busy("the disk of the collector is full", NO_ROOM),
            StoreError::Locked { .. } => Self::busy("the store is in use", BUSY),
            // Clients must not see paths of this machine, so they are only logged.
            error => {
                crate::log::complain(&error.to_string());
                let message = "the store cannot be used: see the collector's log";
                Self {
                    retry_after: Some(NO_ROOM),
                    ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
                }
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let failure = Failure {
            error: self.message.clone(),
        };
        let mut response = (self.status, Json(failure)).into_response();
        if let Some(seconds) = self.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}
