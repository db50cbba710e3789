//! The parameters of the timer probe.

use punctual_model::{Nanos, Parameter, Typed, parameters};

use super::timerlat::TIMERLAT;

pub(super) const OURS: &str = "threads";
pub(super) const USER: &str = "user";
pub(super) const KERNEL: &str = "kernel";

parameters! {
    // At shorter intervals, most machines would do nothing but wake up. A FIFO thread that never
    // sleeps would starve its CPU.
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from one wake-up to the next",
        Nanos::from_micros(20)..=Nanos::from_secs(3_600),
    ).short('i').or("1ms");
    LOOPS: Option<u64> = Typed::count(
        Parameter::PERIODS,
        "Number of periods per thread, including the warm-up (instead of --duration)",
        1..=1_000_000_000_000,
    ).short('l');
    WAIT: &'static str = Typed::choice(
        "wait",
        "How the thread waits",
        &[
            ("nanosleep", "clock_nanosleep to an absolute time"),
            ("timerfd", "read from a periodic timerfd"),
            ("signal", "sigwaitinfo for the signal of a periodic POSIX timer"),
            ("relative", "clock_nanosleep with a relative time"),
        ],
    ).or("nanosleep");
    ALIGNED: bool = Typed::flag(
        "aligned",
        "Wake all CPUs simultaneously instead of spread over the interval",
    );
    FULL_SECOND: bool = Typed::flag(
        "full-second",
        "Start on all CPUs at the next full second of the clock",
    ).of_older_tools();
    START_PHASE: Option<Nanos> = Typed::duration(
        "start-phase",
        "Start this long after a multiple of the interval on the clock [default: at any time]",
        Nanos::ZERO..=Nanos::from_secs(1),
    );
    OFFSET: Nanos = Typed::duration(
        "offset",
        "Delay of the start; with --aligned, it is added for each successive thread",
        Nanos::ZERO..=Nanos::from_secs(3_600),
    ).or("0s").of_older_tools();
    THREADS: Option<u64> = Typed::count(
        "threads",
        "Number of threads, distributed over the CPUs in turn",
        1..=4_096,
    );
    UNBOUND: bool = Typed::flag(
        "unbound",
        "Let each thread run on any of the CPUs",
    );
    DISTANCE: Nanos = Typed::duration(
        "distance",
        "Increase of the interval for each further thread",
        Nanos::ZERO..=Nanos::from_secs(3_600),
    ).or("0s").of_older_tools();
    PRIORITY_SPREAD: bool = Typed::flag(
        "priority-spread",
        "Lower the priority of each further thread by one",
    ).of_older_tools();
    WAKEUPS: Option<u64> = Typed::count(
        Parameter::WAKEUPS,
        "Stop a thread after this many samples, and the others soon after",
        1..=1_000_000_000_000,
    ).of_older_tools();
    SOURCE: &'static str = Typed::choice(
        "source",
        "Source of the measurements",
        &[
            (OURS, "the probe's threads, which read the clock themselves"),
            (TIMERLAT, "the kernel's tracer timerlat, with separate interrupt, thread and \
                user-space latencies (needs root)"),
        ],
    ).or(OURS);
    WORKLOAD: Option<&'static str> = Typed::choice(
        "workload",
        "With --source timerlat: threads that the timers wake [default: user if the kernel supports it]",
        &[
            (USER, "the probe's threads, in user space (since Linux 6.5)"),
            (KERNEL, "the kernel's own threads"),
        ],
    );
    CLOCK: &'static str = Typed::choice(
        "clock",
        "Clock for the sleeps and for the latencies",
        &[
            ("monotonic", "CLOCK_MONOTONIC"),
            ("realtime", "CLOCK_REALTIME, wall-clock time"),
        ],
    ).or("monotonic");
}
