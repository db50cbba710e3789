//! Response headers that limit what a browser may do, and compression.

use std::io::Write;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Pages may contact only this server, and inline scripts and styles are ignored. So text that was
/// left unescaped by mistake has no effect.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Shorter responses are not compressed.
const SHORT: u64 = 1_024;
/// Longer responses are not compressed, because the compression takes place in memory.
const LONG: u64 = 8 << 20;

/// Adds the headers, and compresses the response.
pub(crate) async fn add(request: Request, next: Next) -> Response {
    let gzip = takes_gzip(request.headers());
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Measurements must not be stored in shared caches.
    let headers = response.headers_mut();
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip && is_worth_it(&response) {
        compressed(response).await
    } else {
        response
    }
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    accepted.is_some_and(|list| {
        list.split(',').any(|one| {
            let mut parts = one.split(';').map(str::trim);
            parts.next() == Some("gzip") && !parts.any(|q| matches!(q, "q=0" | "q=0.0"))
        })
    })
}

fn is_worth_it(response: &Response) -> bool {
    let headers = response.headers();
    let text = headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.as_bytes();
        [
            "text/html",
            "text/css",
            "text/javascript",
            "application/json",
            "image/svg+xml",
            "text/plain",
        ]
        .iter()
        .any(|prefix| kind.starts_with(prefix.as_bytes()))
    });
    let length = response.body().size_hint().exact();
    let fits = length.is_some_and(|bytes| (SHORT..=LONG).contains(&bytes));
    text && fits && !headers.contains_key(header::CONTENT_ENCODING)
}

async fn compressed(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, LONG as usize).await else {
        parts.status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        return Response::from_parts(parts, Body::empty());
    };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let done = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    let Ok(smaller) = done else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(header::CONTENT_ENCODING, gzip);
    Response::from_parts(parts, Body::from(smaller))
}
