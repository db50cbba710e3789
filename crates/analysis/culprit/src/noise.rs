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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, window};

    /// An event at 100 µs about a noise that began at `start` on its clock, in µs.
    fn noise(source: NoiseSource, start: u64, length: u64) -> TraceEvent {
        let kind = EventKind::Noise {
            source,
            start: Nanos::from_micros(start),
            duration: Nanos::from_micros(length),
        };
        event(100, 7, kind)
    }

    fn softirq() -> NoiseSource {
        NoiseSource::Softirq { vector: 3 }
    }

    /// Returns begin and end of the handler in µs.
    fn spelt(noise: TraceEvent, missing: &[&str]) -> Vec<(u64, EventKind)> {
        let mut window = window(0, 1_000, vec![noise]);
        window.missing_events = missing.iter().map(|name| (*name).to_owned()).collect();
        let events = spell_out(&window).into_iter();
        events
            .inspect(|event| assert_eq!((event.cpu, event.pid), (1, 7)))
            .map(|event| (event.time.0 / 1_000, event.kind))
            .collect()
    }

    #[test]
    fn handler_ends_when_its_noise_ends() {
        let times = |start, length| {
            let found = spelt(noise(softirq(), start, length), &[SOFTIRQ]);
            found.iter().map(|(at, _)| *at).collect::<Vec<u64>>()
        };
        assert_eq!(times(70, 20), [70, 90]);
        assert_eq!(times(80, 20), [80, 100]);
        // The event is written at most 50 µs later, so these times are of another clock.
        assert_eq!(
            (times(30, 20), times(29, 20)),
            (vec![30, 50], vec![80, 100])
        );
        assert_eq!(times(81, 20), [80, 100]);
        assert_eq!(times(7_000, 20), [80, 100]);
        assert_eq!(times(u64::MAX / 2_000, 20), [80, 100]);
    }

    #[test]
    fn handlers_that_other_events_show_are_not_spelt_out() {
        let irq = || NoiseSource::Irq {
            vector: 236,
            desc: "local_timer".into(),
        };
        let name = "local_timer".into();
        let ret = 1;
        let of_irq = vec![
            (70, EventKind::IrqEntry { irq: 236, name }),
            (90, EventKind::IrqExit { irq: 236, ret }),
        ];
        let of_softirq = vec![
            (70, EventKind::SoftirqEntry { vec: 3 }),
            (90, EventKind::SoftirqExit { vec: 3 }),
        ];
        for (missing, shows_irq, shows_softirq) in [
            (&[][..], true, true),
            (&[IRQ], true, true),
            (&[VECTORS], true, true),
            (&[IRQ, VECTORS], false, true),
            (&[SOFTIRQ], true, false),
            (&[IRQ, VECTORS, SOFTIRQ], false, false),
        ] {
            let found = spelt(noise(irq(), 70, 20), missing);
            assert_eq!(
                found,
                if shows_irq { vec![] } else { of_irq.clone() },
                "{missing:?}"
            );
            let found = spelt(noise(softirq(), 70, 20), missing);
            assert_eq!(
                found,
                if shows_softirq {
                    vec![]
                } else {
                    of_softirq.clone()
                }
            );
            for other in [
                NoiseSource::Nmi,
                NoiseSource::Thread {
                    pid: 5,
                    comm: Default::default(),
                },
            ] {
                assert_eq!(spelt(noise(other, 70, 20), missing), []);
            }
        }
    }
}
