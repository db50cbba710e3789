//! What can be asked of the timer probe.

use punctual_model::{Nanos, Parameter, ParameterKind};

use super::timerlat::TIMERLAT;

pub(super) const THREADS: &str = "threads";
pub(super) const USER: &str = "user";
pub(super) const KERNEL: &str = "kernel";

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "interval",
        short: Some('i'),
        kind: ParameterKind::Duration {
            // Below, most machines do nothing but wake up; a FIFO thread that
            // never sleeps would starve its CPU.
            min: Nanos::from_micros(20),
            max: Nanos::from_secs(3_600),
        },
        default: Some("1ms"),
        help: "Time from one wake-up to the next",
    },
    Parameter {
        name: "loops",
        short: Some('l'),
        kind: ParameterKind::Count {
            min: 1,
            max: 1_000_000_000_000,
        },
        default: None,
        help: "Periods per thread, warm-up included (instead of --duration)",
    },
    Parameter {
        name: "wait",
        short: None,
        kind: ParameterKind::Choice(&[
            ("nanosleep", "clock_nanosleep to an absolute time"),
            ("timerfd", "read from a periodic timerfd"),
            (
                "signal",
                "a periodic POSIX timer's signal, taken with sigwaitinfo",
            ),
            ("relative", "clock_nanosleep for the interval, from now"),
        ]),
        default: Some("nanosleep"),
        help: "How the thread waits",
    },
    Parameter {
        name: "aligned",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Wake all CPUs at the same instant, instead of spread over the interval",
    },
    Parameter {
        name: "full-second",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Begin at the next full second of the clock, all CPUs at the same instant",
    },
    Parameter {
        name: "offset",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::ZERO,
            max: Nanos::from_secs(3_600),
        },
        default: Some("0s"),
        help: "Begin this much later; with --aligned each thread by this much later than the one before",
    },
    Parameter {
        name: "threads",
        short: None,
        kind: ParameterKind::Count { min: 1, max: 4_096 },
        default: None,
        help: "How many threads, on the CPUs in turn, instead of one for each",
    },
    Parameter {
        name: "unbound",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Let each thread run on all of the CPUs, instead of binding it to one",
    },
    Parameter {
        name: "distance",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::ZERO,
            max: Nanos::from_secs(3_600),
        },
        default: Some("0s"),
        help: "Each thread's interval is longer by this than that of the one before",
    },
    Parameter {
        name: "priority-spread",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Each thread's priority is lower by one than that of the one before",
    },
    Parameter {
        name: "wakeups",
        short: None,
        kind: ParameterKind::Count {
            min: 1,
            max: 1_000_000_000_000,
        },
        default: None,
        help: "Stop all threads as soon as one of them has this many samples; missed periods do not count, as they do for --loops",
    },
    Parameter {
        name: "source",
        short: None,
        kind: ParameterKind::Choice(&[
            (THREADS, "threads of ours, which read the clock themselves"),
            (
                TIMERLAT,
                "the kernel's tracer timerlat: interrupt, thread and user space apart (needs root)",
            ),
        ]),
        default: Some(THREADS),
        help: "Who measures",
    },
    Parameter {
        name: "workload",
        short: None,
        kind: ParameterKind::Choice(&[
            (USER, "threads of ours, in user space (since Linux 6.5)"),
            (KERNEL, "the kernel's own threads"),
        ]),
        default: None,
        help: "With --source timerlat: whom the timers wake; user where the kernel can and nothing is asked for",
    },
    Parameter {
        name: "clock",
        short: None,
        kind: ParameterKind::Choice(&[
            ("monotonic", "CLOCK_MONOTONIC"),
            ("realtime", "CLOCK_REALTIME, the time on the wall"),
        ]),
        default: Some("monotonic"),
        help: "The clock of the sleeps and of the latencies",
    },
];
