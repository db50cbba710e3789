//! The options that these tools share.

pub(super) use crate::options::{DURATION, HELP, JSON, QUIET};

use crate::OptionSpec;
use crate::Takes::{Nothing, Optional, Required};

pub(super) const AFFINITY: OptionSpec = OptionSpec::new(
    Some('a'),
    "affinity",
    Optional("NUM"),
    "bind both threads of each pair to one CPU: all pairs to NUM, or each to the next CPU; default: not bound",
);
pub(super) const BREAKTRACE: OptionSpec = OptionSpec::new(
    Some('b'),
    "breaktrace",
    Required("USEC"),
    "stop when a latency is above USEC, and stop the kernel's trace",
);
pub(super) const DISTANCE: OptionSpec = OptionSpec::new(
    Some('d'),
    "distance",
    Required("DIST"),
    "us added to each successive pair's interval; default 500",
);
pub(super) const FORK: OptionSpec = OptionSpec::new(
    Some('f'),
    "fork",
    Optional("OPT"),
    "run the two threads of each pair in separate processes; OPT is internal to the original",
);
pub(super) const INTERVAL: OptionSpec = OptionSpec::new(
    Some('i'),
    "interval",
    Required("INTV"),
    "interval of the first pair in us; default 1000",
);
pub(super) const LOOPS: OptionSpec = OptionSpec::new(
    Some('l'),
    "loops",
    Required("LOOPS"),
    "stop when a pair has made LOOPS cycles; default 0: endless",
);
pub(super) const PRIORITY: OptionSpec = OptionSpec::new(
    Some('p'),
    "priority",
    Required("PRIO"),
    "real-time priority of the first pair, 1 to 99; one less for each successive pair",
);
pub(super) const SMP: OptionSpec = OptionSpec::new(
    Some('S'),
    "smp",
    Nothing,
    "one pair on each CPU, all of the same priority: -a -t",
);
pub(super) const THREADS: OptionSpec = OptionSpec::new(
    Some('t'),
    "threads",
    Optional("NUM"),
    "number of pairs; without NUM one per CPU; default 1",
);
