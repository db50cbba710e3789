//! Threads that the kernel's tracers measure with.

use punctual_host::Host;
use punctual_model::{Scheduling, TaskUsage, ThreadUsage};
use punctual_rt::Tid;

use crate::rt_policy;

/// Gives a thread the policy that was asked for, and returns what it has then. Of
/// itself the kernel gives those of timerlat fifo 95, and those of osnoise none.
///
/// # Errors
/// What the kernel refused.
pub(crate) fn settle(tid: u32, scheduling: Scheduling) -> Result<String, String> {
    let tid = i32::try_from(tid).ok().and_then(Tid::from_raw);
    let tid = tid.ok_or("it has no number")?;
    let text = |error: punctual_rt::Error| error.to_string();
    let wanted = rt_policy(scheduling);
    let mut found = punctual_rt::policy_of(tid).map_err(text)?;
    if found != wanted {
        punctual_rt::set_policy(tid, &wanted).map_err(text)?;
        found = punctual_rt::policy_of(tid).map_err(text)?;
    }
    match found == wanted {
        true => Ok(scheduling.to_string()),
        false => Err(format!("it has {found}")),
    }
}

/// What a thread of this process has used; each of the kernel's is its own.
pub(crate) fn usage_of(host: &Host, process: u32, tid: u32) -> Option<TaskUsage> {
    let tasks = host.tasks_of(process).into_iter();
    tasks
        .filter(|task| task.tid == tid)
        .map(|task| task.used)
        .next()
}

/// What it has used between the two.
pub(crate) fn since(before: &TaskUsage, now: &TaskUsage) -> ThreadUsage {
    let used = now.since(before);
    ThreadUsage {
        page_faults_minor: used.faults_minor,
        page_faults_major: used.faults_major,
        switches_voluntary: used.switches_voluntary.unwrap_or_default(),
        switches_involuntary: used.switches_involuntary.unwrap_or_default(),
        cpu_time_ns: used.cpu_time_ns,
    }
}
