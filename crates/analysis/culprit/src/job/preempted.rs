//! Finds a thread that was preempted while the thread of a job computed. The job may have taken
//! longer because the preempted thread held a spinlock, or had not yet written a value that the
//! job's thread polls. No event shows this.

use punctual_model::cause::{Detail, Name, Source};
use punctual_model::{Blame, Nanos, Window};

use super::tracks::Tracks;

/// Returns the thread that was preempted while the job computed.
pub(super) fn preempted_meanwhile(
    window: &Window,
    tracks: &Tracks,
    may_hold: &dyn Fn(u32) -> bool,
) -> Option<Detail> {
    let computed = computed(window, tracks);
    let total: u64 = computed.iter().map(|(from, to)| to.0 - from.0).sum();
    if total == 0 || total < window.latency().0 / 2 {
        return None;
    }
    let within = |from: Nanos, to: Nanos| -> u64 {
        let parts = computed.iter();
        parts
            .map(|one| one.1.min(to).saturating_sub(one.0.max(from)).0)
            .sum()
    };
    let others = tracks.tids().filter(|tid| *tid != window.victim.tid);
    let overlaps = others.map(|tid| {
        let preempted = tracks.preempted(tid, window.actual);
        let overlaps = preempted.map(|(from, to, cpu)| (within(from, to), cpu));
        let overlaps: Vec<(u64, u32)> = overlaps.collect();
        let sum: u64 = overlaps.iter().map(|(overlap, _)| overlap).sum();
        let longest = overlaps.into_iter().max();
        (sum, tid, longest.map_or(0, |(_, cpu)| cpu))
    });
    let (_, tid, cpu) = overlaps
        .filter(|(overlap, tid, _)| *overlap >= total / 2 && may_hold(*tid))
        .max()?;
    Some(Detail::PossiblyWaitsFor {
        thread: Name::from(&tracks.names.task(tid)),
        cpu,
    })
}

/// Returns when the thread of the job ran in user space. The light stage does not record system
/// calls, so it returns when the thread ran at all.
fn computed(window: &Window, tracks: &Tracks) -> Vec<(Nanos, Nanos)> {
    let tid = window.victim.tid;
    let mut computed = Vec::new();
    for span in tracks.spans(tid, window.expected, window.actual) {
        if span.cpu().is_none() {
            continue;
        }
        let mut at = span.from;
        let mut cuts = tracks.calls_between(tid, span.from, span.to);
        cuts.push(span.to);
        for cut in cuts {
            if tracks.call_at(tid, at).flatten().is_none() {
                computed.push((at, cut));
            }
            at = cut;
        }
    }
    computed
}

/// Adds this detail to the largest share, if that is the job's own work.
pub fn add_preempted(blame: &mut Blame, detail: Detail) {
    let is_own = |source: &Source| *source == Source::UserSpace || source.is_unknown_on_cpu();
    let largest = blame.shares.iter_mut().max_by_key(|share| share.ns);
    if let Some(share) = largest.filter(|share| is_own(&share.cause.source)) {
        share.cause.detail.get_or_insert(detail);
    }
}
