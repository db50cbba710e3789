//! The options of cyclicdeadline 2.10.

use crate::OptionSpec;
use crate::Takes::{Nothing, Optional, Required};

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        short: Some('a'),
        long: "affinity",
        takes: Optional("CPUSET"),
        help: "run on these CPUs; only all that may be used, with or without naming them",
    },
    OptionSpec {
        short: Some('D'),
        long: "duration",
        takes: Required("TIME"),
        help: "how long to run, in seconds; with m, h or d in minutes, hours or days",
    },
    OptionSpec {
        short: Some('h'),
        long: "help",
        takes: Nothing,
        help: "print this",
    },
    OptionSpec {
        short: None,
        long: "histogram",
        takes: Required("US"),
        help: "print a histogram of the latencies below US us after the run",
    },
    OptionSpec {
        short: None,
        long: "histfile",
        takes: Required("PATH"),
        help: "write the histogram to PATH instead of stdout",
    },
    OptionSpec {
        short: Some('i'),
        long: "interval",
        takes: Required("INTV"),
        help: "deadline and period of the first thread in us; default 1000",
    },
    OptionSpec {
        short: None,
        long: "json",
        takes: Required("FILENAME"),
        help: "write the results as JSON to FILENAME, or to stdout for -",
    },
    OptionSpec {
        short: Some('s'),
        long: "step",
        takes: Required("STEP"),
        help: "each thread's deadline is longer by STEP us than that of the one before; default 500",
    },
    OptionSpec {
        short: Some('t'),
        long: "threads",
        takes: Required("NUM"),
        help: "how many threads; default 1, with -a one for each CPU",
    },
    OptionSpec {
        short: Some('q'),
        long: "quiet",
        takes: Nothing,
        help: "print only when the run is over",
    },
    OptionSpec {
        short: Some('b'),
        long: "breaktrace",
        takes: Required("USEC"),
        help: "stop when a latency is above USEC",
    },
    OptionSpec {
        short: None,
        long: "tracemark",
        takes: Nothing,
        help: "at a break, write a mark into the kernel's trace and stop the trace there",
    },
    OptionSpec {
        short: None,
        long: "debug",
        takes: Nothing,
        help: "print each thread's times on stderr",
    },
    OptionSpec {
        short: None,
        long: "verbose",
        takes: Nothing,
        help: "print the times of the test",
    },
];
