//! Access control: which clients may do what.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual_push::protocol::sha256;
use punctual_store::{Role, Token};
use subtle::ConstantTimeEq;

use crate::config::SignOn;
use crate::problem::Problem;
use crate::seats::Seat;
use crate::sender;
use crate::state::App;

/// The permission that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// No permission, as for the health check and the login.
    Open,
    /// Read access.
    Read,
    /// Permission to deliver data.
    Deliver,
    /// Permission to make or change the decisions of users, and to see who made them.
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

/// The client that makes a request.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    /// A user on this machine, if no login is required.
    Local,
    /// The owner of a token.
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

/// The cookie of a browser that is logged in.
pub(crate) const COOKIE: &str = "punctual_token";
/// Returns the token of a request, from its header or from the browser's cookie.
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

/// Returns the token that the client presented, if it is valid.
///
/// # Errors
/// Returns an error if the token is wrong, or if the store cannot be read.
pub(crate) async fn bearer(app: &App, from: IpAddr, token: &str) -> Result<Token, Problem> {
    let hash = sha256(token.as_bytes());
    let found = app.tokens.ask(hash.clone()).await?;
    let fits = |one: &Token| bool::from(one.sha256.as_bytes().ct_eq(hash.as_bytes()));
    (found.filter(fits)).ok_or_else(|| app.refusals.wrong_token(from, token))
}

/// Returns the user that a proxy names, or `None` if it names none.
///
/// # Errors
/// Returns an error if the name did not come from the proxy, or if the name is invalid.
fn signed_on(
    sign_on: Option<&SignOn>,
    is_proxy: bool,
    headers: &HeaderMap,
) -> Result<Option<Token>, Problem> {
    let Some(sign_on) = sign_on else {
        return Ok(None);
    };
    let mut named = headers.get_all(sign_on.header.as_str()).iter();
    let Some(value) = named.next() else {
        return Ok(None);
    };
    let refuse = |message: &str| Err(Problem::new(StatusCode::FORBIDDEN, message));
    let secret = headers.get(PROXY_SECRET).map(HeaderValue::as_bytes);
    let is_secret = secret.is_some_and(|sent| bool::from(sent.ct_eq(sign_on.secret.as_bytes())));
    if !is_proxy || !is_secret {
        return refuse(
            "the user header is accepted only from the proxy and with the shared secret",
        );
    }
    let name = value.to_str().ok().map(str::trim);
    let name = name.filter(|name| !name.is_empty() && name.len() <= USER);
    match (name, named.next()) {
        (Some(name), None) => Ok(Some(Token {
            role: if sign_on.admins.iter().any(|admin| admin == name) {
                Role::Admin
            } else {
                Role::Viewer
            },
            name: name.to_owned(),
            sha256: String::new(),
            created: jiff::Timestamp::now(),
            machine: None,
        })),
        _ => refuse("the user header must name exactly one user"),
    }
}

/// The header with the secret that a proxy shares with this server.
pub const PROXY_SECRET: &str = "punctual-proxy-secret";
/// The header to which a proxy appends its client's address.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of the client that sent a request, not of a proxy in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) IpAddr);

/// Returns the last address that does not belong to one of our proxies. Clients can forge the
/// addresses before it.
pub(crate) fn client(proxies: &[IpAddr], from: IpAddr, headers: &HeaderMap) -> Client {
    let from = from.to_canonical();
    if !proxies.contains(&from) {
        return Client(from);
    }
    let lists = headers.get_all(FORWARDED_FOR).iter();
    let addresses: Vec<&str> = (lists.filter_map(|list| list.to_str().ok()))
        .flat_map(|list| list.split(','))
        .collect();
    let mut client = from;
    for address in addresses.into_iter().rev() {
        let Ok(address) = address.trim().parse::<IpAddr>() else {
            break;
        };
        client = address.to_canonical();
        if !proxies.contains(&client) {
            break;
        }
    }
    Client(client)
}

/// Maximum length of a user name, in bytes.
const USER: usize = 256;

/// Returns whether the host that the request names is this machine.
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

/// Returns whether the request comes from a page of another site.
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

