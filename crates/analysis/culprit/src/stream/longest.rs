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
