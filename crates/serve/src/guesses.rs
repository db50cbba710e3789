//! Wrong tokens by address: guessing is limited.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens of one address in [`WINDOW`] after which no further one is looked at.
const GUESSES: u32 = 10;
/// How long wrong tokens are remembered.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
