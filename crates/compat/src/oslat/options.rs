//! The options of oslat 2.10.

use crate::OptionSpec;
use crate::Takes::{Nothing, Required};

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        short: Some('b'),
        long: "bucket-size",
        takes: Required("N"),
        help: "how many buckets there are, 5 to 1024; default 32",
    },
    OptionSpec {
        short: Some('B'),
        long: "bias",
        takes: Nothing,
        help: "take the shortest turn from all buckets",
    },
    OptionSpec {
        short: Some('c'),
        long: "cpu-list",
        takes: Required("CPUS"),
        help: "the CPUs to spin on, e.g. 1,3,5,7-15; default all that may be used",
    },
    OptionSpec {
        short: Some('C'),
        long: "cpu-main-thread",
        takes: Required("CPU"),
        help: "the CPU of the main thread; default 0",
    },
    OptionSpec {
        short: Some('D'),
        long: "duration",
        takes: Required("TIME"),
        help: "how long to run, in seconds; with m, h or d in minutes, hours or days; default 1",
    },
    OptionSpec {
        short: None,
        long: "json",
        takes: Required("FILENAME"),
        help: "write the results as JSON to FILENAME, or to stdout for -",
    },
    OptionSpec {
        short: Some('f'),
        long: "rtprio",
        takes: Required("PRIO"),
        help: "SCHED_FIFO with this priority, 1 to 99",
    },
    OptionSpec {
        short: Some('m'),
        long: "workload-mem",
        takes: Required("SIZE"),
        help: "how much memory the workload copies, e.g. 4K, 1M; default 16K",
    },
    OptionSpec {
        short: Some('q'),
        long: "quiet",
        takes: Nothing,
        help: "print the summary only",
    },
    OptionSpec {
        short: Some('s'),
        long: "single-preheat",
        takes: Nothing,
        help: "with -B: take the bias from the first CPU",
    },
    OptionSpec {
        short: Some('T'),
        long: "trace-threshold",
        takes: Required("US"),
        help: "stop when a turn takes US us or longer, mark the kernel's trace and stop it there",
    },
    OptionSpec {
        short: Some('v'),
        long: "version",
        takes: Nothing,
        help: "print the version",
    },
    OptionSpec {
        short: Some('w'),
        long: "workload",
        takes: Required("NAME"),
        help: "what is done in each turn: no (default) or memmove",
    },
    OptionSpec {
        short: Some('W'),
        long: "bucket-width",
        takes: Required("NS"),
        help: "width of the buckets in ns; one that is no multiple of 1000 shows ns; default 1000",
    },
    OptionSpec {
        short: Some('z'),
        long: "zero-omit",
        takes: Nothing,
        help: "leave out buckets that are 0 on all CPUs",
    },
    OptionSpec {
        short: Some('h'),
        long: "help",
        takes: Nothing,
        help: "print this",
    },
];
