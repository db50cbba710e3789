//! Handlers that only the kernel's osnoise events show.

use punctual_model::{EventKind, Nanos, NoiseSource, TraceEvent, Window};

use crate::events::{IRQ, SOFTIRQ, VECTORS};

/// Turns osnoise events into entry and exit events of handlers, for handlers that only osnoise
/// records. Osnoise writes one event at the end of a handler, with the net duration. The start time
/// in the event uses another clock (`time_get` in `kernel/trace/trace_osnoise.c`) than the event's
/// own timestamp.
pub(crate) fn spell_out(window: &Window) -> Vec<TraceEvent> {
    let irqs = !window.has(IRQ) && !window.has(VECTORS);
    let softirqs = !window.has(SOFTIRQ);
    if !irqs && !softirqs {
        return Vec::new();
    }
    let mut more = Vec::new();
    for event in &window.events {
        let EventKind::Noise {
            source,
            start,
            duration,
        } = &event.kind
        else {
            continue;
        };
        let ends = end(event.time, *start, *duration);
        let (begin, exit) = match source {
            NoiseSource::Irq { vector, desc } if irqs => {
                let irq = vector.unsigned_abs();
                let name = desc.clone();
                (
                    EventKind::IrqEntry { irq, name },
                    EventKind::IrqExit { irq, ret: 1 },
                )
            }
            NoiseSource::Softirq { vector } if softirqs => (
                EventKind::SoftirqEntry { vec: *vector },
                EventKind::SoftirqExit { vec: *vector },
            ),
            _ => continue,
        };
        more.push(TraceEvent {
            time: ends.saturating_sub(*duration),
            kind: begin,
            ..event.clone()
        });
        more.push(TraceEvent {
            time: ends,
            kind: exit,
            ..event.clone()
        });
    }
    more
}

/// Maximum time from the end of a handler to the time of its event.
const WRITTEN_WITHIN: Nanos = Nanos::from_micros(50);

/// Returns the end of a noise. Its start is on the same clock as the event if the noise ended just
/// before the event. A trace in text has more digits for the start than for the event.
fn end(written: Nanos, start: Nanos, duration: Nanos) -> Nanos {
    let ends = Nanos(start.0.saturating_add(duration.0));
    let same = ends <= written && written - ends <= WRITTEN_WITHIN;
    if same { ends } else { written }
}
