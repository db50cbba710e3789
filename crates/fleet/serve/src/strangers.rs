//! Machines that use the token of another machine.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// Maximum number of refused machines to remember.
const STRANGERS: usize = 1_000;

/// Machines that were refused, by token and name, with the time of the first request.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<BTreeMap<(String, String), Timestamp>>);

impl Strangers {
    /// Adds a machine, and returns whether it is new.
    pub(crate) fn add(&self, token: &str, name: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (token.to_owned(), name.to_owned());
        let is_new = all.len() < STRANGERS && !all.contains_key(&place);
        if is_new {
            all.insert(place, Timestamp::now());
        }
        is_new
    }

    /// Returns the refused machines that used the token of `name`: their names, and since when.
    pub(crate) fn named(&self, name: &str) -> Vec<(String, Timestamp)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.iter().filter(|((token, _), _)| token == name);
        own.map(|((_, stranger), since)| (stranger.clone(), *since))
            .collect()
    }
}
