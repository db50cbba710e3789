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
