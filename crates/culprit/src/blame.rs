//! The stretches of a late reaction, summed up into shares.

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
    of_shares(window, shares, &story)
}

fn of_shares(window: &Window, shares: Vec<Share>, story: &Story) -> Blame {
    let largest = largest(&shares);
    Blame {
        culprit: largest.map_or_else(|| "nothing".to_owned(), |share| culprit_name(share)),
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
/// each first came. The detail is that of its longest stretch.
fn shares(segments: &[Segment]) -> Vec<Share> {
    let mut shares: Vec<(Share, Nanos)> = Vec::new();
    let mut before: Option<usize> = None;
    for segment in segments {
        let found = shares
            .iter()
            .position(|(share, _)| share.kind == segment.kind && share.who == segment.who);
        let at = found.unwrap_or_else(|| {
            shares.push((
                Share {
                    kind: segment.kind,
                    who: segment.who.clone(),
                    ns: Nanos::ZERO,
                    count: 0,
                    detail: None,
                },
                Nanos::ZERO,
            ));
            shares.len() - 1
        });
        let (share, longest) = &mut shares[at];
        share.ns += segment.length();
        // One that goes on with another detail is still the same time.
        if before != Some(at) {
            share.count = share.count.saturating_add(1);
        }
        if segment.length() > *longest {
            *longest = segment.length();
            share.detail.clone_from(&segment.detail);
        }
        before = Some(at);
    }
    shares.into_iter().map(|(share, _)| share).collect()
}
