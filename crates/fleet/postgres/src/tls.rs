//! TLS to a database: the parameters `sslmode` and `sslrootcert` of its URL.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use postgres::Config;
use postgres::config::{Host, SslMode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Remedy for a server whose certificate has no trusted authority.
pub(super) const UNTRUSTED: &str = "; specify the certificate of its authority in the URL with \
    sslrootcert=FILE, or disable encryption with sslmode=disable";

/// Remedy for a server that does not offer TLS.
pub(super) const NOT_OFFERED: &str = "; enable TLS on the server, or allow a connection without \
    encryption with sslmode=prefer in the URL";

/// The database cannot be reached as specified in its URL. Messages do not repeat the URL, because
/// it may contain a password.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum TlsError {
    /// Unknown mode.
    #[error("sslmode is not one of disable, prefer, require, verify-ca, verify-full")]
    Mode,
    /// A socket has no name that a certificate could contain.
    #[error("a Unix socket does not support TLS: remove sslmode")]
    Socket,
    /// The file in the URL has no certificates.
    #[error("sslrootcert: {} contains no readable certificate in PEM format", .0.display())]
    NoCertificate(PathBuf),
    /// The URL requires TLS, but the system has no certificates.
    #[error("this system trusts no certificates{}", UNTRUSTED)]
    NothingTrusted,
    /// Error of the TLS library.
    #[error(transparent)]
    Library(#[from] rustls::Error),
}

/// A URL without the parameters that the client does not know, and the values of those parameters.
pub(super) struct Address {
    url: String,
    /// PEM file of certificates to trust instead of the system's.
    pub(super) roots: Option<PathBuf>,
    /// Whether the URL specifies a TLS mode.
    names_mode: bool,
}

impl Address {
    /// Splits a URL. The client always verifies certificates completely, so libpq's modes
    /// `verify-ca` and `verify-full` become its mode `require`.
    ///
    /// # Errors
    /// [`TlsError::Mode`].
    pub(super) fn from_url(url: &str) -> Result<Self, TlsError> {
        let mut address = Self {
            url: url.to_owned(),
            roots: None,
            names_mode: false,
        };
        let Some((base, query)) = url.split_once('?') else {
            return Ok(address);
        };
        let mut kept = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("sslrootcert", path)) => address.roots = Some(decoded(path).into()),
                Some(("sslmode", mode)) => {
                    address.names_mode = true;
                    kept.push(match mode {
                        "verify-ca" | "verify-full" => "sslmode=require",
                        "disable" | "prefer" | "require" => pair,
                        _ => return Err(TlsError::Mode),
                    });
                }
                _ => kept.push(pair),
            }
        }
        address.url = format!("{base}?{}", kept.join("&"));
        Ok(address)
    }
}

impl Address {
    /// Returns the client's settings. If the URL does not specify a mode, TLS with a trusted
    /// certificate is required unless the database is on this machine. Without this rule, a host
    /// without TLS would receive the password.
    ///
    /// # Errors
    /// Returns an error if the client does not understand the URL.
    pub(super) fn config(&self) -> Result<Config, postgres::Error> {
        let mut config: Config = self.url.parse()?;
        if !self.names_mode && !is_on_this_machine(&config) {
            config.ssl_mode(SslMode::Require);
        }
        Ok(config)
    }
}

/// Returns whether all hosts are sockets or loopback addresses. A name other than `localhost` may
/// resolve to any address.
fn is_on_this_machine(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    };
    let addresses = config.get_hostaddrs();
    if addresses.is_empty() {
        config.get_hosts().iter().all(is_local)
    } else {
        addresses.iter().all(IpAddr::is_loopback)
    }
}

