//! How the server is set up.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use punctual_model::Nanos;

use crate::ServeError;
use crate::alerts::Alerts;
use crate::evidence::EvidenceSource;
use crate::trends::TrendSource;

/// How the server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address; port 0 for one that is free.
    pub listen: SocketAddr,
    /// Certificate and key; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether each request needs a token, on a loopback address too.
    pub login: bool,
    /// Whether plain HTTP is right on an address that others reach: a proxy ends TLS.
    pub behind_proxy: bool,
    /// Addresses of the proxies: they name the client (X-Forwarded-For), and the user.
    pub proxies: Vec<IpAddr>,
    /// What a proxy says of its users; `None`: it names none.
    pub sign_on: Option<SignOn>,
    /// A machine that delivered nothing for so long is silent.
    pub silent_after: Duration,
    /// Limits of what a client may ask for.
    pub limits: Limits,
    /// How often all series are judged, and alerts are looked for: it takes seconds where
    /// there are many machines.
    pub every: Duration,
    /// What raises an alert, and where it goes; `None`: nowhere.
    pub alerts: Option<Alerts>,
    /// Where metrics are pushed to; `None`: nowhere.
    pub push: Option<PushTo>,
    /// The latency that the classic buckets of the metrics stand around.
    pub requirement: Option<Nanos>,
    /// Series over time; none by default.
    pub trends: TrendSource,
    /// Events of outliers, and bundles; none by default.
    pub evidence: EvidenceSource,
}

/// Where metrics are pushed to, by OTLP over HTTP.
#[derive(Clone, Debug)]
pub struct PushTo {
    /// The whole URL: `http://collector:4318/v1/metrics`.
    pub url: String,
    /// How often.
    pub every: Duration,
}

/// A proxy that has logged its users in (single sign-on), and names them in a header.
#[derive(Clone, PartialEq, Eq)]
pub struct SignOn {
    /// The header with the name of the user, which the proxy sets or removes.
    pub header: String,
    /// What the proxy sends in [`PROXY_SECRET`](crate::PROXY_SECRET): every user of this
    /// machine reaches a server on a loopback address, and could name anybody.
    pub secret: String,
    /// Users that may change what people decide; all others read.
    pub admins: Vec<String>,
}

/// Without the secret.
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
    /// The certificate, with those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Limits of what a client may ask for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of a body as it is sent, in bytes.
    pub body: usize,
    /// Of a body without its compression, in bytes.
    pub unpacked: usize,
    /// Of all bodies that are received at once, in bytes.
    pub in_flight: usize,
    /// Connections at once.
    pub connections: usize,
    /// Connections at once from one address that is no proxy.
    pub connections_by_address: usize,
    /// For the head of a request, again for its body, and for each write of an answer.
    pub patience: Duration,
    /// For a request as a whole, until its answer begins.
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
    /// That of an address, with what is usual.
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
            evidence: EvidenceSource::default(),
        }
    }

    /// Whether each request needs a token.
    pub(crate) fn needs_login(&self) -> bool {
        self.login || self.sign_on.is_some() || !self.listen.ip().is_loopback()
    }

    /// Whether it may be served so.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        let safe = self.listen.ip().is_loopback() || self.tls.is_some() || self.behind_proxy;
        match safe {
            true => Ok(()),
            false => Err(ServeError::PlainOutside(self.listen)),
        }
    }
}
