//! What this thread may do: its capabilities and resource limits.

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::Limit;

/// The soft limit of a resource (`getrlimit(2)`).
pub(crate) fn soft(resource: Resource) -> Limit {
    Limit(getrlimit(resource).current)
}

/// Whether the calling thread has CAP_SYS_NICE in effect.
pub(crate) fn may_set_nice() -> bool {
    has(CapabilitySet::SYS_NICE)
}

/// Whether the calling thread has CAP_IPC_LOCK in effect: it may then lock
/// memory beyond RLIMIT_MEMLOCK.
pub fn may_lock_memory() -> bool {
    has(CapabilitySet::IPC_LOCK)
}

fn has(capability: CapabilitySet) -> bool {
    // Reading one's own capabilities fails only where a sandbox forbids the
    // call; then it forbids more than that, and "no" is the honest answer.
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}