/// Decodes a query value (RFC 3986, 2.1).
fn decoded(value: &str) -> String {
    let mut bytes = value.bytes();
    let mut out = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let mut hex = || char::from(ahead.next()?).to_digit(16);
        match (byte, hex(), hex()) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                bytes = ahead;
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the TLS connector for this database, or `None` if TLS is disabled or all hosts are
/// sockets, because a socket has no name that a certificate could contain.
///
/// # Errors
/// Returns an error if the URL requires TLS but no certificates are trusted.
pub(super) fn connector(
    config: &Config,
    roots: Option<&Path>,
) -> Result<Option<MakeRustlsConnect>, TlsError> {
    let is_local = |host: &Host| matches!(host, Host::Unix(_));
    let required = config.get_ssl_mode() == SslMode::Require;
    if config.get_ssl_mode() == SslMode::Disable || config.get_hosts().iter().all(is_local) {
        return if required {
            Err(TlsError::Socket)
        } else {
            Ok(None)
        };
    }
    let trusted = match roots {
        Some(path) => {
            let roots = certificates(path);
            Some(roots.ok_or_else(|| TlsError::NoCertificate(path.to_owned()))?)
        }
        None => punctual_files::roots::file().and_then(certificates),
    };
    let Some(roots) = trusted else {
        return if required {
            Err(TlsError::NothingTrusted)
        } else {
            Ok(None)
        };
    };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

/// Reads the certificates of a file; `None` if there are none.
fn certificates(path: &Path) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let all = CertificateDer::pem_file_iter(path).ok()?;
    roots.add_parsable_certificates(all.filter_map(Result::ok));
    (!roots.is_empty()).then_some(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_names_roots_and_tls_mode() {
        let of = |url: &str| {
            let address = Address::from_url(url).unwrap();
            let roots = address
                .roots
                .as_ref()
                .map(|path| path.display().to_string());
            (address.url, roots)
        };
        let plain = "postgres://me@db/fleet";
        assert_eq!(of(plain), (plain.to_owned(), None));
        assert_eq!(
            of("postgres://me@db/fleet?sslmode=verify-full&sslrootcert=%2Fetc%2Fca%20x.pem&a=b"),
            (
                "postgres://me@db/fleet?sslmode=require&a=b".to_owned(),
                Some("/etc/ca x.pem".to_owned())
            )
        );
        let wrong = Address::from_url("postgres://me:secret@db/fleet?sslmode=never").err();
        assert!(wrong.is_some_and(|error| !error.to_string().contains("secret")));
    }

    #[test]
    fn password_is_not_sent_remotely_unencrypted() {
        let mode = |url: &str| {
            Address::from_url(url)
                .unwrap()
                .config()
                .unwrap()
                .get_ssl_mode()
        };
        for other in [
            "postgres://me:secret@db/x",
            "postgres://me:secret@192.0.2.1/x?a=b",
            "postgres://me:secret@localhost,db/x",
            "postgres://me:secret@localhost/x?hostaddr=192.0.2.1",
        ] {
            let other = other.replace("a=b", "connect_timeout=3");
            assert_eq!(mode(&other), SslMode::Require, "{other}");
        }
        for (url, expected) in [
            ("postgres://me@db/x?sslmode=prefer", SslMode::Prefer),
            ("postgres://me@db/x?sslmode=disable", SslMode::Disable),
            ("postgres://me@localhost/x", SslMode::Prefer),
            ("postgres://me@127.0.0.1,[::1]/x", SslMode::Prefer),
            ("postgres://me@%2Frun/x", SslMode::Prefer),
        ] {
            assert_eq!(mode(url), expected, "{url}");
        }
    }

    #[test]
    fn what_asks_for_tls_is_never_plain() {
        let judged = |url: &str, roots| {
            let config = Address::from_url(url).unwrap().config().unwrap();
            connector(&config, roots).map(|tls| tls.is_some())
        };
        let none = Path::new("/nonexistent/ca.pem");
        assert_eq!(
            judged("postgres://me@db/x?sslmode=disable", None),
            Ok(false)
        );
        for refused in [
            judged("postgres://me@db/x?sslmode=require", Some(none)),
            judged("postgres://me@db/x", Some(none)),
            judged("postgres://me@%2Frun/x?sslmode=require", None),
        ] {
            assert!(refused.is_err());
        }
    }
}
