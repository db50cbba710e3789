//! ptsematest: latency from unlocking a mutex to the waiting thread.

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
    summary: "latency from unlocking a mutex to the waiting thread",
    probe: "wakeup",
    options: &[
        AFFINITY, BREAKTRACE, DISTANCE, DURATION, INTERVAL, JSON, LOOPS, PRIORITY, QUIET, SMP,
        THREADS, HELP,
    ],
    removed: &[],
    differences: &[SLEEP, LOWER, FIGURES, SHORTEST],
    run: |parsed, context| super::run(&KIND, parsed, context),
};
