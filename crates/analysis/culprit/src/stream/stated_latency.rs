//! Latencies that programs and tracers write into the trace as text.

use punctual_model::Nanos;

/// A latency that a text states. It ends when the text was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatedLatency {
    /// `cyclictest -b`: µs, or ns with its option `-N`. The text does not say which.
    Cyclictest(u64),
    /// The kernel's timerlat tracer, of its thread.
    Timerlat(Nanos),
}

/// Returns the latency that a text states, if any.
pub(super) fn stated_latency(text: &str) -> Option<StatedLatency> {
    cyclictest(text).or_else(|| timerlat(text))
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

/// `#58634 context thread timer_latency     10823 ns` (kernel/trace/trace_output.c).
fn timerlat(text: &str) -> Option<StatedLatency> {
    let (_, rest) = text.split_once("context")?;
    let (context, rest) = rest.split_once("timer_latency")?;
    // The other contexts are the interrupt, and the return to user space.
    let (context, rest) = (context.trim(), rest.trim());
    let ns = rest.strip_suffix("ns")?.trim().parse().ok()?;
    (context == "thread" || context == "user-ret").then_some(StatedLatency::Timerlat(Nanos(ns)))
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
                Some(StatedLatency::Timerlat(Nanos(10_823))),
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
