//! Events of several CPUs in the order of their time.

use std::time::Duration;

use punctual_model::Nanos;

/// CPUs are read one after the other, and an event may be written for a moment: what is
/// newer than this when the first CPU is read waits for what another CPU has of that time.
pub const HELD_BACK: Duration = Duration::from_millis(2);

/// What was read and is too new to be handed on.
#[derive(Debug)]
pub(crate) struct Ordered<T>(Vec<T>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Ordered<T> {
    /// Adds what was read from `now` on, that of each CPU in its order; what is old enough,
    /// by its key. The first part of a key is a time.
    pub(crate) fn add<K: Ord>(
        &mut self,
        read: Vec<T>,
        now: Nanos,
        key: impl Fn(&T) -> (Nanos, K),
    ) -> Vec<T> {
        let until = now.saturating_sub(Nanos::from(HELD_BACK));
        let mut all = std::mem::take(&mut self.0);
        all.extend(read);
        // Stable: what a CPU has of one time stays in its order.
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
    fn what_one_cpu_has_later_comes_in_its_order() {
        let mut ordered = Ordered::default();
        let key = |one: &(u64, char)| (Nanos::from_millis(one.0), ());
        let now = Nanos::from_millis(12);
        let first = ordered.add(vec![(9, 'a'), (11, 'b'), (3, 'c')], now, key);
        assert_eq!(first, [(3, 'c'), (9, 'a')]);
        // The other CPU was read before it had written this.
        let second = ordered.add(vec![(11, 'd'), (10, 'e')], Nanos::from_millis(32), key);
        assert_eq!(second, [(10, 'e'), (11, 'b'), (11, 'd')]);
        assert!(ordered.add(Vec::new(), now, key).is_empty());
    }
}
