//! The options that these tools share.

pub(super) use crate::options::{DURATION, HELP, JSON, QUIET};

use crate::OptionSpec;
use crate::Takes::{Nothing, Optional, Required};

pub(super) const AFFINITY: OptionSpec = OptionSpec::new(
    Some('a'),
    "affinity",
    Optional("NUM"),
    "bind both threads of each pair to one CPU: those of all pairs to NUM, or each pair to the next CPU; without this option they are not bound",
);
pub(super) const BREAKTRACE: OptionSpec = OptionSpec::new(
    Some('b'),
    "breaktrace",
    Required("USEC"),
    "stop when a latency is above USEC, and stop the kernel's trace there",
);
pub(super) const DISTANCE: OptionSpec = OptionSpec::new(
    Some('d'),
    "distance",
    Required("DIST"),
    "each pair's interval is longer by DIST us than that of the one before; default 500",
);
pub(super) const FORK: OptionSpec = OptionSpec::new(
    Some('f'),
    "fork",
    Optional("OPT"),
    "let the two threads of each pair be in processes of their own; an OPT is for the original's own use",
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
    "real-time priority of the first pair, 1 to 99; each other pair's is lower by one",
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
    "how many pairs; one for each CPU where NUM is not given; default 1",
);
