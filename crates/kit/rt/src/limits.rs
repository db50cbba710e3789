//! What this thread may do: its capabilities and resource limits.

#![allow(unsafe_code)]

use std::fmt;

use rustix::process::{Resource, getrlimit, getuid};
use rustix::thread::{CapabilitySet, capabilities, capability_is_in_ambient_set};

/// A soft resource limit (`getrlimit(2)`), in the unit of the resource; none
/// is "unlimited".
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

/// Whether this program's file gives rights to whoever runs it: capabilities by
/// setcap(8), or a set-user-ID bit. Such rights are not the caller's own; those of
/// root, or that a service manager passes on as ambient capabilities, are.
pub fn has_rights_of_its_file() -> bool {
    // SAFETY: getauxval(3) reads what the kernel handed over at execve(2); it takes a
    // number and returns one.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let lent = |capability| !capability_is_in_ambient_set(capability).unwrap_or(false);
    secure
        || (!getuid().is_root()
            && capabilities(None).is_ok_and(|sets| sets.effective.iter().any(lent)))
}

fn has(capability: CapabilitySet) -> bool {
    // Reading one's own capabilities fails only where a sandbox forbids the
    // call; then it forbids more than that, and "no" is the honest answer.
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}
