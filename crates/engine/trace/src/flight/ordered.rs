//! Sorts the events of several CPUs by time.

use std::time::Duration;

use punctual_model::Nanos;

/// How long new events are held back. This is necessary because CPUs are read one after the other,
/// and because writing an event takes a moment. An event that is younger than this when the first
/// CPU is read is held back until the other CPUs have been read up to its time.
pub const HELD_BACK: Duration = Duration::from_millis(2);

/// Events that have been read but are still too new to be passed on.
#[derive(Debug)]
pub(crate) struct Ordered<T>(Vec<T>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Ordered<T> {
    /// Adds the events of a read that began at `now`. The events of each CPU must already be in
    /// order. Returns the events that are old enough, sorted by their keys. Each key starts with a
    /// time.
    pub(crate) fn add<K: Ord>(
        &mut self,
        read: Vec<T>,
        now: Nanos,
        key: impl Fn(&T) -> (Nanos, K),
    ) -> Vec<T> {
        let until = now.saturating_sub(Nanos::from(HELD_BACK));
        let mut all = std::mem::take(&mut self.0);
        all.extend(read);
        // The sort is stable: events of one CPU with equal times keep their order.
        all.sort_by_key(&key);
        let old = all.partition_point(|one| key(one).0 <= until);
        self.0 = all.split_off(old);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_records_of_a_cpu_are_ordered() {
        let mut ordered = Ordered::default();
        let key = |one: &(u64, char)| (Nanos::from_millis(one.0), ());
        let now = Nanos::from_millis(12);
        let first = ordered.add(vec![(9, 'a'), (11, 'b'), (3, 'c')], now, key);
        assert_eq!(first, [(3, 'c'), (9, 'a')]);
        // The other CPU had already been read when this event was written.
        let second = ordered.add(vec![(11, 'd'), (10, 'e')], Nanos::from_millis(32), key);
        assert_eq!(second, [(10, 'e'), (11, 'b'), (11, 'd')]);
        assert!(ordered.add(Vec::new(), now, key).is_empty());
    }
}
