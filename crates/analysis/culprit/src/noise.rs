//! What only the kernel's osnoise events show.

use punctual_model::{EventKind, NoiseSource, TraceEvent, Window};

use crate::events::{IRQ, SOFTIRQ, VECTORS};

/// The begin and the end of handlers that only osnoise records: one event
/// when it is over, with its net length. The begin in it is on another clock
/// (`time_get` in `kernel/trace/trace_osnoise.c`) than the event's own time.
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
