//! Clients that are refused. Each refusal is counted, and logged at most once a minute.

use std::net::IpAddr;

use axum::http::StatusCode;

use crate::log::complain;
use crate::problem::Problem;
use crate::recent::{Recent, WINDOW};

/// Number of wrong tokens in [`WINDOW`], from one address or with the same beginning, after which
/// the client is told to wait.
const GUESSES: u32 = 10;
/// Wrong tokens are counted by their beginning of this length: the common prefix and 24 bits.
const BEGINNING: usize = "punctual_".len() + 6;

/// Clients that were refused recently.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    addresses: Recent<IpAddr>,
    beginnings: Recent<String>,
    logged: Recent<(&'static str, String)>,
}

impl Refusals {
    /// Counts a wrong token, and returns the answer to it. This is never called for a valid token,
    /// so no client is locked out by the guesses of another.
    pub(crate) fn wrong_token(&self, from: IpAddr, token: &str) -> Problem {
        self.log("wrong token", from);
        let beginning = token.chars().take(BEGINNING).collect();
        let guesses = (self.addresses.count(from)).max(self.beginnings.count(beginning));
        if guesses <= GUESSES {
            return Problem::new(StatusCode::UNAUTHORIZED, "this token is unknown");
        }
        let message = "too many wrong tokens: try again in a minute";
        Problem::busy(message, WINDOW.as_secs() as u32)
    }

    /// Logs why a client is refused, at most once a minute for each reason and address or machine.
    pub(crate) fn log(&self, reason: &'static str, from: impl ToString) {
        let from = from.to_string();
        if self.logged.count((reason, from.clone())) == 1 {
            complain(&format!(
                "refused {from}: {reason} (logged once a minute at most)"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_count_by_address_and_prefix() {
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let refusals = Refusals::default();
        let status = |from, token: &str| refusals.wrong_token(from, token).status.as_u16();
        for number in 0..GUESSES {
            assert_eq!(status(one, &format!("{number}")), 401);
        }
        assert_eq!(status(one, "x"), 429);
        assert_eq!(status(other, "x"), 401);
        // A client that guesses from many addresses.
        let from = |number| format!("10.1.0.{number}").parse().unwrap();
        let guess = |number| status(from(number), &format!("punctual_abcdef{number}"));
        assert!((0..GUESSES).all(|number| guess(number) == 401));
        assert_eq!(guess(GUESSES), 429);
    }
}
