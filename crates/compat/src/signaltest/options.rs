//! The options of signaltest 2.10.

use crate::OptionSpec;
use crate::Takes::{Nothing, Optional, Required};

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        short: Some('a'),
        long: "affinity",
        takes: Optional("CPUSET"),
        help: "bind the threads to CPUs in turn: those of CPUSET (0-3,8; !2 for all others; +0-1 among those allowed), or all that may be used, which is the default",
    },
    OptionSpec {
        short: Some('b'),
        long: "breaktrace",
        takes: Required("USEC"),
        help: "stop when a latency is above USEC",
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
        long: "json",
        takes: Required("FILENAME"),
        help: "write the results as JSON to FILENAME, or to stdout for -",
    },
    OptionSpec {
        short: Some('l'),
        long: "loops",
        takes: Required("LOOPS"),
        help: "stop after LOOPS rounds; default 0: endless",
    },
    OptionSpec {
        short: Some('m'),
        long: "mlockall",
        takes: Nothing,
        help: "lock memory, and do not run where that is refused",
    },
    OptionSpec {
        short: Some('p'),
        long: "priority",
        takes: Required("PRIO"),
        help: "real-time priority of the threads, 1 to 99",
    },
    OptionSpec {
        short: Some('q'),
        long: "quiet",
        takes: Nothing,
        help: "print only when the run is over",
    },
    OptionSpec {
        short: Some('S'),
        long: "smp",
        takes: Nothing,
        help: "one thread on each CPU that may be used",
    },
    OptionSpec {
        short: Some('t'),
        long: "threads",
        takes: Required("NUM"),
        help: "how many threads; default 2",
    },
    OptionSpec {
        short: Some('v'),
        long: "verbose",
        takes: Nothing,
        help: "print each round of the first thread as n:c:v: thread, cycle, value in us",
    },
];
