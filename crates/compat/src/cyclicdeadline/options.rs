//! The options of cyclicdeadline 2.10.

use crate::OptionSpec;
use crate::Takes::{Nothing, Optional, Required};
use crate::options::{BREAKTRACE, DURATION, HELP, HISTFILE, JSON, QUIET, TRACEMARK};

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        Some('a'),
        "affinity",
        Optional("CPUSET"),
        "run on these CPUs; only all usable ones are accepted",
    ),
    OptionSpec::new(
        Some('c'),
        "",
        Required("CPUSET"),
        "the same as -a with a CPUSET",
    ),
    DURATION,
    HELP,
    OptionSpec::new(
        None,
        "histogram",
        Required("US"),
        "print a histogram of latencies below US us after the run",
    ),
    HISTFILE,
    OptionSpec::new(
        Some('i'),
        "interval",
        Required("INTV"),
        "deadline and period of the first thread in us; default 1000",
    ),
    JSON,
    OptionSpec::new(
        Some('s'),
        "step",
        Required("STEP"),
        "us added to each successive thread's deadline; default 500",
    ),
    OptionSpec::new(
        Some('t'),
        "threads",
        Required("NUM"),
        "number of threads; default 1, with -a one per CPU",
    ),
    QUIET,
    BREAKTRACE,
    TRACEMARK,
    OptionSpec::new(
        None,
        "debug",
        Nothing,
        "print each thread's times on stderr",
    ),
    OptionSpec::new(None, "verbose", Nothing, "print the times of the test"),
];
