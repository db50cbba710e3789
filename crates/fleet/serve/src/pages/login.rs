//! The login of a browser, which stores a token as a cookie.

use axum::extract::{Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Form};
use maud::html;
use punctual_store::Role;
use serde::Deserialize;

use super::{LOGIN, frame};
use crate::access::{COOKIE, Client, bearer};
use crate::problem::Problem;
use crate::state::App;

/// How long a browser keeps the token, in seconds.
const DAYS_30: u32 = 30 * 86_400;

#[derive(Deserialize)]
pub(super) struct To {
    #[serde(default)]
    to: String,
}

pub(super) async fn form(State(app): State<App>, Query(To { to }): Query<To>) -> Html<String> {
    let body = html! {
        h1 { "Log in" }
        form .filter method="post" action="/login" {
            input type="hidden" name="to" value=(punctual_model::sanitize(&to));
            label { "Token " input type="password" name="token" required autocomplete="off" size="40"; }
            button { "Log in" }
        }
        p .faint { "Create a token with: punctual-server enrol NAME --role viewer" }
    };
    frame(&app, "Log in", LOGIN, &body)
}

#[derive(Deserialize)]
pub(super) struct Login {
    token: String,
    #[serde(default)]
    to: String,
}

/// Returns the path on this server to continue with after the login. `//x` and `/\x` would lead to
/// other servers.
fn path_of(to: &str) -> &str {
    let mut characters = to.chars();
    let first = characters.next() == Some('/');
    let plain = to.bytes().all(|b| b.is_ascii_graphic());
    if first && plain && !matches!(characters.next(), Some('/' | '\\')) {
        to
    } else {
        "/"
    }
}

pub(super) async fn login(
    State(app): State<App>,
    Extension(Client(from)): Extension<Client>,
    Form(Login { token, to }): Form<Login>,
) -> Result<Response, Problem> {
    let token = token.trim();
    let known = bearer(&app, from, token).await?;
    if known.role == Role::Machine {
        let message = "this token belongs to a machine, which can push recordings but not read \
            them";
        return Err(Problem::new(StatusCode::FORBIDDEN, message));
    }
    let mut response = Redirect::to(path_of(&to)).into_response();
    set_cookie(&app, &mut response, token, DAYS_30);
    Ok(response)
}

pub(super) async fn logout(State(app): State<App>) -> Response {
    let mut response = Redirect::to("/login").into_response();
    set_cookie(&app, &mut response, "", 0);
    response
}

fn set_cookie(app: &App, response: &mut Response, token: &str, seconds: u32) {
    let secure = if app.config.tls.is_some() || app.config.behind_proxy {
        "; Secure"
    } else {
        ""
    };
    let cookie =
        format!("{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    // This does not fail, because a valid token contains only characters that headers allow.
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_this_server_only() {
        assert_eq!(path_of("/machine?name=a"), "/machine?name=a");
        for foreign in [
            "",
            "//evil.example",
            "/\\evil",
            "http://evil",
            "/a\r\nb",
            "x",
        ] {
            assert_eq!(path_of(foreign), "/", "{foreign}");
        }
    }
}
