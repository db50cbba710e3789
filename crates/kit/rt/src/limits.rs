//! Capabilities and resource limits of this thread.

#![allow(unsafe_code)]

use std::fmt;

use rustix::process::{Resource, getrlimit, getuid};
use rustix::thread::{CapabilitySet, capabilities, capability_is_in_ambient_set};

/// A soft resource limit (`getrlimit(2)`), in the unit of the resource; `None` is "unlimited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}

/// Returns the soft limit of a resource (`getrlimit(2)`).
pub(crate) fn soft(resource: Resource) -> Limit {
    Limit(getrlimit(resource).current)
}

/// Returns whether CAP_SYS_NICE is effective for the calling thread.
pub(crate) fn may_set_nice() -> bool {
    has(CapabilitySet::SYS_NICE)
}

/// Returns whether CAP_IPC_LOCK is effective for the calling thread. It may then lock memory beyond
/// RLIMIT_MEMLOCK.
pub fn may_lock_memory() -> bool {
    has(CapabilitySet::IPC_LOCK)
}

/// Returns whether the program file grants rights to the user who runs it: capabilities by
/// setcap(8), or a set-user-ID bit. The caller does not have such rights itself, unlike the rights
/// of root and ambient capabilities passed on by a service manager.
pub fn has_rights_of_its_file() -> bool {
    // SAFETY: getauxval(3) reads a value that the kernel passed at execve(2). It takes and returns
    // a number.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let lent = |capability| !capability_is_in_ambient_set(capability).unwrap_or(false);
    secure
        || (!getuid().is_root()
            && capabilities(None).is_ok_and(|sets| sets.effective.iter().any(lent)))
}

fn has(capability: CapabilitySet) -> bool {
    // Reading our capabilities fails only if a sandbox forbids the call. Such a sandbox forbids
    // more than this call, so `false` is the right answer.
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}
