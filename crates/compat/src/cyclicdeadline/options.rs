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
        "run on these CPUs; only all that may be used, with or without naming them",
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
        "print a histogram of the latencies below US us after the run",
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
        "each thread's deadline is longer by STEP us than that of the one before; default 500",
    ),
    OptionSpec::new(
        Some('t'),
        "threads",
        Required("NUM"),
        "how many threads; default 1, with -a one for each CPU",
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
