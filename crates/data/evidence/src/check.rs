//! One part of a verification.

use serde::Serialize;

/// Whether something that was checked holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It holds.
    Holds,
    /// It does not hold.
    Broken,
    /// The recording does not show it.
    Unknown,
}

/// One part of the verification.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Name of the check.
    pub what: &'static str,
    /// Whether it holds.
    pub state: State,
    /// Finding in words.
    pub found: String,
}

impl Check {
    pub(crate) fn new(what: &'static str, holds: bool, found: String) -> Self {
        let state = if holds { State::Holds } else { State::Broken };
        Self { what, state, found }
    }
}
