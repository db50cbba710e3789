//! The threads that the kernel's tracers use for measuring.

use punctual_host::Host;
use punctual_model::{Scheduling, TaskUsage, ThreadUsage};
use punctual_rt::{Policy, Tid};

use crate::rt_policy;

/// Why a thread does not have the requested policy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    /// The thread ID is not a valid ID in the kernel, where IDs start at 1 and have 31 bits.
    #[error("its thread ID is not valid")]
    NoNumber,
    /// The policy was set, but the kernel reports a different one.
    #[error("it has {0}")]
    Other(Policy),
    /// The policy cannot be read, or the kernel rejects it.
    #[error(transparent)]
    System(#[from] punctual_rt::Error),
}

/// Sets the requested policy of a thread, and returns the policy that it then has. By default, the
/// kernel gives timerlat's threads fifo 95, and does not set a policy for osnoise's threads.
///
/// # Errors
/// If the kernel rejects it.
pub(crate) fn settle(tid: u32, scheduling: Scheduling) -> Result<String, PolicyError> {
    let tid = i32::try_from(tid).ok().and_then(Tid::from_raw);
    let tid = tid.ok_or(PolicyError::NoNumber)?;
    let wanted = rt_policy(scheduling);
    let mut found = punctual_rt::policy_of(tid)?;
    if found != wanted {
        punctual_rt::set_policy(tid, &wanted)?;
        found = punctual_rt::policy_of(tid)?;
    }
    if found == wanted {
        Ok(scheduling.to_string())
    } else {
        Err(PolicyError::Other(found))
    }
}

/// Returns the usage of a thread of this process. Each kernel thread is a process of its own.
pub(crate) fn usage_of(host: &Host, process: u32, tid: u32) -> Option<TaskUsage> {
    let tasks = host.tasks_of(process).into_iter();
    tasks
        .filter(|task| task.tid == tid)
        .map(|task| task.used)
        .next()
}

/// Returns the usage between the two readings.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn differing_thread_policy_is_explained() {
        let refused = || punctual_rt::Error::PriorityOutOfRange {
            policy: punctual_rt::PolicyKind::Fifo,
            priority: 100,
            min: 1,
            max: 99,
        };
        let refusal = refused().to_string();
        for (error, text) in [
            (PolicyError::NoNumber, "its thread ID is not valid"),
            (
                PolicyError::Other(rt_policy(testing::fifo(95))),
                "it has SCHED_FIFO priority 95",
            ),
            (PolicyError::System(refused()), &refusal),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn unused_thread_number_is_refused() {
        for tid in [0, u32::MAX] {
            let error = settle(tid, testing::OTHER).unwrap_err();
            assert!(matches!(error, PolicyError::NoNumber), "{error}");
        }
    }
}
