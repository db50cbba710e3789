//! The options of signaltest 2.10.

use crate::OptionSpec;
use crate::Takes::{Nothing, Optional, Required};
use crate::options::{BREAKTRACE, DURATION, HELP, JSON, MLOCKALL, QUIET};

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        Some('a'),
        "affinity",
        Optional("CPUSET"),
        "bind the threads to CPUs in turn: CPUSET (0-3,8; !2: all others; +0-1: among the allowed); default: all usable CPUs",
    ),
    BREAKTRACE,
    DURATION,
    HELP,
    JSON,
    OptionSpec::new(
        Some('l'),
        "loops",
        Required("LOOPS"),
        "stop after LOOPS rounds; default 0: endless",
    ),
    MLOCKALL,
    OptionSpec::new(
        Some('p'),
        "priority",
        Required("PRIO"),
        "real-time priority of the threads, 1 to 99",
    ),
    QUIET,
    OptionSpec::new(Some('S'), "smp", Nothing, "one thread on each usable CPU"),
    OptionSpec::new(
        Some('t'),
        "threads",
        Required("NUM"),
        "number of threads; default 2",
    ),
    OptionSpec::new(
        Some('v'),
        "verbose",
        Nothing,
        "print each round of the first thread as n:c:v: thread, cycle, value in us",
    ),
];
