//! Handlers that only the kernel's osnoise events show.

use punctual_model::{EventKind, NoiseSource, TraceEvent, Window};

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
            source, duration, ..
        } = &event.kind
        else {
            continue;
        };
        let (begin, end) = match source {
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
            time: event.time.saturating_sub(*duration),
            kind: begin,
            ..event.clone()
        });
        more.push(TraceEvent {
            kind: end,
            ..event.clone()
        });
    }
    more
}
