//! The parameters of the hardware probe.

use punctual_model::{Nanos, Typed, parameters};

parameters! {
    THRESHOLD: Nanos = Typed::duration(
        "threshold",
        "Gaps above this are listed by cause",
        Nanos::from_micros(1)..=Nanos::from_secs(3_600),
    ).or("10us");
    WINDOW: Nanos = Typed::duration(
        "window",
        "From the start of one spin to the next",
        Nanos::from_millis(1)..=Nanos::from_secs(3_600),
    ).or("100ms");
    // The kernel's detector spins for this time on one CPU at a time.
    WIDTH: Option<Nanos> = Typed::duration(
        "width",
        "How long to spin in each window: half of it, 100 ms at most, where nothing is asked for",
        Nanos::from_micros(100)..=Nanos::from_secs(10),
    );
    TURNS: bool = Typed::flag(
        "turns",
        "Count every turn of the loop by its length; with --source spin",
    );
    COPY: Option<u64> = Typed::count(
        "copy",
        "With --turns: copy this many bytes in each turn, as work between two readings of the clock",
        1..=(1 << 26),
    );
    SOURCE: &'static str = Typed::choice(
        "source",
        "Who looks for gaps",
        &[
            (SPIN, "threads of ours, on all CPUs"),
            (HWLAT, "the kernel's tracer, one CPU after the other with interrupts off (needs root)"),
            (OSNOISE, "the kernel's tracer osnoise: threads of the kernel, on all CPUs (needs root)"),
            (BOTH, "ours, and a table of what the kernel's saw meanwhile"),
        ],
    ).or(SPIN);
}

pub(super) const SPIN: &str = "spin";
pub(super) const HWLAT: &str = "hwlat";
pub(super) const OSNOISE: &str = "osnoise";
pub(super) const BOTH: &str = "both";
