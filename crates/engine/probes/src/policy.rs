//! How a measuring thread is started, and between the model's words for a policy and
//! those of `rt`.

use punctual_model::{Policy, Scheduling};
use punctual_rt::ThreadBuilder;

/// Stack that is touched before the start; the measuring loops use far less. There may be a
/// thread on each of hundreds of CPUs.
pub(crate) const STACK_PREFAULT: usize = 16 * 1024;

/// A measuring thread on these CPUs, whose stack is touched before the start.
pub(crate) fn measuring_thread(name: &str, cpus: &[u32], scheduling: Scheduling) -> ThreadBuilder {
    ThreadBuilder::new(name)
        .cpus(cpus)
        .policy(rt_policy(scheduling))
        .prefault_stack(STACK_PREFAULT)
}

/// The policy in the words of `rt`, with the niceness of the calling thread: that of
/// nice(1), which an ordinary user may not lower. A deadline policy needs its three
/// times, which a probe that uses it sets itself: here it counts as other.
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

/// That of the calling thread; 0 where it has a policy without.
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
    fn a_thread_keeps_the_niceness_it_was_started_with() {
        let tid = punctual_rt::current_tid();
        let own = niceness();
        let raised = own.max(4) + 1;
        if raised > 19 {
            punctual_testing::skip!("a higher niceness: the tests run at {own}");
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
