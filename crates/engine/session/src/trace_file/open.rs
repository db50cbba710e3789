//! Waits and jobs that the end of a trace cuts off.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_culprit::OpenWait;
use punctual_host::system_call_name;
use punctual_model::cause::{OpenAtEnd, OpenCall};
use punctual_model::{Delay, Nanos, Task};
use punctual_tracefile::TraceHead;

use super::TraceRequest;
use crate::observe::jobs::{JobWatch, call_name};

/// Maximum number of jobs that are kept.
const MOST: usize = 20;

/// Returns the waits that the end of the trace cuts off.
pub(super) fn waits(open: &[OpenWait], head: &TraceHead) -> Vec<OpenAtEnd> {
    let open = open.iter().map(|wait| OpenAtEnd {
        thread: wait.thread,
        delay: wait.delay,
        since_ns: wait.since,
        least_ns: wait.least(),
        state: wait.state(),
        call: wait.call.map(|(id, since)| OpenCall {
            name: name(head, id),
            for_ns: wait.end.saturating_sub(since),
        }),
    });
    open.collect()
}

/// Returns the name of a system call, or its number: numbers have names only if the trace was recorded on
/// the architecture of this machine.
fn name(head: &TraceHead, id: i64) -> String {
    let is_same = head.machine.as_deref() == Some(std::env::consts::ARCH);
    let known = system_call_name(id).filter(|_| is_same);
    let stated = head.calls.get(&id).cloned();
    stated.unwrap_or_else(|| known.map_or_else(|| id.to_string(), str::to_owned))
}

/// Returns the jobs that the end of the trace cuts off and that have already exceeded the budget, the
/// longest first. `tasks`: the selected threads.
pub(super) fn jobs(
    watch: &JobWatch,
    tasks: &BTreeMap<u32, Task>,
    (request, budget, end): (&TraceRequest, Nanos, Nanos),
) -> Vec<OpenAtEnd> {
    let open = watch.open_jobs().filter_map(|(tid, job)| {
        let thread = *tasks.get(&tid)?;
        let least_ns = end.saturating_sub(job.release);
        let wanted = &request.wanted;
        // Without an end, the CPU on which a job ends is unknown.
        let is_wanted = wanted.cpu.is_none() && wanted.overlaps(job.release, end);
        (is_wanted && least_ns > budget).then(|| OpenAtEnd {
            thread,
            delay: Delay::Job,
            since_ns: job.release,
            least_ns,
            state: job.state,
            call: job.call.and_then(|(call, since)| {
                Some(OpenCall {
                    name: call_name(call)?,
                    for_ns: end.saturating_sub(since),
                })
            }),
        })
    });
    let mut open: Vec<OpenAtEnd> = open.collect();
    open.sort_by_key(|one| (Reverse(one.least_ns), one.thread.pid));
    open.truncate(MOST);
    open
}
