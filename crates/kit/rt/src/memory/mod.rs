//! Memory that causes no page faults: locked pages, locked buffers and a prefaulted stack. Also
//! mappings of each kind, to compare the cost of their first touch.

mod buffer;
mod heap;
mod idle;
mod lock;
mod mapping;
mod shared;
mod stack;

pub use buffer::LockedBuffer;
pub use heap::{keep_heap, share_heap};
pub use idle::release_heap;
pub use lock::{LockMode, MemoryLock, lock_process_memory};
pub use lock::{NewMappingMode, NewMappings};
pub use mapping::{Backing, MemoryFile};
pub use mapping::{Mapping, MappingRequest};
pub use shared::SharedNumbers;
pub use stack::prefault_stack;

use std::io;

use rustix::process::Resource;

use crate::{Error, limits};

/// Explains a failed `mlock(2)` or `mlockall(2)`: without CAP_IPC_LOCK, all three error codes are
/// due to RLIMIT_MEMLOCK.
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
