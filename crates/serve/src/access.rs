//! Who may do what.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual_store::{Role, Token};
use subtle::ConstantTimeEq;

use crate::problem::Problem;
use crate::state::App;
use crate::token::sha256;

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: whether the server lives, and the login.
    Open,
    /// To read.
    Read,
    /// To deliver.
    Deliver,
    /// To change what people decide, and to see who did.
    Change,
}

impl Need {
    const fn is_met_by(self, role: Role) -> bool {
        match self {
            Self::Open => true,
            Self::Read => matches!(role, Role::Viewer | Role::Admin),
            Self::Deliver => matches!(role, Role::Machine),
            Self::Change => matches!(role, Role::Admin),
        }
    }
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    /// Somebody on this machine, where no login is asked for.
    Local,
    /// The bearer of a token.
    Bearer(Token),
}

impl Who {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Bearer(token) => &token.name,
        }
    }
}

/// The cookie of a browser that has logged in.
pub(crate) const COOKIE: &str = "punctual_token";
/// Wrong tokens of one address in [`WINDOW`] after which no further one is looked at.
const GUESSES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered: beyond, the oldest are forgotten.
const REMEMBERED: usize = 4_096;

/// Wrong tokens by address.
#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Guesses {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<IpAddr, (Instant, u32)>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a token of this address is looked at.
    pub(crate) fn allowed(&self, from: IpAddr) -> bool {
        self.with(|all| {
            all.get(&from)
                .is_none_or(|(since, wrong)| since.elapsed() > WINDOW || *wrong < GUESSES)
        })
    }

    /// Counts a wrong one.
    pub(crate) fn count(&self, from: IpAddr) {
        self.with(|all| {
            if all.len() >= REMEMBERED {
                all.retain(|_, (since, _)| since.elapsed() <= WINDOW);
            }
            if all.len() >= REMEMBERED {
                let oldest = all.iter().min_by_key(|(_, (since, _))| *since);
                let oldest = oldest.map(|(address, _)| *address);
                oldest.and_then(|address| all.remove(&address));
            }
            let entry = all.entry(from).or_insert_with(|| (Instant::now(), 0));
            if entry.0.elapsed() > WINDOW {
                *entry = (Instant::now(), 0);
            }
            entry.1 += 1;
        });
    }
}

/// The token of a request: of its header, or of the cookie of a browser.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let text = |name| headers.get(name)?.to_str().ok();
    if let Some(value) = text(header::AUTHORIZATION) {
        let (scheme, token) = value.split_once(' ')?;
        return scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim());
    }
    text(header::COOKIE)?
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// The token that was presented, if it is one.
///
/// # Errors
/// A wrong token, too many of them, and what reading can fail with.
pub(crate) async fn bearer(app: &App, from: IpAddr, token: &str) -> Result<Token, Problem> {
    if !app.guesses.allowed(from) {
        let message = "too many wrong tokens from this address: try again in a minute";
        return Err(Problem::busy(message, WINDOW.as_secs() as u32));
    }
    let hash = sha256(token.as_bytes());
    let wanted = hash.clone();
    let found = app.stored(move |all| all.token(&wanted)).await?;
    let fits = |one: &Token| bool::from(one.sha256.as_bytes().ct_eq(hash.as_bytes()));
    found.filter(fits).ok_or_else(|| {
        app.guesses.count(from);
        Problem::new(StatusCode::UNAUTHORIZED, "this token is not known")
    })
}

/// Whether the host that the request names is this machine.
fn is_local_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
    else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a page of another site makes the request.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let (Some(origin), Some(host)) = (text("origin"), text("host")) else {
        return false;
    };
    origin.split_once("://").map(|(_, host)| host) != Some(host)
}

/// Lets a request pass that may, and says who makes it.
pub(crate) async fn guard(
    State((app, need)): State<(App, Need)>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, headers) = (request.method().clone(), request.headers().clone());
    match admit(&app, need, from, &method, &headers).await {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn admit(
    app: &App,
    need: Need,
    from: SocketAddr,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Who, Problem> {
    let refuse = |message: &str| Err(Problem::new(StatusCode::FORBIDDEN, message));
    let changes = !matches!(*method, Method::GET | Method::HEAD);
    if changes && is_cross_site(headers) {
        return refuse("a page of another site may not change anything here");
    }
    if !app.config.needs_login() {
        return match is_local_host(headers) {
            true => Ok(Who::Local),
            false => refuse("without login this server answers to the name localhost only"),
        };
    }
    if need == Need::Open {
        return Ok(Who::Local);
    }
    let Some(token) = presented(headers).map(str::to_owned) else {
        let message = "a token is needed: Authorization: Bearer TOKEN";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, message));
    };
    let token = bearer(app, from.ip(), &token).await?;
    match need.is_met_by(token.role) {
        true => Ok(Who::Bearer(token)),
        false => refuse("the role of this token does not allow it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    value.parse().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8090", "[::1]:8090"] {
            assert!(is_local_host(&headers(&[("host", host)])), "{host}");
        }
        for host in ["example.org", "127.0.0.1.example.org:80", "", "[::2]:1"] {
            assert!(!is_local_host(&headers(&[("host", host)])), "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_known() {
        let host = ("host", "localhost:8090");
        let foreign = [
            [host, ("sec-fetch-site", "cross-site")],
            [host, ("sec-fetch-site", "same-site")],
            [host, ("origin", "http://evil.example")],
            [host, ("origin", "null")],
        ];
        assert!(foreign.iter().all(|one| is_cross_site(&headers(one))));
        let own = [
            [host, ("sec-fetch-site", "same-origin")],
            [host, ("origin", "http://localhost:8090")],
            [host, ("accept", "*/*")],
        ];
        assert!(!own.iter().any(|one| is_cross_site(&headers(one))));
    }

    #[test]
    fn guesses_are_limited_by_address() {
        let guesses = Guesses::default();
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        for _ in 0..GUESSES {
            assert!(guesses.allowed(one));
            guesses.count(one);
        }
        assert!(!guesses.allowed(one));
        assert!(guesses.allowed(other));
    }

    #[test]
    fn a_token_is_read_from_header_or_cookie() {
        let of = |pair| presented(&headers(&[pair])).map(str::to_owned);
        assert_eq!(of(("authorization", "Bearer x")).as_deref(), Some("x"));
        assert_eq!(of(("authorization", "Basic x")), None);
        assert_eq!(
            of(("cookie", "a=b; punctual_token=y")).as_deref(),
            Some("y")
        );
        assert_eq!(of(("cookie", "xpunctual_token=y")), None);
    }
}
