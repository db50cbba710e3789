//! Options that more than one tool has, with the same meaning.

use crate::OptionSpec;
use crate::Takes::{Nothing, Required};

pub(crate) const DURATION: OptionSpec = OptionSpec::new(
    Some('D'),
    "duration",
    Required("TIME"),
    "run time in seconds; with m, h or d in minutes, hours or days",
);
pub(crate) const HELP: OptionSpec = OptionSpec::new(Some('h'), "help", Nothing, "print this");
pub(crate) const JSON: OptionSpec = OptionSpec::new(
    None,
    "json",
    Required("FILENAME"),
    "write the results as JSON to FILENAME, or to stdout for -",
);
pub(crate) const QUIET: OptionSpec = OptionSpec::new(
    Some('q'),
    "quiet",
    Nothing,
    "print only when the run is over",
);
pub(crate) const MLOCKALL: OptionSpec = OptionSpec::new(
    Some('m'),
    "mlockall",
    Nothing,
    "lock memory; fail if that is refused",
);
pub(crate) const BREAKTRACE: OptionSpec = OptionSpec::new(
    Some('b'),
    "breaktrace",
    Required("USEC"),
    "stop when a latency is above USEC",
);
pub(crate) const HISTFILE: OptionSpec = OptionSpec::new(
    None,
    "histfile",
    Required("PATH"),
    "write the histogram to PATH instead of stdout",
);
pub(crate) const TRACEMARK: OptionSpec = OptionSpec::new(
    None,
    "tracemark",
    Nothing,
    "at a break, mark and stop the kernel's trace",
);
