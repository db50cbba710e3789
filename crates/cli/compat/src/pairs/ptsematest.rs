//! ptsematest measures the latency from unlocking a mutex until the waiting thread runs.

use super::options::*;
use super::{FIGURES, Kind, PRIORITY as LOWER, SHORTEST, SLEEP};
use crate::option_row::{OptionRow, specs};
use crate::{Family, Tool};

const KIND: Kind = Kind {
    name: "ptsematest",
    via: "mutex",
    timeouts: false,
    says_not_ready: false,
    options: &[
        AFFINITY,
        BREAKTRACE,
        DISTANCE,
        OptionRow::DURATION,
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
    summary: "latency from unlocking a mutex until the waiting thread has locked it",
    probe: "wakeup",
    family: Family::RtTests,
    options: &specs::<_, { KIND.options.len() }>(KIND.options),
    removed: &[],
    differences: &[SLEEP, LOWER, FIGURES, SHORTEST],
    run: |parsed, context| super::run(&KIND, parsed, context),
};
