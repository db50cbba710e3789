//! The parameters of the hardware probe.

use punctual_model::{Nanos, Typed, parameters};

parameters! {
    THRESHOLD: Nanos = Typed::duration(
        "threshold",
        "List gaps above this length, by cause",
        Nanos::from_micros(1)..=Nanos::from_secs(3_600),
    ).or("10us");
    WINDOW: Nanos = Typed::duration(
        "window",
        "Time from the start of one spin to the next",
        Nanos::from_millis(1)..=Nanos::from_secs(3_600),
    ).or("100ms");
    // The kernel's detector spins for this long on one CPU at a time.
    WIDTH: Option<Nanos> = Typed::duration(
        "width",
        "Time to spin in each window [default: half of the window, at most 100 ms]",
        Nanos::from_micros(100)..=Nanos::from_secs(10),
    );
    TURNS: bool = Typed::flag(
        "turns",
        "Count all loop iterations by length; with --source spin",
    );
    COPY: Option<u64> = Typed::count(
        "copy",
        "With --turns: bytes to copy in each iteration, between two clock readings",
        1..=(1 << 26),
    );
    NOISE_THRESHOLD: Nanos = Typed::duration(
        "noise-threshold",
        "With --source osnoise: shortest gap that counts as noise",
        Nanos::from_micros(1)..=Nanos::from_secs(1),
    ).or("1us");
    NO_INTERRUPTS: bool = Typed::flag(
        "no-interrupts",
        "With --source osnoise: spin with interrupts disabled, so that all noise is hardware's",
    );
    SOURCE: &'static str = Typed::choice(
        "source",
        "Source of the gaps",
        &[
            (SPIN, "the probe's threads, on all CPUs"),
            (HWLAT, "the kernel's tracer hwlat, on one CPU at a time with interrupts disabled \
                (needs root)"),
            (OSNOISE, "the kernel's tracer osnoise, with kernel threads on all CPUs (needs root)"),
            (BOTH, "the probe's threads, with a table of the reports of hwlat"),
        ],
    ).or(SPIN);
}

pub(super) const SPIN: &str = "spin";
pub(super) const HWLAT: &str = "hwlat";
pub(super) const OSNOISE: &str = "osnoise";
pub(super) const BOTH: &str = "both";
