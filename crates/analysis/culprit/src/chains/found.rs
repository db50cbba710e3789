//! Counts chains, and adds up their parts.

use std::collections::{BTreeMap, HashMap};

use punctual_model::{
    Chain, ChainEdge, ChainPart, ChainSpan, Nanos, SignedNanos, TraceChains, TraceEvent,
};

/// Number of the longest chains that are kept.
const LONGEST: usize = 5;

/// Maximum number of different edges, and of names of threads and interrupts.
const NAMES: usize = 1_000;

/// A chain that is not complete.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// Number of threads and interrupts that continue it.
    holders: u64,
    /// Whether it has reached its end.
    reached: bool,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) chains: TraceChains,
    live: HashMap<u64, Live>,
    ended_in: BTreeMap<String, u64>,
}

impl Found {
    pub(super) fn note(&mut self, event: &TraceEvent) {
        let from = self.chains.span.map_or(event.time, |(from, _)| from);
        self.chains.span = Some((from, event.time));
    }

    /// Notes the name of an interrupt.
    pub(super) fn interrupt(&mut self, name: &str, is_start: bool) {
        self.chains.start_seen |= is_start;
        let names = &mut self.chains.interrupts;
        if names.len() < NAMES && !names.contains(name) {
            names.insert(name.to_owned());
        }
    }

    /// Notes a thread.
    pub(super) fn thread(&mut self, is_start: bool, is_end: bool) {
        self.chains.start_seen |= is_start;
        self.chains.end_seen |= is_end;
    }

    /// Begins a chain with one holder. Returns its ID.
    pub(super) fn begin(&mut self) -> u64 {
        self.chains.begun += 1;
        let live = Live {
            holders: 1,
            reached: false,
        };
        self.live.insert(self.chains.begun, live);
        self.chains.begun
    }

    /// Another thread continues a chain.
    pub(super) fn hold(&mut self, id: u64) {
        if let Some(live) = self.live.get_mut(&id) {
            live.holders += 1;
        }
    }

