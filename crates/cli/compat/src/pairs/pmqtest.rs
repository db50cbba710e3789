//! pmqtest measures the latency from sending a message until the waiting thread runs.

use super::options::*;
use super::{FIGURES, Kind, PRIORITY as LOWER, SHORTEST, SLEEP};
use crate::option_row::{OptionRow, specs};
use crate::{Difference, Family, Tool};

pub(super) const KIND: Kind = Kind {
    name: "pmqtest",
    via: "mq",
    timeouts: true,
    says_not_ready: false,
    options: &[
        AFFINITY,
        BREAKTRACE,
        DISTANCE,
        OptionRow::DURATION,
        FORCETIMEOUT,
        INTERVAL,
        OptionRow::JSON,
        LOOPS,
        PRIORITY,
        OptionRow::QUIET,
        SMP,
        THREADS,
        TIMEOUT,
        OptionRow::HELP,
    ],
};

pub(crate) const TOOL: Tool = Tool {
    name: KIND.name,
    summary: "latency from sending a message until the waiting thread receives it",
    probe: "wakeup",
    family: Family::RtTests,
    options: &specs::<_, { KIND.options.len() }>(KIND.options),
    removed: &[],
    differences: &[
        SLEEP,
        LOWER,
        FIGURES,
        SHORTEST,
        Difference {
            what: "With `-T`, the timeout starts at the time when the message is due. If a message \
                is later than the timeout, the tool exits with status 1.",
            why: "In the original, the receiver waits only while the sender sends. In punctual, \
                  the receiver waits from the end of the previous exchange. The original reports \
                  success after a timeout.",
        },
        Difference {
            what: "With `-T` and `-f`, every cycle is completed. `TO` and `timeoutcount` show how \
                often the receiver timed out before the latest message.",
            why: "In the original with `-T`, the sender waits twice for the receiver's single \
                answer, first with a timeout and then without. It hangs in the second wait, while \
                the receiver's count increases endlessly.",
        },
    ],
    run: |parsed, context| super::run(&KIND, parsed, context),
};
