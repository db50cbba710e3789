//! pmqtest: latency from sending a message to the waiting thread.

use super::options::*;
use super::{FIGURES, Kind, PRIORITY as LOWER, SHORTEST, SLEEP};
use crate::option_row::{OptionRow, specs};
use crate::{Difference, Tool};

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
    summary: "latency from sending a message to the waiting thread",
    probe: "wakeup",
    options: &specs::<_, { KIND.options.len() }>(KIND.options),
    removed: &[],
    differences: &[
        SLEEP,
        LOWER,
        FIGURES,
        SHORTEST,
        Difference {
            what: "With `-T`, the limit counts from the time at which the message is due. If a \
                message is later, the tool ends with status 1.",
            why: "The original's receiver waits only while the sender sends. Here, it waits from \
                the previous exchange. The original reports success.",
        },
        Difference {
            what: "With `-T` and `-f` each cycle comes, and `TO` and `timeoutcount` say how often the \
                   receiver gave up before the latest.",
            why: "In the original the sender takes the receiver's answer twice with `-T`, once with \
                  a limit and once without, and there is only one: it hangs in the second, \
                  and the receiver's count goes up for ever.",
        },
    ],
    run: |parsed, context| super::run(&KIND, parsed, context),
};
