//! The options of oslat 2.10.

use crate::OptionSpec;
use crate::Takes::{Nothing, Required};
use crate::options::{HELP, JSON};

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        Some('b'),
        "bucket-size",
        Required("N"),
        "how many buckets there are, 5 to 1024; default 32",
    ),
    OptionSpec::new(
        Some('B'),
        "bias",
        Nothing,
        "take the shortest turn from all buckets",
    ),
    OptionSpec::new(
        Some('c'),
        "cpu-list",
        Required("CPUS"),
        "the CPUs to spin on, e.g. 1,3,5,7-15; default all that may be used",
    ),
    OptionSpec::new(
        Some('C'),
        "cpu-main-thread",
        Required("CPU"),
        "the CPU of the main thread; default 0",
    ),
    OptionSpec::new(
        Some('D'),
        "duration",
        Required("TIME"),
        "how long to run, in seconds; with m, h or d in minutes, hours or days; default 1",
    ),
    JSON,
    OptionSpec::new(
        Some('f'),
        "rtprio",
        Required("PRIO"),
        "SCHED_FIFO with this priority, 1 to 99",
    ),
    OptionSpec::new(
        Some('m'),
        "workload-mem",
        Required("SIZE"),
        "how much memory the workload copies, e.g. 4K, 1M; default 16K",
    ),
    OptionSpec::new(Some('q'), "quiet", Nothing, "print the summary only"),
    OptionSpec::new(
        Some('s'),
        "single-preheat",
        Nothing,
        "with -B: take the bias from the first CPU",
    ),
    OptionSpec::new(
        Some('T'),
        "trace-threshold",
        Required("US"),
        "stop when a turn takes US us or longer, mark the kernel's trace and stop it there",
    ),
    OptionSpec::new(Some('v'), "version", Nothing, "print the version"),
    OptionSpec::new(
        Some('w'),
        "workload",
        Required("NAME"),
        "what is done in each turn: no (default) or memmove",
    ),
    OptionSpec::new(
        Some('W'),
        "bucket-width",
        Required("NS"),
        "width of the buckets in ns; one that is no multiple of 1000 shows ns; default 1000",
    ),
    OptionSpec::new(
        Some('z'),
        "zero-omit",
        Nothing,
        "leave out buckets that are 0 on all CPUs",
    ),
    HELP,
];
