//! Sums the stretches of a late reaction into shares.

use punctual_model::{Blame, Nanos, Segment, Share, ShareKind, UnseenTheft, Usual, Window};

use crate::cause::{Cause, Detail};
use crate::sentence;
use crate::stretch::Stretch;
use crate::walk::walk;

/// Added to the sentence of an outlier that neither the application nor the machine caused.
const BY_OBSERVER: &str = " This program caused it, by recording the events.";

/// Splits the time from expected to actual by cause, for a plot. The segments are in order, without
/// gaps and never empty.
pub fn segments(window: &Window) -> Vec<Segment> {
    let (stretches, _) = walk(window);
    stretches.iter().map(|one| one.segment(window)).collect()
}

/// Result of the analysis of a late reaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its causes.
    pub blame: Blame,
    /// Whether the program that recorded the events took the largest share itself.
    pub by_observer: bool,
}

/// Returns the causes of a late reaction, each with its share.
///
/// The shares add up to [`Window::latency`] exactly and none is negative, for any events. The
/// largest share is the culprit. If several are equal, the first one wins, and a known cause wins
/// over an unknown one.
pub fn find(window: &Window) -> Found {
    let (stretches, moved) = walk(window);
    let sums = sums(&stretches);
    let shares: Vec<Share> = sums.iter().map(|sum| sum.share(window)).collect();
    let largest = largest(&shares);
    // Shares and sums are in the same order.
    let mut both = sums.iter().zip(&shares);
    let sum = both.find(|(_, share)| largest.is_some_and(|largest| std::ptr::eq(*share, largest)));
    let longest = sum.and_then(|(sum, _)| {
        let own = stretches
            .iter()
            .filter(|one| one.cause.source == sum.of.source);
        own.max_by_key(|one| one.length())
    });
    let observer = &window.evidence.observer;
    let by_observer = sum.is_some_and(|(sum, _)| sum.of.source.is_of(observer));
    let mut sentence = sentence::of(window, &shares, largest, moved);
    if by_observer {
        sentence.push_str(BY_OBSERVER);
    }
    Found {
        blame: Blame {
            culprit_end_ns: longest.map(|stretch| stretch.to),
            culprit: largest.map_or_else(|| "nothing".to_owned(), culprit_name),
            sentence,
            events_lost: window.lost,
            shares,
        },
        by_observer,
    }
}

/// Returns the share of the culprit.
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

/// Sums the stretches of each source into one share, in order of first appearance.
fn sums(stretches: &[Stretch]) -> Vec<Sum<'_>> {
    let mut sums: Vec<Sum<'_>> = Vec::new();
    let mut before: Option<usize> = None;
    for stretch in stretches {
        let found = sums
            .iter()
            .position(|sum| sum.of.source == stretch.cause.source);
        let at = found.unwrap_or(sums.len());
        if found.is_none() {
            sums.push(Sum::new(&stretch.cause));
        }
        // A stretch that continues the previous source with another detail is not counted again.
        sums[at].add(stretch, before != Some(at));
        before = Some(at);
    }
    sums
}

/// A share under construction.
struct Sum<'a> {
    of: &'a Cause,
    ns: Nanos,
    count: u32,
    details: Vec<(&'a Detail, Nanos)>,
    anomaly: Option<Usual>,
    unseen: Option<UnseenTheft>,
}

impl<'a> Sum<'a> {
    const fn new(of: &'a Cause) -> Self {
        Self {
            of,
            ns: Nanos::ZERO,
            count: 0,
            details: Vec::new(),
            anomaly: None,
            unseen: None,
        }
    }

    fn add(&mut self, stretch: &'a Stretch, anew: bool) {
        self.ns += stretch.length();
        self.count = self.count.saturating_add(anew.into());
        self.anomaly = self.anomaly.or(stretch.cause.anomaly);
        self.unseen = self.unseen.or(stretch.cause.unseen);
        let Some(detail) = &stretch.cause.detail else {
            return;
        };
        match self.details.iter_mut().find(|(known, _)| *known == detail) {
            Some((_, ns)) => *ns += stretch.length(),
            None => self.details.push((detail, stretch.length())),
        }
    }

    /// Uses the detail with the largest part of the time.
    fn share(&self, window: &Window) -> Share {
        let detail = self.details.iter().rev().max_by_key(|(_, ns)| *ns);
        let shown = Cause::new(self.of.source.clone()).with(detail.map(|(one, _)| (*one).clone()));
        Share {
            kind: shown.source.kind(),
            who: shown.source.who(),
            ns: self.ns,
            count: self.count,
            detail: shown.detail(window),
            anomaly: self.anomaly,
            unseen: self.unseen,
        }
    }
}
