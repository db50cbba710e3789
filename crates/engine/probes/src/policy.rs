//! Starts measuring threads, and converts policies from the model to `rt`.

use punctual_model::{Policy, Scheduling};
use punctual_rt::ThreadBuilder;

/// Size of the part of the stack that is touched before the start. The measuring loops use far
/// less. The size must be small, because there may be a thread on each of hundreds of CPUs.
pub(crate) const STACK_PREFAULT: usize = 16 * 1024;

/// Prepares a measuring thread on these CPUs, with a stack that is touched before the start.
pub(crate) fn measuring_thread(name: &str, cpus: &[u32], scheduling: Scheduling) -> ThreadBuilder {
    ThreadBuilder::new(name)
        .cpus(cpus)
        .policy(rt_policy(scheduling))
        .prefault_stack(STACK_PREFAULT)
}

/// Converts a policy to the type of `rt`, with the niceness of the calling thread. This is the
/// niceness set by nice(1), which an ordinary user may not lower. A deadline policy is converted to
/// other, because it needs three times, which a probe that uses it sets itself.
pub fn rt_policy(scheduling: Scheduling) -> punctual_rt::Policy {
    let priority = scheduling.priority;
    match scheduling.policy {
        Policy::Fifo => punctual_rt::Policy::Fifo { priority },
        Policy::RoundRobin => punctual_rt::Policy::RoundRobin { priority },
        Policy::Batch => punctual_rt::Policy::Batch { nice: niceness() },
        Policy::Idle => punctual_rt::Policy::Idle,
        Policy::Other | Policy::Deadline | Policy::Unknown => {
            punctual_rt::Policy::Other { nice: niceness() }
        }
    }
}

/// Returns the niceness of the calling thread; 0 if its policy has none.
fn niceness() -> i32 {
    match punctual_rt::current_policy() {
        Ok(punctual_rt::Policy::Other { nice } | punctual_rt::Policy::Batch { nice }) => nice,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_keeps_its_initial_niceness() {
        let tid = punctual_rt::current_tid();
        let own = niceness();
        let raised = own.max(4) + 1;
        if raised > 19 {
            punctual_testing::skip!(Quiet, "a higher niceness: the tests run at {own}");
            return;
        }
        punctual_rt::set_policy(tid, &punctual_rt::Policy::Other { nice: raised }).unwrap();
        for policy in [Policy::Other, Policy::Batch] {
            let scheduling = Scheduling {
                policy,
                priority: 0,
            };
            let builder = ThreadBuilder::new("kept").policy(rt_policy(scheduling));
            let seen = builder.spawn(niceness).unwrap().join().unwrap();
            assert_eq!(seen, raised, "{policy}");
        }
    }
}
