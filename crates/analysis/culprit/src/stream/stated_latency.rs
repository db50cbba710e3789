//! Latencies that programs and tracers write into the trace as text.

use punctual_model::{Nanos, Task};

/// A latency that a text in the trace states. The latency ended when the text was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StatedLatency {
    /// A latency from `cyclictest -b`: in µs, or in ns with its option `-N`. The text does not
    /// contain the unit.
    Cyclictest(u64),
    /// A latency of the thread of the kernel's timerlat tracer.
    Timerlat(TimerlatSample),
}

/// Returns the latency that a text states, if any.
pub(super) fn stated_latency(text: &str) -> Option<StatedLatency> {
    let of_thread = |sample: &TimerlatSample| !sample.in_interrupt;
    let timerlat = || timerlat(text).filter(of_thread);
    cyclictest(text).or_else(|| timerlat().map(StatedLatency::Timerlat))
}

/// `hit latency threshold (120 > 100)`, of cyclictest and other programs of rt-tests.
fn cyclictest(text: &str) -> Option<StatedLatency> {
    let (_, rest) = text.split_once("hit latency threshold (")?;
    let (latency, rest) = rest.split_once('>')?;
    let (limit, _) = rest.split_once(')')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (latency, limit) = (number(latency)?, number(limit)?);
    (latency >= limit && latency > 0).then_some(StatedLatency::Cyclictest(latency))
}

/// A line of timerlat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimerlatSample {
    /// Number of the activation. The interrupt and the thread that it wakes have the same number.
    pub(super) activation: u64,
    /// Whether the latency is that of the interrupt, rather than that of the thread.
    pub(super) in_interrupt: bool,
    /// Whether the latency ends when the thread returns from user space, after its own work.
    pub(super) returns: bool,
    pub(super) latency: Nanos,
}

/// The last sample of a CPU's timerlat interrupt.
#[derive(Clone, Debug)]
pub(super) struct TimerlatIrq {
    pub(super) sample: TimerlatSample,
    /// The interrupted thread.
    pub(super) thread: Task,
    /// Time at which the interrupt began.
    pub(super) at: Nanos,
    /// Time at which the thread that it woke ran, if a sample of the thread states it.
    pub(super) ran: Option<Nanos>,
}

/// `#58634 context thread timer_latency     10823 ns` (kernel/trace/trace_output.c).
pub(super) fn timerlat(text: &str) -> Option<TimerlatSample> {
    let (number, rest) = text.split_once("context")?;
    let (context, rest) = rest.split_once("timer_latency")?;
    let (_, number) = number.rsplit_once('#')?;
    let latency = rest.trim().strip_suffix("ns")?.trim().parse().ok()?;
    Some(TimerlatSample {
        activation: number.trim().parse().ok()?,
        in_interrupt: match context.trim() {
            "irq" => true,
            "thread" | "user-ret" => false,
            _ => return None,
        },
        returns: context.trim() == "user-ret",
        latency: Nanos(latency),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_from_marks() {
        let cases = [
            (
                "hit latency threshold (120 > 100)",
                Some(StatedLatency::Cyclictest(120)),
            ),
            (
                "tracing_mark_write: hit latency threshold (7>5)",
                Some(StatedLatency::Cyclictest(7)),
            ),
            ("hit latency threshold (99 > 100)", None),
            ("hit latency threshold (120 > ", None),
            ("hit latency threshold (-1 > 100)", None),
            (
                "#58634 context thread timer_latency     10823 ns",
                Some(StatedLatency::Timerlat(TimerlatSample {
                    activation: 58_634,
                    in_interrupt: false,
                    returns: false,
                    latency: Nanos(10_823),
                })),
            ),
            ("#58634 context    irq timer_latency     12505 ns", None),
            ("#58634 context thread timer_latency     many ns", None),
            ("hello", None),
        ];
        for (text, latency) in cases {
            assert_eq!(stated_latency(text), latency, "{text}");
        }
    }
}