/// Admits a request if the client has permission, and adds the client to the request.
pub(crate) async fn guard(
    State((app, need)): State<(App, Need)>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let proxies = &app.config.proxies;
    let client = client(proxies, from.ip(), &headers);
    let is_proxy = proxies.contains(&from.ip().to_canonical());
    match admit(&app, need, (client, is_proxy), &method, &headers).await {
        Ok(who) => {
            if let (Who::Bearer(_), Some(seat)) = (&who, request.extensions().get::<Arc<Seat>>()) {
                seat.is_known();
            }
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn admit(
    app: &App,
    need: Need,
    (Client(from), is_proxy): (Client, bool),
    method: &Method,
    headers: &HeaderMap,
) -> Result<Who, Problem> {
    let refuse = |message: &str| Err(Problem::new(StatusCode::FORBIDDEN, message));
    let changes = !matches!(*method, Method::GET | Method::HEAD);
    if changes && is_cross_site(headers) {
        return refuse("a page of another site may not change data on this server");
    }
    if !app.config.needs_login() {
        return if is_local_host(headers) {
            Ok(Who::Local)
        } else {
            refuse("without login, this server accepts only requests to the name localhost")
        };
    }
    if need == Need::Open {
        return Ok(Who::Local);
    }
    let user = signed_on(app.config.sign_on.as_ref(), is_proxy, headers);
    let user = user.inspect_err(|_| {
        app.refusals
            .log("sent a user header but is not the proxy", from)
    })?;
    if let Some(user) = user {
        return if need.is_met_by(user.role) {
            Ok(Who::Bearer(user))
        } else {
            refuse("the role of this user does not allow this request")
        };
    }
    let Some(token) = presented(headers).map(str::to_owned) else {
        let message = "this request needs a token in the header Authorization: Bearer TOKEN";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, message));
    };
    let token = bearer(app, from, &token).await?;
    sender::check(app, &token, headers).await?;
    if need.is_met_by(token.role) {
        Ok(Who::Bearer(token))
    } else {
        refuse("the role of this token does not allow this request")
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
    fn only_proxy_with_secret_names_user() {
        let sign_on = SignOn {
            header: "x-forwarded-user".to_owned(),
            secret: "0123456789abcdef".to_owned(),
            admins: vec!["eve".to_owned()],
        };
        let ask = |is_proxy, pairs: &[(&'static str, &str)]| {
            let user = signed_on(Some(&sign_on), is_proxy, &headers(pairs));
            user.map(|user| user.map(|user| (user.name, user.role)))
                .map_err(|problem| problem.status)
        };
        let secret = (PROXY_SECRET, "0123456789abcdef");
        let user = ("x-forwarded-user", "bob");
        let admin = ("x-forwarded-user", "eve");
        let found = |name: &str, role| Ok(Some((name.to_owned(), role)));
        assert_eq!(ask(true, &[user, secret]), found("bob", Role::Viewer));
        assert_eq!(ask(true, &[admin, secret]), found("eve", Role::Admin));
        assert_eq!(ask(true, &[]), Ok(None));
        let refused = Err(StatusCode::FORBIDDEN);
        assert_eq!(ask(true, &[admin]), refused);
        let wrong = (PROXY_SECRET, "0123456789abcdeF");
        assert_eq!(ask(true, &[admin, wrong]), refused);
        assert_eq!(ask(false, &[admin, secret]), refused);
        assert_eq!(ask(true, &[("x-forwarded-user", " "), secret]), refused);
    }

    #[test]
    fn a_proxy_names_its_client() {
        let proxies = ["127.0.0.1", "10.0.0.9"].map(|text| text.parse().unwrap());
        let ask = |from: &str, lists: &[&str]| {
            let pairs: Vec<_> = lists.iter().map(|list| (FORWARDED_FOR, *list)).collect();
            client(&proxies, from.parse().unwrap(), &headers(&pairs))
                .0
                .to_string()
        };
        assert_eq!(ask("127.0.0.1", &["192.0.2.7"]), "192.0.2.7");
        // Addresses before the last foreign address may be forged.
        assert_eq!(
            ask("127.0.0.1", &["198.51.100.1, 192.0.2.7, 10.0.0.9"]),
            "192.0.2.7"
        );
        assert_eq!(ask("::ffff:127.0.0.1", &["192.0.2.7"]), "192.0.2.7");
        assert_eq!(ask("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(ask("127.0.0.1", &["x"]), "127.0.0.1");
        // The header is trusted only if it comes from a proxy.
        assert_eq!(ask("192.0.2.8", &["192.0.2.7"]), "192.0.2.8");
    }

    #[test]
    fn token_comes_from_header_or_cookie() {
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
