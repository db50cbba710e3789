//! ptsematest: from the unlocking of a mutex to the thread that waits for it.

use super::options::*;
use super::{FIGURES, Kind, PRIORITY as LOWER, SHORTEST, SLEEP};
use crate::Tool;

const KIND: Kind = Kind {
    name: "ptsematest",
    via: "mutex",
    timeouts: false,
    says_not_ready: false,
};

pub(crate) const TOOL: Tool = Tool {
    name: KIND.name,
    summary: "from the unlocking of a mutex to the thread that waits for it",
    probe: "wakeup",
    options: &[
        AFFINITY, BREAKTRACE, DISTANCE, DURATION, INTERVAL, JSON, LOOPS, PRIORITY, QUIET, SMP,
        THREADS, HELP,
    ],
    removed: &[],
    differences: &[SLEEP, LOWER, FIGURES, SHORTEST],
    run: |parsed, stage| super::run(&KIND, parsed, stage),
};
