//! Events from the windows around outliers, which may overlap and have gaps between them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use punctual_model::{Delay, EventKind, Nanos, SliceStart, TraceEvent, Window};

use super::PerfettoWriter;

/// A window contains all events of the late thread's CPUs, beginning this long before the latency.
/// From before that, it contains only the last switch of each CPU and single events of the thread.
const BEFORE: Nanos = Nanos::from_millis(1);

/// Spans of each CPU without missing events, in order and without overlaps.
type Spans = BTreeMap<u32, Vec<(Nanos, Nanos)>>;

impl<W: Write> PerfettoWriter<W> {
    /// Writes the events of windows. An event that several windows contain is written once.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn windows<'a>(
        &mut self,
        windows: impl IntoIterator<Item = &'a Window> + Clone,
    ) -> io::Result<()> {
        let spans = complete(windows.clone());
        let with_window = windows.into_iter().enumerate();
        let mut all: Vec<(usize, &Window, &TraceEvent)> = with_window
            .flat_map(|(number, window)| {
                (window.events.iter()).map(move |event| (number, window, event))
            })
            .collect();
        // The sort is stable: events of one CPU that have the same time keep their order.
        all.sort_by_key(|(_, _, event)| event.time);
        let mut inside: BTreeMap<u32, usize> = BTreeMap::new();
        for (place, (number, window, event)) in all.iter().enumerate() {
            let same =
                |(other, _, one): &&(usize, &Window, &TraceEvent)| other < number && one == event;
            let before = all[..place].iter().rev();
            let mut at_once = before.take_while(|(_, _, one)| one.time == event.time);
            if at_once.any(|one| same(&one)) {
                continue;
            }
            let Some(span) = span_of(&spans, event) else {
                self.event_alone(event, *window)?;
                continue;
            };
            if inside
                .insert(event.cpu, span)
                .is_some_and(|last| last != span)
            {
                self.lost(event.cpu);
            }
            self.event(event, *window)?;
        }
        for cpu in inside.into_keys() {
            self.lost(cpu);
        }
        Ok(())
    }
}

/// Returns the number of the span that contains an event.
fn span_of(spans: &Spans, event: &TraceEvent) -> Option<usize> {
    let spans = spans.get(&event.cpu)?;
    let place = spans.partition_point(|(_, to)| *to < event.time);
    spans
        .get(place)
        .filter(|(from, _)| *from <= event.time)
        .map(|_| place)
}

/// Returns, for each CPU, the spans in which all events are known.
fn complete<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Spans {
    let mut spans = Spans::new();
    for window in windows {
        // The window of a job contains only the events that concern the job.
        if window.delay == Delay::Job {
            continue;
        }
        let victim = &window.victim;
        let start = SliceStart::from_events(window.events.iter(), victim.tid, Some(victim.cpu));
        for cpu in start.cpus {
            spans.entry(cpu).or_default().extend(of_cpu(window, cpu));
        }
    }
    for spans in spans.values_mut() {
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let overlap = next.0 <= last.1;
            if overlap {
                last.1 = last.1.max(next.1);
            }
            overlap
        });
    }
    spans
}

/// Returns the spans of a window in which all events of one CPU are known.
fn of_cpu(window: &Window, cpu: u32) -> Vec<(Nanos, Nanos)> {
    // The middle of a long window is not kept.
    let (first, second) = if window.left_out > 0 {
        let half = (Window::KEPT_EVENTS / 2).min(window.events.len());
        window.events.split_at(half)
    } else {
        (&window.events[..], &[][..])
    };
    let begin = window.expected.saturating_sub(BEFORE);
    let is_last_switch = |event: &&TraceEvent| {
        event.cpu == cpu && event.time <= begin && matches!(event.kind, EventKind::Switch { .. })
    };
    let lead = first.iter().rev().find(is_last_switch);
    let from = lead.map_or(begin, |event| event.time);
    let until = |events: &[TraceEvent]| events.last().map(|event| event.time);
    let mut spans: Vec<(Nanos, Nanos)> = until(first).map(|to| (from, to)).into_iter().collect();
    let second = second.first().map(|event| event.time).zip(until(second));
    spans.extend(second);
    for gap in &window.evidence.gaps {
        if gap.cpu == cpu {
            spans = spans
                .into_iter()
                .flat_map(|span| without(span, gap.from, gap.to))
                .collect();
        }
    }
    spans.retain(|(from, to)| from <= to);
    spans
}

/// Removes the interior of a gap from a span. The events at the ends of the gap are known.
fn without((from, to): (Nanos, Nanos), begin: Nanos, end: Nanos) -> Vec<(Nanos, Nanos)> {
    if end <= from || begin >= to {
        return vec![(from, to)];
    }
    let mut left = Vec::new();
    if begin >= from {
        left.push((from, begin));
    }
    if end <= to {
        left.push((end, to));
    }
    left
}
