//! Time that a hypervisor or the firmware took while something else appeared to be running.
//!
//! No event shows stolen time: the thread or handler that was current before and after it seems to
//! have run for longer. So each segment that is charged to running code is checked against the
//! counters. Proven stolen time becomes a share of its own. If the counters do not settle the
//! question, one share states both hypotheses. If the counters would not show stolen time at all,
//! the share is flagged.

use std::collections::BTreeMap;

use punctual_model::cause::{Cause, Counted, Detail, SmisWithin, Source, StolenWithin, Thief};
use punctual_model::{HandlerOf, Nanos, SmiCount, StealCount, UnseenTheft, Usual, Window};

use crate::cause_span::CauseSpan;
use crate::host;

/// Segments of running code without an event are checked if they are longer than this.
const QUIET: Nanos = Nanos::from_micros(10);

/// Maximum distance between two counter readings. Readings further apart do not apply to a late
/// reaction in between.
const AROUND: Nanos = Nanos::from_secs(1);

/// A handler is an anomaly if it takes longer than this many times the 99.9th percentile of its
/// duration.
const FAR_LONGER: u64 = 3;

/// Minimum number of runs of a handler for a 99.9th percentile.
const ENOUGH_RUNS: u64 = 1_000;

/// Splits the segments that are charged to running code. Does not change the total length.
pub(crate) fn judge(window: &Window, spans: Vec<CauseSpan>) -> Vec<CauseSpan> {
    let mut events = BTreeMap::<u32, Vec<Nanos>>::new();
    for event in &window.events {
        events.entry(event.cpu).or_default().push(event.time);
    }
    events.values_mut().for_each(|times| times.sort_unstable());
    let mut judged = Vec::with_capacity(spans.len());
    for span in spans {
        if host::runs(&span.cause) || span.cause.source == Source::Gap {
            let times = events.get(&span.cpu).map_or(&[][..], Vec::as_slice);
            split(window, &span, times, &mut judged);
        } else {
            judged.push(span)
        }
    }
    judged
}

/// Splits a segment at the events of its CPU and judges each piece separately, because stolen time
/// lies between two events. `times`: times of these events, in ascending order.
fn split(window: &Window, span: &CauseSpan, times: &[Nanos], judged: &mut Vec<CauseSpan>) {
    let CauseSpan { from, to, .. } = *span;
    let first = times.partition_point(|time| *time <= from);
    let inside = times[first..].iter().copied();
    let inside = inside.take_while(|time| *time < to);
    if host::ran(window, span.cpu, (from, to)) {
        return judged.push(in_guest_mode(span));
    }
    let anomaly = anomaly(window, span);
    let mut at = from;
    for cut in inside.chain([to]) {
        if cut > at {
            put_piece(window, span, (at, cut), anomaly, judged);
            at = cut;
        }
    }
}

/// Returns a span without the hypothesis of a hypervisor, because the host's trace rules it out.
fn in_guest_mode(span: &CauseSpan) -> CauseSpan {
    let mut span = span.clone();
    if let Some(Detail::Hypotheses { ran, .. }) = span.cause.detail {
        span.cause.detail = Some(Detail::While(ran));
    }
    span
}

fn put_piece(
    window: &Window,
    span: &CauseSpan,
    (from, to): (Nanos, Nanos),
    anomaly: Option<Usual>,
    judged: &mut Vec<CauseSpan>,
) {
    let mut put = |from, to, cause: Cause| {
        if to > from {
            judged.push(CauseSpan {
                from,
                to,
                cause,
                ..span.clone()
            });
        }
    };
    let cause = &span.cause;
    if to - from <= QUIET {
        return put(from, to, cause.clone());
    }
    let Theft {
        least,
        most,
        thief,
        unseen,
        counted,
    } = Theft::from_window(window, span.cpu, (from, to));
    let stolen = Cause::new(Source::Stolen);
    let proven = to - least;
    // In a gap, no event shows which thread would otherwise have run on the CPU.
    if cause.source == Source::Gap {
        put(from, proven, cause.clone());
        return put(proven, to, stolen);
    }
    let stolen = stolen.with(Detail::Instead(Box::new(cause.source.clone())));
    let virtual_machine = window.evidence.virtual_machine == Some(true);
    let is_odd = anomaly.is_some() && (virtual_machine || thief.is_some() || unseen.is_some());
    let open = if is_odd { from } else { to - most };
    let own = Cause {
        anomaly,
        unseen,
        ..cause.clone()
    };
    let thief = thief.unwrap_or(match unseen {
        Some(UnseenTheft::Smi) => Thief::Smi,
        _ => Thief::Hypervisor,
    });
    let source = Source::Undecided {
        source: Box::new(cause.source.clone()),
        thief,
    };
    let undecided = Cause {
        anomaly,
        ..Cause::new(source).with(Detail::Counted {
            counted,
            detail: cause.detail.clone().map(Box::new),
        })
    };
    // The position of the stolen time within the piece is unknown; it is placed at the end.
    put(from, open, own);
    put(open, proven, undecided);
    put(proven, to, stolen);
}

/// Evidence of stolen time in a span on one CPU.
struct Theft {
    /// Minimum stolen time, proven.
    least: Nanos,
    /// Maximum stolen time according to the counters.
    most: Nanos,
    /// Cause of the stolen time, if the counters show any.
    thief: Option<Thief>,
    /// Kind of stolen time that the counters would not show.
    unseen: Option<UnseenTheft>,
    counted: Counted,
}

