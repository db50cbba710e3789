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
        "number of buckets, 5 to 1024; default 32",
    ),
    OptionSpec::new(
        Some('B'),
        "bias",
        Nothing,
        "subtract the shortest turn from all buckets",
    ),
    OptionSpec::new(
        Some('c'),
        "cpu-list",
        Required("CPUS"),
        "CPUs to spin on, e.g. 1,3,5,7-15; default: all usable",
    ),
    OptionSpec::new(
        Some('C'),
        "cpu-main-thread",
        Required("CPU"),
        "CPU of the main thread; default 0",
    ),
    OptionSpec::new(
        Some('D'),
        "duration",
        Required("TIME"),
        "run time in seconds; with m, h or d in minutes, hours or days; default 1",
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
        "size of memory that the workload copies, e.g. 4K, 1M; default 16K",
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
        "stop when a turn takes US us or longer; mark and stop the kernel's trace",
    ),
    OptionSpec::new(Some('v'), "version", Nothing, "print the version"),
    OptionSpec::new(
        Some('w'),
        "workload",
        Required("NAME"),
        "work of each turn: no (default) or memmove",
    ),
    OptionSpec::new(
        Some('W'),
        "bucket-width",
        Required("NS"),
        "width of the buckets in ns; figures are in ns unless it is a multiple of 1000; default 1000",
    ),
    OptionSpec::new(
        Some('z'),
        "zero-omit",
        Nothing,
        "omit buckets that are 0 on all CPUs",
    ),
    HELP,
];
