//! Adds up the segments of a late reaction to shares.

use std::borrow::Cow;

use punctual_model::cause::{Cause, Detail, Source};
use punctual_model::{Blame, Move, Nanos, Segment, Share, ShareKind, UnseenTheft, Usual, Window};

use crate::cause_span::CauseSpan;
use crate::functions::name_functions;
use crate::job::thread_activity;
use crate::walk::walk;

/// Result of the analysis of a late reaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Causes of the latency, with their shares.
    pub blame: Blame,
    /// Segments of the latency, one per cause, in order of time. They have no gaps between them,
    /// and none is empty.
    pub segments: Vec<Segment>,
}

/// Returns the causes of a late reaction, and stores in the window the segments and the thread
/// activity that a plot shows. Both remain unchanged if events are added to the window or removed
/// later.
pub fn explain(window: &mut Window) -> Blame {
    let Found { blame, segments } = find(window);
    window.activity = thread_activity(window);
    window.segments = segments;
    blame
}

/// Returns the causes of a late reaction, each with its share.
///
/// For any events, the shares add up to exactly [`Window::latency`], and none is negative. The
/// largest share is the culprit ([`Blame::largest`]).
pub fn find(window: &Window) -> Found {
    let (spans, moved) = walk(window);
    let mut shares: Vec<Share> = sums(&spans).iter().map(Sum::share).collect();
    name_functions(window, &spans, &mut shares);
    let mut blame = Blame {
        victim: window.victim.clone(),
        delay: window.delay,
        moved: moved.map(|(from, to)| Move { from, to }),
        culprit_end_ns: None,
        events_lost: window.lost,
        clock_error_ns: window.clock_error,
        by_observer: false,
        shares,
        words: None,
    };
    if let Some(source) = blame.largest().map(|largest| largest.cause.source.clone()) {
        let own = spans.iter().filter(|one| one.cause.source == source);
        let longest = own.max_by_key(|one| one.length());
        blame.culprit_end_ns = longest.map(|span| span.to);
        blame.by_observer = source.is_of(&window.evidence.observer);
    }
    Found {
        blame,
        segments: spans.into_iter().map(CauseSpan::segment).collect(),
    }
}

/// Maximum number of sources with separate shares. Further sources are summed by kind.
const APART: usize = Blame::MOST_SHARES - ShareKind::NAMES.len();

/// Adds up the segments of each source to one share. The shares are in order of first appearance.
fn sums(spans: &[CauseSpan]) -> Vec<Sum<'_>> {
    let mut sums: Vec<Sum<'_>> = Vec::new();
    let (mut before, mut below): (Option<usize>, Option<usize>) = (None, None);
    for span in spans {
        let mut source = Cow::Borrowed(&span.cause.source);
        let mut found = sums.iter().position(|sum| sum.source == source);
        if found.is_none() && sums.len() >= APART {
            source = Cow::Owned(Source::Others(source.kind()));
            found = sums.iter().position(|sum| sum.source == source);
        }
        let at = found.unwrap_or(sums.len());
        if found.is_none() {
            sums.push(Sum::new(source));
        }
        // A segment with the same source as the one before it is not a new occurrence, even if its
        // detail differs. Neither is the rest of a segment that an interrupt divided.
        let handler = is_handler(&span.cause.source);
        let last = if handler { before } else { below };
        sums[at].add(span, last != Some(at));
        before = Some(at);
        if !handler {
            below = before;
        }
    }
    sums
}

/// Returns whether the source runs on top of a thread, which then continues.
fn is_handler(source: &Source) -> bool {
    use ShareKind::{Interrupt, Nmi, Softirq};
    [Interrupt, Nmi, Softirq].contains(&source.kind())
}

/// A share under construction.
struct Sum<'a> {
    source: Cow<'a, Source>,
    ns: Nanos,
    count: u32,
    details: Vec<(&'a Detail, Nanos)>,
    anomaly: Option<Usual>,
    unseen: Option<UnseenTheft>,
}

impl<'a> Sum<'a> {
    const fn new(source: Cow<'a, Source>) -> Self {
        Self {
            source,
            ns: Nanos::ZERO,
            count: 0,
            details: Vec::new(),
            anomaly: None,
            unseen: None,
        }
    }

    fn add(&mut self, span: &'a CauseSpan, anew: bool) {
        self.ns += span.length();
        self.count = self.count.saturating_add(anew.into());
        self.anomaly = self.anomaly.or(span.cause.anomaly);
        self.unseen = self.unseen.or(span.cause.unseen);
        let Some(detail) = &span.cause.detail else {
            return;
        };
        match self.details.iter_mut().find(|(known, _)| *known == detail) {
            Some((_, ns)) => *ns += span.length(),
            None => self.details.push((detail, span.length())),
        }
    }

    /// Builds the share. If the source has several details, the share gets the one that took the
    /// most time.
    fn share(&self) -> Share {
        let detail = self.details.iter().rev().max_by_key(|(_, ns)| *ns);
        let cause = Cause {
            source: self.source.clone().into_owned(),
            detail: detail.map(|(one, _)| (*one).clone()),
            anomaly: self.anomaly,
            function: None,
            unseen: self.unseen,
        };
        Share::new(cause, self.ns, self.count)
    }
}