impl Theft {
    fn from_window(window: &Window, cpu: u32, time: (Nanos, Nanos)) -> Self {
        let length = time.1 - time.0;
        let evidence = &window.evidence;
        let virtual_machine = evidence.virtual_machine != Some(false);
        let counted = counted(window, cpu, time);
        let mut theft = Self {
            least: Nanos::ZERO,
            most: Nanos::ZERO,
            thief: None,
            unseen: None,
            counted,
        };
        match steal_count(window, cpu, time) {
            Some(count) => {
                (theft.least, theft.most) = bounds(count, time);
                if theft.most > Nanos::ZERO {
                    theft.thief = Some(Thief::Hypervisor);
                }
                let hidden = virtual_machine && count.step > QUIET && theft.most < length;
                theft.unseen = hidden.then_some(UnseenTheft::ShortSteal);
            }
            None if virtual_machine => theft.unseen = Some(UnseenTheft::Steal),
            None => {}
        }
        match smi_count(window, time) {
            Some(smi) if smi.count > 0 => {
                theft.thief = Some(match theft.thief {
                    Some(_) => Thief::Either,
                    None => Thief::Smi,
                });
                theft.most = length;
            }
            Some(_) => {}
            // In a virtual machine the SMI counter belongs to the hypervisor.
            None if evidence.virtual_machine != Some(true) => {
                theft.unseen = theft.unseen.or(Some(UnseenTheft::Smi));
            }
            None => {}
        }
        theft
    }
}

/// Returns the minimum and maximum stolen time in a span, from the counter increases that overlap
/// it.
fn bounds(count: &StealCount, (from, to): (Nanos, Nanos)) -> (Nanos, Nanos) {
    // The counter is rounded to whole steps, so each increase is inexact by up to one step.
    let unsure = count.step.saturating_sub(Nanos(1));
    let (mut least, mut most) = (Nanos::ZERO, Nanos::ZERO);
    for rise in touching(count, (from, to)) {
        let inside = rise.to.min(to).saturating_sub(rise.from.max(from));
        let outside = (rise.to.saturating_sub(rise.from)).saturating_sub(inside);
        let sure = rise.stolen.saturating_sub(unsure).saturating_sub(outside);
        least += sure.min(inside);
        most += Nanos(rise.stolen.0.saturating_add(unsure.0)).min(inside);
    }
    (least.min(to - from), most.min(to - from))
}

fn touching(
    count: &StealCount,
    (from, to): (Nanos, Nanos),
) -> impl Iterator<Item = &punctual_model::StealRise> {
    let rises = count.rises.iter();
    rises.filter(move |rise| rise.from < to && rise.to > from && rise.stolen > Nanos::ZERO)
}

/// Returns the count with the finest step that covers the whole span.
fn steal_count(window: &Window, cpu: u32, (from, to): (Nanos, Nanos)) -> Option<&StealCount> {
    let knows = |count: &&StealCount| {
        count.cpu == cpu
            && count.from <= from
            && count.to >= to
            && touching(count, (from, to)).all(|rise| rise.to.saturating_sub(rise.from) <= AROUND)
    };
    let counts = window.evidence.stolen.iter().filter(knows);
    counts.min_by_key(|count| count.step)
}

/// Returns the SMI count if it is conclusive: no SMI occurred, or the readings are close together.
fn smi_count(window: &Window, (from, to): (Nanos, Nanos)) -> Option<&SmiCount> {
    let smi = window.evidence.smi.as_ref()?;
    let close = smi.to.saturating_sub(smi.from) <= AROUND + (to - from);
    (smi.from <= from && smi.to >= to && (smi.count == 0 || close)).then_some(smi)
}

/// Returns the increases of a CPU's counters around a span of time.
pub(crate) fn counted(window: &Window, cpu: u32, time: (Nanos, Nanos)) -> Counted {
    let steal = steal_count(window, cpu, time).map(|count| {
        let (mut risen, mut begin, mut end) = (Nanos::ZERO, time.0, time.1);
        for rise in touching(count, time) {
            risen += rise.stolen;
            (begin, end) = (begin.min(rise.from), end.max(rise.to));
        }
        StolenWithin {
            stolen_ns: risen,
            within_ns: end - begin,
        }
    });
    let smis = smi_count(window, time).map(|smi| SmisWithin {
        count: smi.count,
        within_ns: smi.to - smi.from,
    });
    Counted { steal, smis }
}

/// Returns the usual duration of a handler if it ran for far longer this time.
fn anomaly(window: &Window, span: &CauseSpan) -> Option<Usual> {
    let is_it = |handler: &HandlerOf| match (&span.cause.source, handler) {
        (Source::Irq { irq, .. }, HandlerOf::Irq(of)) => irq == of,
        (Source::Softirq(vec), HandlerOf::Softirq(of)) => vec == of,
        (Source::Vector(vector), HandlerOf::Vector(of)) => vector.name() == of,
        _ => false,
    };
    let usual = window.evidence.usual.iter();
    let usual = usual.filter(|usual| is_it(&usual.handler));
    let length = usual.map(|usual| usual.length).next()?;
    let longest = Nanos(length.p999_ns.0.saturating_mul(FAR_LONGER)).max(QUIET);
    (length.count >= ENOUGH_RUNS && span.length() > longest).then_some(length)
}

#[cfg(test)]
#[path = "theft_tests.rs"]
mod tests;
