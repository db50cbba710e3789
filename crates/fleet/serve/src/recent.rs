//! Counts recent events by a key that clients choose, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an event is remembered.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of keys. If there are more, the oldest key is forgotten.
const REMEMBERED: usize = 4_096;

/// Events of the last minute, counted by key.
#[derive(Debug)]
pub(crate) struct Recent<K>(Mutex<HashMap<K, (Instant, u32)>>);

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Recent<K> {
    /// Counts an event, and returns the number of events with its key in [`WINDOW`].
    pub(crate) fn count(&self, key: K) -> u32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED && !all.contains_key(&key) {
            all.retain(|_, (since, _)| since.elapsed() <= WINDOW);
            if all.len() >= REMEMBERED {
                let oldest = all.iter().min_by_key(|(_, (since, _))| *since);
                let oldest = oldest.map(|(key, _)| key.clone());
                oldest.and_then(|key| all.remove(&key));
            }
        }
        let entry = all.entry(key).or_insert_with(|| (Instant::now(), 0));
        if entry.0.elapsed() > WINDOW {
            *entry = (Instant::now(), 0);
        }
        entry.1 += 1;
        entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_key() {
        let recent = Recent::default();
        assert_eq!([recent.count(1), recent.count(1)], [1, 2]);
        assert_eq!(recent.count(2), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let recent = Recent::default();
        for key in 0..2 * REMEMBERED {
            assert_eq!(recent.count(key), 1);
        }
        assert!(recent.0.lock().unwrap().len() <= REMEMBERED);
    }
}
