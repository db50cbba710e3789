//! The sample that stopped a run (cyclictest's -b): some tools print it beside their figures,
//! which do not hold it.

use punctual_model::{Completion, Histogram, Nanos, Recording};

use super::blank::thread;

/// What the thread is called that holds such a sample alone.
pub(crate) const STOPPED: &str = "thread that stopped the run";

/// Ends the recording at a sample of this latency. Where it is above the maximum of the
/// `thread` that the file names (without one: of all), no figure of the file holds it, and
/// it is added: to that thread, to the only one, or as a thread of its own.
pub(crate) fn stopped_by(recording: &mut Recording, latency: Nanos, named: Option<usize>) {
    recording.completion = Completion::Break;
    let holds = |histogram: &Histogram| histogram.max().is_some_and(|max| max >= latency);
    let threads = &mut recording.threads;
    let is_held = match named {
        Some(named) => holds(&threads[named].histogram),
        None => threads.iter().any(|thread| holds(&thread.histogram)),
    };
    if is_held {
        recording.warnings.push(format!(
            "latency of the sample that stopped the run: {latency}"
        ));
        return;
    }
    let place = named.unwrap_or(if threads.len() == 1 { 0 } else { threads.len() });
    if place == threads.len() {
        let like = threads
            .first()
            .and_then(|first| first.histogram.resolution());
        let (unit, row) = like.map_or((Nanos(1), Nanos(1)), |like| (like.unit_ns, like.row_ns));
        let mut own = thread(place, None, Histogram::imported(unit, row));
        own.label = Some(STOPPED.to_owned());
        threads.push(own);
    }
    let stopped = &mut threads[place];
    let max = stopped.histogram.max().max(Some(latency));
    stopped.histogram.add_row(latency, 1);
    stopped.histogram.set_figures(None, max, None);
    let account = &mut stopped.accounting;
    account.expected = account.expected.saturating_add(1);
    account.recorded = stopped.histogram.recorded();
    account.overflow = stopped.histogram.overflow();
    let title = stopped.title();
    recording.warnings.push(format!(
        "the sample that stopped the run, {latency}, is in no other figure of the file: it was \
         added ({title})"
    ));
}