    /// A thread or interrupt no longer continues a chain.
    pub(super) fn release(&mut self, id: u64, who: &str) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        live.holders -= 1;
        if live.holders > 0 {
            return;
        }
        if !live.reached && (self.ended_in.len() < NAMES || self.ended_in.contains_key(who)) {
            *self.ended_in.entry(who.to_owned()).or_default() += 1;
        }
        self.live.remove(&id);
    }

    /// The further course of a chain is unknown.
    pub(super) fn forget_one(&mut self, id: Option<u64>) {
        if let Some(live) = id.and_then(|id| self.live.remove(&id)) {
            self.chains.unknown += u64::from(!live.reached);
        }
    }

    /// The further course of all chains is unknown.
    pub(super) fn forget(&mut self) {
        let open = self.live.values().filter(|live| !live.reached);
        self.chains.unknown += open.count() as u64;
        self.live.clear();
        let mut ended: Vec<_> = self.ended_in.clone().into_iter().collect();
        ended.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        self.chains.ended_in = ended;
    }

    /// A chain has reached its end.
    pub(super) fn reached(&mut self, id: u64, spans: Vec<ChainSpan>, begin: Nanos, end: Nanos) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut live.reached, true) {
            return;
        }
        let chain = Chain { spans, begin, end };
        let latency = SignedNanos(i64::try_from(chain.latency().0).unwrap_or(i64::MAX));
        self.chains.latencies.record(latency);
        self.add_edges(&chain.spans);
        let longest = &mut self.chains.longest;
        longest.push(chain);
        longest.sort_by_key(|chain| std::cmp::Reverse(chain.latency()));
        longest.truncate(LONGEST);
    }

    fn add_edges(&mut self, spans: &[ChainSpan]) {
        let mut sums: Vec<(&str, ChainPart, Nanos)> = Vec::new();
        for span in spans {
            let same = |(who, part, _): &&mut (&str, ChainPart, Nanos)| {
                *who == span.who && *part == span.part
            };
            match sums.iter_mut().find(same) {
                Some((_, _, sum)) => *sum += span.length(),
                None => sums.push((&span.who, span.part, span.length())),
            }
        }
        let edges = &mut self.chains.edges;
        for (who, part, sum) in sums {
            let same = |edge: &&mut ChainEdge| edge.who == who && edge.part == part;
            if let Some(edge) = edges.iter_mut().find(same) {
                edge.chains += 1;
                edge.total += sum;
                edge.max = edge.max.max(sum);
            } else if edges.len() < NAMES {
                edges.push(ChainEdge {
                    who: who.to_owned(),
                    part,
                    chains: 1,
                    total: sum,
                    max: sum,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    fn span(who: &str, part: ChainPart, length: u64) -> ChainSpan {
        ChainSpan {
            who: who.to_owned(),
            tid: None,
            part,
            cpu: 0,
            from: us(0),
            to: us(length),
            behind: None,
        }
    }

    #[test]
    fn chain_ends_in_its_last_thread() {
        let mut found = Found::default();
        let id = found.begin();
        found.hold(id);
        found.release(id, "first");
        assert_eq!(found.live.len(), 1);
        found.release(id, "second");
        assert_eq!(found.live.len(), 0);
        // A chain that is over has no more threads.
        found.release(id, "third");
        found.hold(id);
        found.forget();
        assert_eq!(found.chains.ended_in, [("second".to_owned(), 1)]);
        assert_eq!((found.chains.begun, found.chains.unknown), (1, 0));
    }

    #[test]
    fn most_frequent_ends_come_first() {
        let mut found = Found::default();
        for who in ["a", "b", "b", "c"] {
            let id = found.begin();
            found.release(id, who);
        }
        found.forget();
        let names: Vec<(&str, u64)> = (found.chains.ended_in.iter())
            .map(|(who, times)| (who.as_str(), *times))
            .collect();
        assert_eq!(names, [("b", 2), ("a", 1), ("c", 1)]);
    }

    #[test]
    fn chain_that_reached_its_end_does_not_end_elsewhere() {
        let mut found = Found::default();
        let id = found.begin();
        found.hold(id);
        found.reached(
            id,
            vec![span("motor", ChainPart::Runs, 50)],
            us(100),
            us(150),
        );
        // The first arrival counts.
        found.reached(id, Vec::new(), us(100), us(900));
        found.release(id, "motor");
        found.release(id, "other");
        found.reached(id, Vec::new(), us(100), us(900));
        found.forget();
        let chains = &found.chains;
        assert_eq!(
            (chains.latencies.recorded(), chains.latencies.max()),
            (1, Some(us(50)))
        );
        assert_eq!((chains.ended_in.len(), chains.unknown), (0, 0));
    }

    #[test]
    fn chains_without_an_end_are_unknown() {
        let mut found = Found::default();
        let ids = [found.begin(), found.begin(), found.begin(), found.begin()];
        found.reached(ids[0], Vec::new(), us(0), us(1));
        found.reached(ids[1], Vec::new(), us(0), us(1));
        found.forget_one(Some(ids[1]));
        found.forget_one(Some(ids[2]));
        found.forget_one(Some(ids[2]));
        found.forget_one(None);
        assert_eq!(found.chains.unknown, 1);
        found.forget();
        assert_eq!(found.chains.unknown, 2);
        found.forget();
        assert_eq!(found.chains.unknown, 2);
    }

    #[test]
    fn longest_chains_are_kept() {
        let mut found = Found::default();
        for length in [3, 9, 1, 7, 5, 8, 2] {
            let id = found.begin();
            found.reached(id, Vec::new(), us(10), us(10 + length));
        }
        let longest = found.chains.longest.iter();
        let longest: Vec<u64> = longest.map(|chain| chain.latency().0 / 1_000).collect();
        assert_eq!(longest, [9, 8, 7, 5, 3]);
    }

    #[test]
    fn edges_sum_the_parts_of_each_chain() {
        use ChainPart::{Runs, Waits};
        let mut found = Found::default();
        for spans in [
            vec![
                span("a", Runs, 5),
                span("a", Waits, 3),
                span("a", Runs, 10),
                span("b", Runs, 1),
            ],
            vec![span("a", Runs, 7)],
        ] {
            let id = found.begin();
            found.reached(id, spans, us(0), us(20));
        }
        let edges: Vec<_> = (found.chains.edges.iter())
            .map(|edge| {
                let (total, max) = (edge.total.0 / 1_000, edge.max.0 / 1_000);
                (edge.who.as_str(), edge.part, edge.chains, total, max)
            })
            .collect();
        assert_eq!(
            edges,
            [
                ("a", Runs, 2, 22, 15),
                ("a", Waits, 1, 3, 3),
                ("b", Runs, 1, 1, 1)
            ]
        );
    }

    /// The names in a trace are unbounded.
    #[test]
    fn number_of_names_is_limited() {
        let mut found = Found::default();
        for number in 0..1_005 {
            let name = format!("{number:04}");
            found.interrupt(&name, false);
            let id = found.begin();
            found.hold(id);
            found.reached(id, vec![span(&name, ChainPart::Runs, 1)], us(0), us(1));
            let ended = found.begin();
            found.release(ended, &name);
        }
        assert_eq!(found.chains.interrupts.len(), 1_000);
        assert_eq!(found.chains.edges.len(), 1_000);
        assert_eq!(found.ended_in.len(), 1_000);
        // Known names are still counted.
        let id = found.begin();
        found.release(id, "0003");
        let id = found.begin();
        found.reached(id, vec![span("0003", ChainPart::Runs, 1)], us(0), us(1));
        assert_eq!(found.ended_in["0003"], 2);
        assert_eq!(found.chains.edges[3].chains, 2);
    }

    #[test]
    fn ends_of_the_chain_are_noted_when_they_are_seen() {
        let seen = |found: &Found| (found.chains.start_seen, found.chains.end_seen);
        let mut found = Found::default();
        found.interrupt("eth1", false);
        found.thread(false, false);
        assert_eq!(seen(&found), (false, false));
        found.thread(false, true);
        assert_eq!(seen(&found), (false, true));
        found.thread(true, false);
        found.interrupt("eth1", false);
        assert_eq!(seen(&found), (true, true));
        let mut other = Found::default();
        other.interrupt("eth0", true);
        assert_eq!(seen(&other), (true, false));
        let names: Vec<&String> = found.chains.interrupts.iter().collect();
        assert_eq!(names, ["eth1"]);
    }
}
