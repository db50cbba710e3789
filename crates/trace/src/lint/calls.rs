//! System calls that `lint` looks at more closely, by their numbers on this machine.

/// Which arguments belong to a call site, and what a call is: `calls` of
/// `bpf/lint.bpf.c`.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const MEMORY: u32 = 4;
const FUTEX: u32 = 8;

/// Whether a call changes memory mappings.
pub(super) fn is_memory(number: i64) -> bool {
    let mut calls = calls().into_iter();
    calls.any(|(known, flags)| known == number && flags & MEMORY != 0)
}

/// The calls with their flags. Of the others no argument is kept: addresses would make
/// a site of each call.
pub(super) fn calls() -> Vec<(i64, u32)> {
    let everywhere = [
        (libc::SYS_clock_nanosleep, FIRST | SECOND),
        (libc::SYS_futex, SECOND | FUTEX),
        // The descriptor that is waited for.
        (libc::SYS_read, FIRST),
        (libc::SYS_write, FIRST),
        (libc::SYS_pread64, FIRST),
        (libc::SYS_pwrite64, FIRST),
        (libc::SYS_readv, FIRST),
        (libc::SYS_writev, FIRST),
        (libc::SYS_recvfrom, FIRST),
        (libc::SYS_recvmsg, FIRST),
        (libc::SYS_sendto, FIRST),
        (libc::SYS_sendmsg, FIRST),
        (libc::SYS_accept, FIRST),
        (libc::SYS_accept4, FIRST),
        (libc::SYS_ioctl, FIRST),
        (libc::SYS_fsync, FIRST),
        (libc::SYS_fdatasync, FIRST),
        (libc::SYS_flock, FIRST),
        (libc::SYS_epoll_pwait, FIRST),
        (libc::SYS_brk, MEMORY),
        (libc::SYS_munmap, MEMORY),
        (libc::SYS_mremap, MEMORY),
        (libc::SYS_madvise, MEMORY),
        (libc::SYS_mprotect, MEMORY),
    ];
    let all = everywhere.into_iter().chain(HERE.iter().copied());
    // Numbers have 32 bits in the C library of 32-bit machines.
    #[allow(clippy::useless_conversion)]
    all.map(|(number, flags)| (i64::from(number), flags))
        .collect()
}

/// Those that differ between architectures.
#[cfg(target_arch = "x86_64")]
const HERE: &[(libc::c_long, u32)] = &[(libc::SYS_epoll_wait, FIRST), (libc::SYS_mmap, MEMORY)];

/// The last ones take times of 64 bits; their numbers are the same on all 32-bit machines
/// (`include/uapi/asm-generic/unistd.h`).
#[cfg(target_arch = "arm")]
const HERE: &[(libc::c_long, u32)] = &[
    (libc::SYS_epoll_wait, FIRST),
    (libc::SYS_mmap2, MEMORY),
    (407, FIRST | SECOND), // clock_nanosleep_time64
    (422, SECOND | FUTEX), // futex_time64
];

#[cfg(not(any(target_arch = "x86_64", target_arch = "arm")))]
const HERE: &[(libc::c_long, u32)] = &[(libc::SYS_mmap, MEMORY)];
