//! The stretches of a late reaction, summed up into shares.

use std::collections::BTreeMap;

use punctual_model::{Blame, Nanos, Segment, Share, ShareKind, Window};

use crate::sentence;
use crate::walk::{Story, walk};

/// Who took the time between the expected and the actual one, as stretches:
/// without gaps, in order, none empty. What is drawn in a picture.
pub fn segments(window: &Window) -> Vec<Segment> {
    walk(window).0
}

/// Who took which part of a late reaction.
///
/// The shares add up to [`Window::latency`] exactly and none is negative,
/// whatever the events are. The largest is the culprit; of equals the first,
/// and something that is known before something that is not.
pub fn blame(window: &Window) -> Blame {
    let (segments, story) = walk(window);
    let shares = shares(&segments);
    of_shares(window, shares, &segments, &story)
}

fn of_shares(window: &Window, shares: Vec<Share>, segments: &[Segment], story: &Story) -> Blame {
    let largest = largest(&shares);
    let of_largest = |segment: &&Segment| {
        largest.is_some_and(|share| share.kind == segment.kind && share.who == segment.who)
    };
    let stretches = segments.iter().filter(of_largest);
    let longest = stretches.max_by_key(|segment| segment.length());
    Blame {
        culprit_end_ns: longest.map(|segment| segment.to),
        culprit: largest.map_or_else(|| "nothing".to_owned(), culprit_name),
        sentence: sentence::of(window, &shares, largest, story),
        events_lost: window.lost,
        shares,
    }
}

/// The share that is the culprit.
pub(crate) fn largest(shares: &[Share]) -> Option<&Share> {
    shares.iter().rev().max_by_key(|share| {
        let known = share.kind != ShareKind::Unexplained;
        (share.ns, known)
    })
}

fn culprit_name(share: &Share) -> String {
    match share.who.is_empty() {
        true => share.kind.name().to_owned(),
        false => format!("{}: {}", share.kind.name(), share.who),
    }
}

/// Stretches of the same kind and source as one share, in the order in which
/// each first came. Of several details the one that took most of the time
/// stands for all, one that says something before none.
fn shares(segments: &[Segment]) -> Vec<Share> {
    let mut sums: Vec<Sum<'_>> = Vec::new();
    let mut before: Option<usize> = None;
    for segment in segments {
        let found = sums
            .iter()
            .position(|sum| sum.of.kind == segment.kind && sum.of.who == segment.who);
        let at = found.unwrap_or(sums.len());
        if found.is_none() {
            sums.push(Sum::new(segment));
        }
        // One that goes on with another detail is still the same time.
        sums[at].add(segment, before != Some(at));
        before = Some(at);
    }
    sums.into_iter().map(Sum::share).collect()
}

/// A share that grows.
struct Sum<'a> {
    of: &'a Segment,
    ns: Nanos,
    count: u32,
    details: BTreeMap<&'a str, Nanos>,
}

impl<'a> Sum<'a> {
    const fn new(of: &'a Segment) -> Self {
        Self {
            of,
            ns: Nanos::ZERO,
            count: 0,
            details: BTreeMap::new(),
        }
    }

    fn add(&mut self, segment: &'a Segment, anew: bool) {
        self.ns += segment.length();
        self.count = self.count.saturating_add(anew.into());
        if let Some(detail) = &segment.detail {
            *self.details.entry(detail).or_default() += segment.length();
        }
    }

    fn share(self) -> Share {
        let detail = self.details.iter().max_by_key(|(_, ns)| **ns);
        Share {
            kind: self.of.kind,
            who: self.of.who.clone(),
            ns: self.ns,
            count: self.count,
            detail: detail.map(|(detail, _)| (*detail).to_owned()),
        }
    }
}
