//! The system calls `sched_setattr(2)` and `sched_getattr(2)`.
//!
//! They are called directly: musl's `sched_setscheduler()` returns ENOSYS, and only these calls
//! support SCHED_DEADLINE.
#![allow(unsafe_code)]

use crate::ThreadRef;

/// `struct sched_attr` in its first published size, which every kernel since 3.14 accepts
/// (`sched_setattr(2)`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) size: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
}

/// `SCHED_FLAG_RESET_ON_FORK` of `include/uapi/linux/sched.h`. A deadline thread without it cannot
/// start threads or processes (sched(7), SCHED_DEADLINE): fork(2) returns EAGAIN. With it, its
/// children are ordinary threads.
pub(crate) const RESET_ON_FORK: u64 = 0x01;

/// `SCHED_FLAG_DL_OVERRUN` of `include/uapi/linux/sched.h`.
pub(crate) const OVERRUN_SIGNAL: u64 = 0x04;

/// Equals `SCHED_ATTR_SIZE_VER0`.
const ATTRIBUTES_SIZE: u32 = size_of::<Attributes>() as u32;
const _: () = assert!(ATTRIBUTES_SIZE == 48);

/// Calls `sched_setattr(2)`. If this fails, errno contains the reason.
pub(crate) fn set_attributes(thread: ThreadRef, mut attributes: Attributes) -> bool {
    attributes.size = ATTRIBUTES_SIZE;
    // SAFETY: `attributes` is a sched_attr that states its size; the kernel reads that many bytes.
    // The last argument is for flags, none of which exist yet.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr as libc::c_long,
            thread.as_raw(),
            &raw const attributes,
            0_u32,
        )
    };
    result == 0
}

/// Calls `sched_getattr(2)`. If this fails, errno contains the reason.
pub(crate) fn get_attributes(thread: ThreadRef) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most the given size, which is that of `attributes`. The last
    // argument is for flags, none of which exist yet.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr as libc::c_long,
            thread.as_raw(),
            &raw mut attributes,
            ATTRIBUTES_SIZE,
            0_u32,
        )
    };
    (result == 0).then_some(attributes)
}
