//! The phases of a run, which were measured one after the other, as found in its time series.

use std::collections::BTreeMap;

use punctual_model::{Nanos, Recording};

/// One phase, and when it was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PhaseSpan {
    pub(super) name: String,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
}

/// Returns the phases of a run. Empty if there is only one.
///
/// Each phase has separate threads, whose labels begin with its name (`cpu+disk: CPU 0`), and
/// separate rows in the series, which follow one another. If labels merely look like those of
/// phases, their threads overlap in time.
pub(super) fn phase_spans(recording: &Recording) -> Vec<PhaseSpan> {
    let interval = recording.series.interval_ns;
    let mut spans: BTreeMap<u32, (Nanos, Nanos)> = BTreeMap::new();
    for row in &recording.series.rows {
        let end = Nanos(row.start_ns.0.saturating_add(interval.0));
        let span = spans.entry(row.thread).or_insert((row.start_ns, end));
        *span = (span.0.min(row.start_ns), span.1.max(end));
    }
    let name = |index: usize| -> Option<&str> {
        let label = recording.threads[index].label.as_deref()?;
        label.split_once(": ").map(|(name, _)| name)
    };
    let threads: Vec<usize> = (0..recording.threads.len()).collect();
    let mut phases: Vec<PhaseSpan> = Vec::new();
    for group in threads.chunk_by(|a, b| name(*a) == name(*b)) {
        let Some(name) = group.first().and_then(|first| name(*first)) else {
            return Vec::new();
        };
        let known = group.iter().filter_map(|index| spans.get(&(*index as u32)));
        let Some((from, to)) = known.copied().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            continue;
        };
        phases.push(PhaseSpan {
            name: name.to_owned(),
            from,
            to,
        });
    }
    // A single interval may contain both the end of one phase and the start of the next.
    let overlap = |a: &PhaseSpan, b: &PhaseSpan| a.to > Nanos(b.from.0.saturating_add(interval.0));
    let follow = phases.windows(2).all(|two| !overlap(&two[0], &two[1]));
    if phases.len() < 2 || !follow {
        return Vec::new();
    }
    for index in 1..phases.len() {
        phases[index - 1].to = phases[index].from;
    }
    phases
}
