//! svsematest measures the latency from unlocking a System V semaphore until the waiting thread
//! runs.

use super::options::*;
use super::{FIGURES, FORK as PROCESSES, Kind, PRIORITY as LOWER, SHORTEST, SLEEP};
use crate::option_row::{OptionRow, specs};
use crate::{Family, Tool};

const KIND: Kind = Kind {
    name: "svsematest",
    via: "sem-sysv",
    timeouts: false,
    says_not_ready: true,
    options: &[
        AFFINITY,
        BREAKTRACE,
        DISTANCE,
        OptionRow::DURATION,
        FORK,
        INTERVAL,
        OptionRow::JSON,
        LOOPS,
        PRIORITY,
        OptionRow::QUIET,
        SMP,
        THREADS,
        OptionRow::HELP,
    ],
};

pub(crate) const TOOL: Tool = Tool {
    name: KIND.name,
    summary: "latency from unlocking a System V semaphore until the waiting thread has locked it",
    probe: "wakeup",
    family: Family::RtTests,
    options: &specs::<_, { KIND.options.len() }>(KIND.options),
    removed: &[],
    differences: &[SLEEP, LOWER, FIGURES, SHORTEST, PROCESSES],
    run: |parsed, context| super::run(&KIND, parsed, context),
};
