//! Memory that does not fault: locked pages, locked buffers, a touched stack;
//! and mappings of each kind, to compare what their first touch costs.

mod buffer;
mod heap;
#[cfg(feature = "probes")]
mod idle;
mod lock;
mod mapping;
#[cfg(feature = "probes")]
mod shared;
mod stack;

pub use buffer::LockedBuffer;
pub use heap::{keep_heap, share_heap};
#[cfg(feature = "probes")]
pub use idle::{release_heap, release_memory};
pub use lock::{LockMode, MemoryLock, lock_process_memory};
#[cfg(feature = "probes")]
pub use lock::{NewMappingMode, NewMappings};
#[cfg(feature = "probes")]
pub use mapping::{Backing, MemoryFile};
pub use mapping::{Mapping, MappingRequest};
#[cfg(feature = "probes")]
pub use shared::SharedNumbers;
pub use stack::prefault_stack;

use std::io;

use rustix::process::Resource;

use crate::{Error, limits};

/// What a failed `mlock(2)` or `mlockall(2)` means: without CAP_IPC_LOCK all
/// three of these come from RLIMIT_MEMLOCK.
fn explain(call: &'static str, what: String, errno: rustix::io::Errno) -> Error {
    use rustix::io::Errno;
    let source = io::Error::from(errno);
    let by_limit = matches!(errno, Errno::PERM | Errno::NOMEM | Errno::AGAIN);
    if by_limit && !limits::may_lock_memory() {
        return Error::MemoryLockRefused {
            what,
            limit: limits::soft(Resource::Memlock),
            source,
        };
    }
    Error::os(call, what, source)
}
