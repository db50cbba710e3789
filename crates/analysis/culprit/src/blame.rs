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

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::Text;

    /// Segments one after the other: source, detail and length in ns.
    fn segments(all: &[(Source, Option<&str>, u64)]) -> Vec<CauseSpan> {
        let mut at = Nanos::ZERO;
        let segment = |(source, detail, length): &(Source, Option<&str>, u64)| {
            let from = at;
            at += Nanos(*length);
            let detail = detail.map(|name| Detail::Function(Text::from(name)));
            CauseSpan {
                from,
                to: at,
                cpu: 1,
                cause: Cause::new(source.clone()).with(detail),
                rival: None,
            }
        };
        all.iter().map(segment).collect()
    }

    /// The shares: source, time in ns, and number of occurrences.
    fn shares(all: &[(Source, Option<&str>, u64)]) -> Vec<(Source, u64, u32)> {
        let spans = segments(all);
        let shares = sums(&spans).into_iter().map(|sum| sum.share());
        shares
            .map(|share| (share.cause.source, share.ns.0, share.count))
            .collect()
    }

    const THREAD: Source = Source::OwnWork;
    const OTHER: Source = Source::Scheduling;
    const SOFTIRQ: Source = Source::Softirq(3);

    #[test]
    fn occurrences_of_a_source_are_counted() {
        let found = shares(&[(THREAD, None, 10), (OTHER, None, 5), (THREAD, None, 20)]);
        assert_eq!(found, [(THREAD, 30, 2), (OTHER, 5, 1)]);
        // Another detail does not begin another occurrence.
        let found = shares(&[
            (THREAD, None, 10),
            (THREAD, Some("a"), 5),
            (THREAD, Some("b"), 1),
        ]);
        assert_eq!(found, [(THREAD, 16, 1)]);
    }

    /// The thread below a handler continues after it.
    #[test]
    fn handlers_do_not_divide_the_time_below_them() {
        for handler in [
            SOFTIRQ,
            Source::Nmi,
            Source::Vector(punctual_model::Vector::LocalTimer),
        ] {
            let found = shares(&[
                (THREAD, None, 10),
                (handler.clone(), None, 1),
                (THREAD, None, 10),
                (handler.clone(), None, 2),
                (handler.clone(), Some("a"), 2),
                (THREAD, None, 10),
            ]);
            assert_eq!(found, [(THREAD, 30, 1), (handler, 5, 2)]);
        }
        let found = shares(&[
            (THREAD, None, 10),
            (SOFTIRQ, None, 1),
            (OTHER, None, 10),
            (SOFTIRQ, None, 1),
            (THREAD, None, 10),
        ]);
        assert_eq!(found, [(THREAD, 20, 2), (SOFTIRQ, 2, 2), (OTHER, 10, 1)]);
    }

    #[test]
    fn share_has_the_detail_of_most_of_its_time() {
        let detail = |all: &[(Source, Option<&str>, u64)]| {
            let spans = segments(all);
            match sums(&spans)[0].share().cause.detail {
                Some(Detail::Function(name)) => name.to_string(),
                other => panic!("{other:?}"),
            }
        };
        let of = |parts: &[(&'static str, u64)]| {
            let parts = parts.iter().map(|(name, ns)| (THREAD, Some(*name), *ns));
            detail(&parts.collect::<Vec<_>>())
        };
        assert_eq!(of(&[("a", 5), ("b", 6)]), "b");
        assert_eq!(of(&[("a", 5), ("b", 6), ("a", 2)]), "a");
        // Of equal ones, the first.
        assert_eq!(of(&[("a", 5), ("b", 5)]), "a");
        let unknown = [(THREAD, None, 90), (THREAD, Some("a"), 1)];
        assert_eq!(detail(&unknown), "a");
    }

    #[test]
    fn anomaly_of_a_part_is_that_of_the_share() {
        let usual = Usual {
            p999_ns: Nanos(3),
            count: 5_000,
        };
        let mut spans = segments(&[(SOFTIRQ, None, 1), (SOFTIRQ, None, 90), (SOFTIRQ, None, 2)]);
        spans[1].cause.anomaly = Some(usual);
        let share = sums(&spans)[0].share();
        assert_eq!((share.cause.anomaly, share.count), (Some(usual), 1));
        assert_eq!(share.cause.unseen, None);
    }
}
