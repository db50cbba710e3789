//! pmqtest: from the sending of a message to the thread that waits for it.

use super::options::*;
use super::{FIGURES, Kind, PRIORITY as LOWER, SLEEP};
use crate::Takes::Required;
use crate::{Difference, OptionSpec, Tool};

const KIND: Kind = Kind {
    name: "pmqtest",
    via: "mq",
    timeouts: true,
    says_not_ready: false,
};

const FORCETIMEOUT: OptionSpec = OptionSpec {
    short: Some('f'),
    long: "forcetimeout",
    takes: Required("TO"),
    help: "not supported: force timeouts of mq_timedreceive",
};
const TIMEOUT: OptionSpec = OptionSpec {
    short: Some('T'),
    long: "timeout",
    takes: Required("TO"),
    help: "not supported: receive with mq_timedreceive, which gives up after TO seconds",
};

pub(crate) const TOOL: Tool = Tool {
    name: KIND.name,
    summary: "from the sending of a message to the thread that waits for it",
    probe: "wakeup",
    options: &[
        AFFINITY,
        BREAKTRACE,
        DISTANCE,
        DURATION,
        FORCETIMEOUT,
        INTERVAL,
        JSON,
        LOOPS,
        PRIORITY,
        QUIET,
        SMP,
        THREADS,
        TIMEOUT,
        HELP,
    ],
    removed: &[],
    differences: &[
        SLEEP,
        LOWER,
        FIGURES,
        Difference {
            what: "`-T` and `-f` are refused; `TO` and `timeoutcount` are 0.",
            why: "They test the timeouts of mq_timedreceive, which is no latency.",
        },
    ],
    run: |parsed, stage| super::run(&KIND, parsed, stage),
};
