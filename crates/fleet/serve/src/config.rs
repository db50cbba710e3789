//! The configuration of the server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use punctual_model::Nanos;

use crate::ServeError;
use crate::alerts::Alerts;
use crate::trends::TrendSource;

/// The configuration of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on. Port 0 means any free port.
    pub listen: SocketAddr,
    /// Certificate and key; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether each request needs a token, even on a loopback address.
    pub login: bool,
    /// Whether a proxy provides TLS, so that plain HTTP is allowed on a public address.
    pub behind_proxy: bool,
    /// Addresses of the trusted proxies. Their headers identify the client (X-Forwarded-For) and the
    /// user.
    pub proxies: Vec<IpAddr>,
    /// How a proxy names its users; `None` if it does not.
    pub sign_on: Option<SignOn>,
    /// A machine is silent if it has delivered nothing for this time.
    pub silent_after: Duration,
    /// Limits for the requests of clients.
    pub limits: Limits,
    /// How often to judge all series and poll for alerts. With many machines, this takes seconds.
    pub every: Duration,
    /// The alerts to send; `None` for no alerts.
    pub alerts: Option<Alerts>,
    /// The receiver of pushed metrics; `None` for no receiver.
    pub push: Option<PushTo>,
    /// The latency on which the classic buckets of the metrics are centred.
    pub requirement: Option<Nanos>,
    /// Series over time; none by default.
    pub trends: TrendSource,
    /// The file with samples and events of outliers. `None` for a database, because a database does
    /// not store them.
    pub store: Option<PathBuf>,
}

/// The receiver of metrics that are pushed using OTLP over HTTP.
#[derive(Clone, Debug)]
pub struct PushTo {
    /// The full URL: `http://collector:4318/v1/metrics`.
    pub url: String,
    /// The interval between pushes.
    pub every: Duration,
}

/// A proxy that authenticates users (single sign-on) and names them in a header.
#[derive(Clone, PartialEq, Eq)]
pub struct SignOn {
    /// The header with the user name. The proxy must set or remove it in every request.
    pub header: String,
    /// The secret that the proxy sends in [`PROXY_SECRET`](crate::PROXY_SECRET). Without it, every
    /// user of this machine could connect to a loopback address and claim any name.
    pub secret: String,
    /// Users who may change decisions. All other users can only read.
    pub admins: Vec<String>,
}

/// Does not show the secret.
impl std::fmt::Debug for SignOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignOn")
            .field("header", &self.header)
            .field("admins", &self.admins)
            .finish_non_exhaustive()
    }
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, with intermediate certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Limits for the requests of clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of a body as sent, in bytes.
    pub body: usize,
    /// Maximum size of a decompressed body, in bytes.
    pub unpacked: usize,
    /// Maximum total size of the bodies received at the same time, in bytes.
    pub in_flight: usize,
    /// Maximum number of simultaneous connections.
    pub connections: usize,
    /// Maximum number of simultaneous connections from one address other than a proxy.
    pub connections_by_address: usize,
    /// Timeout for the head of a request, for its body, and for each write of the response.
    pub patience: Duration,
    /// Timeout for a whole request, up to the start of its response.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            unpacked: 128 << 20,
            in_flight: 64 << 20,
            connections: 1_024,
            connections_by_address: 256,
            patience: Duration::from_secs(30),
            deadline: Duration::from_secs(90),
        }
    }
}

impl Config {
    /// Returns the default configuration for an address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: None,
            login: false,
            behind_proxy: false,
            proxies: Vec::new(),
            sign_on: None,
            silent_after: Duration::from_secs(36 * 3_600),
            limits: Limits::default(),
            every: Duration::from_secs(60),
            alerts: None,
            push: None,
            requirement: None,
            trends: TrendSource::default(),
            store: None,
        }
    }

    /// Returns whether each request needs a token.
    pub(crate) fn needs_login(&self) -> bool {
        self.login || self.sign_on.is_some() || !self.listen.ip().is_loopback()
    }

    /// Checks whether this configuration is safe.
    ///
    /// # Errors
    /// Returns an error if tokens would be sent over a network without TLS.
    pub fn check(&self) -> Result<(), ServeError> {
        let safe = self.listen.ip().is_loopback() || self.tls.is_some() || self.behind_proxy;
        if safe {
            Ok(())
        } else {
            Err(ServeError::PlainOutside(self.listen))
        }
    }
}
