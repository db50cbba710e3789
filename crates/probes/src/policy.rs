//! Between the model's words for a policy and those of `rt`.

use punctual_model::{Policy, Scheduling};

/// The policy in the words of `rt`. A deadline policy needs its three times,
/// which a probe that uses it sets itself: here it counts as other.
pub fn rt_policy(scheduling: Scheduling) -> punctual_rt::Policy {
    let priority = scheduling.priority;
    match scheduling.policy {
        Policy::Fifo => punctual_rt::Policy::Fifo { priority },
        Policy::RoundRobin => punctual_rt::Policy::RoundRobin { priority },
        Policy::Batch => punctual_rt::Policy::Batch { nice: 0 },
        Policy::Idle => punctual_rt::Policy::Idle,
        Policy::Other | Policy::Deadline | Policy::Unknown => {
            punctual_rt::Policy::Other { nice: 0 }
        }
    }
}
