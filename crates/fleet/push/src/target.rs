//! The URL of a collector, and the certificates to trust.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::DeliverError;

/// Returns whether the URL is plain HTTP, which is allowed only for loopback addresses. Returns
/// `None` if the URL is invalid.
pub(crate) fn is_plain(url: &str) -> Option<bool> {
    let (scheme, rest) = url.split_once("://")?;
    let host = match rest.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => rest.split(':').next()?,
    };
    let plain_host = !host.is_empty() && !rest.contains(['/', '@', '?', '#', ' ']);
    let loopback = host == "localhost"
        || (host.parse::<std::net::IpAddr>()).is_ok_and(|address| address.is_loopback());
    match scheme {
        _ if !plain_host => None,
        "https" => Some(false),
        "http" if loopback => Some(true),
        _ => None,
    }
}

/// Returns a TLS configuration with these certificates, or with those that the system trusts.
pub(crate) fn tls(roots: Option<&Path>) -> Result<TlsConfig, DeliverError> {
    let path = match roots {
        Some(path) => path,
        None => punctual_files::roots::file()
            .ok_or_else(|| DeliverError::Roots("this system has none".to_owned()))?,
    };
    let cannot = |reason: String| DeliverError::Roots(format!("{}: {reason}", path.display()));
    let pem = punctual_files::roots::BUDGET
        .read(path)
        .map_err(|error| cannot(error.reason()))?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(one)) => Some(one),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(cannot("it contains no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_loopback() {
        for plain in [
            "http://localhost:8090",
            "http://127.0.0.1:1",
            "http://[::1]:2",
        ] {
            assert_eq!(is_plain(plain), Some(true), "{plain}");
        }
        assert_eq!(is_plain("https://collector.example"), Some(false));
        for bad in [
            "http://collector.example",
            "http://127.0.0.1.example.org",
            "ftp://localhost",
            "localhost:8090",
            "https://",
            "https://user@host",
            "https://host/path",
        ] {
            assert_eq!(is_plain(bad), None, "{bad}");
        }
    }
}
