//! What can be asked of the hardware probe.

use punctual_model::{Nanos, Parameter, ParameterKind};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "threshold",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::from_micros(1),
            max: Nanos::from_millis(100),
        },
        default: Some("10us"),
        help: "Gaps above this are listed by cause",
    },
    Parameter {
        name: "window",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::from_millis(1),
            max: Nanos::from_secs(3_600),
        },
        default: Some("100ms"),
        help: "From the start of one spin to the next",
    },
    Parameter {
        name: "width",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::from_micros(100),
            // The kernel's detector spins for so long on one CPU at a time.
            max: Nanos::from_secs(10),
        },
        default: None,
        help: "How long to spin in each window: half of it, 100 ms at most, where nothing is asked for",
    },
    Parameter {
        name: "turns",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Count every turn of the loop by its length, as oslat does, in tables; with --source spin",
    },
    Parameter {
        name: "copy",
        short: None,
        kind: ParameterKind::Count {
            min: 1,
            max: 1 << 26,
        },
        default: None,
        help: "With --turns: copy this many bytes in each turn, as work between two readings of the clock",
    },
    Parameter {
        name: "source",
        short: None,
        kind: ParameterKind::Choice(&[
            (SPIN, "threads of ours, on all CPUs"),
            (
                HWLAT,
                "the kernel's tracer, one CPU after the other with interrupts off (needs root)",
            ),
            (
                OSNOISE,
                "the kernel's tracer osnoise: threads of the kernel, on all CPUs (needs root)",
            ),
            (BOTH, "ours, and a table of what the kernel's saw meanwhile"),
        ]),
        default: Some(SPIN),
        help: "Who looks for gaps",
    },
];

pub(super) const SPIN: &str = "spin";
pub(super) const HWLAT: &str = "hwlat";
pub(super) const OSNOISE: &str = "osnoise";
pub(super) const BOTH: &str = "both";
