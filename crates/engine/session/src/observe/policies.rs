//! The policies of the watched threads, and what the run shows about them.

use punctual_culprit::PolicyWatch;
use punctual_host::system_call_name;
use punctual_model::cause::{PolicyChange, RefusedCall};
use punctual_model::{Scheduling, ThreadRecord};

use super::watched::Watched;
use crate::lifecycle::Start;

/// Returns a watch of the policies that the threads have now.
pub(super) fn watch(threads: &[ThreadRecord], watched: &Watched) -> PolicyWatch {
    let mut policies = PolicyWatch::default();
    for (tid, thread) in watched.first.keys().zip(threads) {
        let Scheduling { policy, priority } = thread.scheduling;
        policies.begin(*tid, policy, priority);
    }
    policies
}

/// Returns the lost policies, with the time of day.
pub(super) fn changes(policies: &mut PolicyWatch, start: &Start) -> Vec<PolicyChange> {
    let mut changes = policies.changes();
    for change in &mut changes {
        change.at = Some(start.wall_at(change.at_ns));
    }
    changes
}

/// Returns the refused calls, with the names of their threads.
pub(super) fn refused(policies: &PolicyWatch, title: impl Fn(u32) -> String) -> Vec<RefusedCall> {
    let call = |id| system_call_name(id).map(str::to_owned);
    policies.refused().named(call, |tid| Some(title(tid)))
}
