//! The options that these tools share.

use crate::OptionSpec;
use crate::Takes::{Nothing, Optional, Required};

pub(super) const AFFINITY: OptionSpec = OptionSpec {
    short: Some('a'),
    long: "affinity",
    takes: Optional("NUM"),
    help: "bind both threads of each pair to one CPU: those of all pairs to NUM, or each pair to the next CPU; without this option they are not bound",
};
pub(super) const BREAKTRACE: OptionSpec = OptionSpec {
    short: Some('b'),
    long: "breaktrace",
    takes: Required("USEC"),
    help: "stop when a latency is above USEC, and stop the kernel's trace there",
};
pub(super) const DISTANCE: OptionSpec = OptionSpec {
    short: Some('d'),
    long: "distance",
    takes: Required("DIST"),
    help: "each pair's interval is longer by DIST us than that of the one before; default 500",
};
pub(super) const DURATION: OptionSpec = OptionSpec {
    short: Some('D'),
    long: "duration",
    takes: Required("TIME"),
    help: "how long to run, in seconds; with m, h or d in minutes, hours or days",
};
pub(super) const FORK: OptionSpec = OptionSpec {
    short: Some('f'),
    long: "fork",
    takes: Optional("OPT"),
    help: "let the two threads of each pair be in processes of their own; an OPT is for the original's own use",
};
pub(super) const HELP: OptionSpec = OptionSpec {
    short: Some('h'),
    long: "help",
    takes: Nothing,
    help: "print this",
};
pub(super) const INTERVAL: OptionSpec = OptionSpec {
    short: Some('i'),
    long: "interval",
    takes: Required("INTV"),
    help: "interval of the first pair in us; default 1000",
};
pub(super) const JSON: OptionSpec = OptionSpec {
    short: None,
    long: "json",
    takes: Required("FILENAME"),
    help: "write the results as JSON to FILENAME, or to stdout for -",
};
pub(super) const LOOPS: OptionSpec = OptionSpec {
    short: Some('l'),
    long: "loops",
    takes: Required("LOOPS"),
    help: "stop when a pair has made LOOPS cycles; default 0: endless",
};
pub(super) const PRIORITY: OptionSpec = OptionSpec {
    short: Some('p'),
    long: "priority",
    takes: Required("PRIO"),
    help: "real-time priority of the first pair, 1 to 99; each other pair's is lower by one",
};
pub(super) const QUIET: OptionSpec = OptionSpec {
    short: Some('q'),
    long: "quiet",
    takes: Nothing,
    help: "print only when the run is over",
};
pub(super) const SMP: OptionSpec = OptionSpec {
    short: Some('S'),
    long: "smp",
    takes: Nothing,
    help: "one pair on each CPU, all of the same priority: -a -t",
};
pub(super) const THREADS: OptionSpec = OptionSpec {
    short: Some('t'),
    long: "threads",
    takes: Optional("NUM"),
    help: "how many pairs; one for each CPU where NUM is not given; default 1",
};
