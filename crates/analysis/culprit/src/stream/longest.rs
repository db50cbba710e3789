//! The longest late reactions.

use punctual_model::Nanos;

use super::Reaction;

/// Maximum number of events in all windows that are kept. They take about 100 MB.
const EVENTS: usize = 1_000_000;

/// The longest reactions, limited in number and in events.
#[derive(Debug)]
pub(super) struct Longest {
    most: usize,
    list: Vec<Reaction>,
}

impl Longest {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            list: Vec::new(),
        }
    }

    /// Returns whether a reaction of this length would be kept now.
    pub(super) fn takes(&self, latency: Nanos) -> bool {
        let room = self.list.len() < self.most;
        room || self.list.iter().any(|kept| kept.window.latency() < latency)
    }

    pub(super) fn add(&mut self, reaction: Reaction) {
        self.list.push(reaction);
        while self.list.len() > self.most || (self.events() > EVENTS && self.list.len() > 1) {
            let latencies = self.list.iter().map(|kept| kept.window.latency());
            // Of reactions with equal length, the earlier one is kept.
            let shortest = latencies
                .enumerate()
                .rev()
                .min_by_key(|(_, latency)| *latency);
            let Some((place, _)) = shortest else { return };
            self.list.remove(place);
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Reaction> {
        self.list.iter_mut()
    }

    fn events(&self) -> usize {
        self.list.iter().map(|kept| kept.window.events.len()).sum()
    }

    /// Removes the reactions of a thread that end at this time or later.
    pub(super) fn remove(&mut self, tid: u32, from: Nanos) {
        self.list
            .retain(|kept| kept.window.victim.tid != tid || kept.window.actual < from);
    }

    pub(super) fn into_list(self) -> Vec<Reaction> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{VICTIM, window};

    /// A reaction that ends at a time and has a length, in µs.
    fn reaction(end: u64, length: u64) -> Reaction {
        Reaction {
            window: window(end - length, end, Vec::new()),
            stated: None,
            is_over: false,
            waker: None,
            sample: None,
            timer_calls: Default::default(),
        }
    }

    fn of(most: usize, reactions: &[(u64, u64)]) -> Longest {
        let mut longest = Longest::new(most);
        for (end, length) in reactions {
            longest.add(reaction(*end, *length));
        }
        longest
    }

    /// The ends of the kept reactions in µs.
    fn ends(longest: Longest) -> Vec<u64> {
        let list = longest.into_list().into_iter();
        list.map(|kept| kept.window.actual.0 / 1_000).collect()
    }

    #[test]
    fn longest_are_kept_and_of_equal_ones_the_earliest() {
        let all = [(100, 5), (200, 9), (300, 5), (400, 7), (500, 5)];
        assert_eq!(ends(of(5, &all)), [100, 200, 300, 400, 500]);
        assert_eq!(ends(of(4, &all)), [100, 200, 300, 400]);
        assert_eq!(ends(of(2, &all)), [200, 400]);
        assert_eq!(ends(of(1, &all)), [200]);
        assert!(ends(of(0, &all)).is_empty());
    }

    #[test]
    fn only_longer_ones_displace_others() {
        let longest = of(2, &[(100, 5), (200, 9)]);
        let takes = |longest: &Longest, us| longest.takes(Nanos::from_micros(us));
        assert!(takes(&longest, 6) && !takes(&longest, 5));
        // There is room for any.
        assert!(takes(&of(3, &[(100, 5), (200, 9)]), 1));
        assert!(!takes(&of(0, &[]), 1_000));
    }

    #[test]
    fn later_reactions_of_a_thread_can_be_removed() {
        let removed = |tid, from| {
            let mut longest = of(9, &[(100, 5), (200, 9), (300, 7)]);
            longest.remove(tid, Nanos::from_micros(from));
            ends(longest)
        };
        assert_eq!(removed(VICTIM, 200), [100]);
        assert_eq!(removed(VICTIM, 201), [100, 200]);
        assert_eq!(removed(VICTIM + 1, 0), [100, 200, 300]);
    }
}
