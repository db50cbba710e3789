//! The system calls that `lint` examines in detail, by their numbers on this machine.

use punctual_model::ActKind;

/// Flags of a system call, which describe its type and which of its arguments distinguish call
/// sites. `calls` in `bpf/lint.bpf.c` uses the same values.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const MEMORY: u32 = 4;
const FUTEX: u32 = 8;
const FILE: u32 = 16;
/// The call operates on an open file, whose descriptor is its first argument.
const OPEN: u32 = FILE | 32 | FIRST;
/// The call waits for several descriptors, in an array (`poll`) or in sets (`select`). With
/// `SECOND`, the timeout is a pointer.
const POLL: u32 = 64;
const SELECT: u32 = 128;
/// The first or the second argument is a path.
const PATH: u32 = FILE | 256;
const PATH_AT: u32 = FILE | 512;
/// The call returns a new descriptor of the file.
const OPENS: u32 = 1_024;
/// The second or the fifth argument is the address of a socket.
const CONNECT: u32 = OPEN | 2_048;
const SEND_TO: u32 = OPEN | 4_096;
/// The call waits for signals, whose set the first argument points to.
const SIGWAIT: u32 = 8_192;

/// Returns the act that a call counts as, in addition to waiting.
pub(super) fn act(number: i64) -> Option<ActKind> {
    let (_, flags) = calls().into_iter().find(|(known, _)| *known == number)?;
    match () {
        () if flags & MEMORY != 0 => Some(ActKind::Memory),
        () if flags & FILE != 0 => Some(ActKind::File),
        () => None,
    }
}

/// Returns the calls with their flags. Arguments without a flag do not distinguish call sites. If,
/// for example, addresses did, each call would be a separate site.
pub(super) fn calls() -> Vec<(i64, u32)> {
    let everywhere = [
        (libc::SYS_clock_nanosleep, FIRST | SECOND),
        (libc::SYS_futex, SECOND | FUTEX),
        // The first argument is the descriptor to wait for.
        (libc::SYS_read, OPEN),
        (libc::SYS_write, OPEN),
        (libc::SYS_pread64, OPEN),
        (libc::SYS_pwrite64, OPEN),
        (libc::SYS_readv, OPEN),
        (libc::SYS_writev, OPEN),
        (libc::SYS_recvfrom, OPEN),
        (libc::SYS_recvmsg, OPEN),
        (libc::SYS_recvmmsg, OPEN),
        (libc::SYS_connect, CONNECT),
        (libc::SYS_sendto, SEND_TO),
        (libc::SYS_sendmsg, OPEN),
        (libc::SYS_sendmmsg, OPEN),
        (libc::SYS_accept, FIRST),
        (libc::SYS_accept4, FIRST),
        (libc::SYS_ioctl, OPEN),
        (libc::SYS_fsync, OPEN),
        (libc::SYS_fdatasync, OPEN),
        (libc::SYS_flock, OPEN),
        (libc::SYS_epoll_pwait, FIRST),
        (libc::SYS_epoll_pwait2, FIRST),
        (libc::SYS_ppoll, POLL | SECOND),
        (libc::SYS_pselect6, SELECT),
        (libc::SYS_rt_sigtimedwait, SIGWAIT),
        (libc::SYS_preadv, OPEN),
        (libc::SYS_pwritev, OPEN),
        (libc::SYS_close, OPEN),
        (libc::SYS_lseek, OPEN),
        (libc::SYS_ftruncate, OPEN),
        (libc::SYS_fallocate, OPEN),
        (libc::SYS_getdents64, OPEN),
        (libc::SYS_openat, PATH_AT | OPENS),
        (libc::SYS_openat2, PATH_AT | OPENS),
        (libc::SYS_statx, PATH_AT),
        (libc::SYS_unlinkat, PATH_AT),
        (libc::SYS_renameat2, PATH_AT),
        (libc::SYS_mkdirat, PATH_AT),
        (libc::SYS_faccessat, PATH_AT),
        (libc::SYS_brk, MEMORY),
        (libc::SYS_munmap, MEMORY),
        (libc::SYS_mremap, MEMORY),
        (libc::SYS_madvise, MEMORY),
        (libc::SYS_mprotect, MEMORY),
    ];
    let all = everywhere.into_iter().chain(HERE.iter().copied());
    // On 32-bit machines, the C library defines these numbers with 32 bits.
    #[allow(clippy::useless_conversion)]
    all.map(|(number, flags)| (i64::from(number), flags))
        .collect()
}

/// Calls that exist only on some architectures.
#[cfg(target_arch = "x86_64")]
const HERE: &[(libc::c_long, u32)] = &[
    (libc::SYS_epoll_wait, FIRST),
    (libc::SYS_poll, POLL),
    (libc::SYS_select, SELECT),
    (libc::SYS_mmap, MEMORY),
    (libc::SYS_open, PATH | OPENS),
    (libc::SYS_creat, PATH | OPENS),
    (libc::SYS_stat, PATH),
    (libc::SYS_lstat, PATH),
    (libc::SYS_newfstatat, PATH_AT),
    (libc::SYS_access, PATH),
    (libc::SYS_unlink, PATH),
    (libc::SYS_rename, PATH),
    (libc::SYS_mkdir, PATH),
];

/// System calls of 32-bit Arm. The last two take 64-bit times, and their numbers are the same on
/// all 32-bit machines (`include/uapi/asm-generic/unistd.h`).
#[cfg(target_arch = "arm")]
const HERE: &[(libc::c_long, u32)] = &[
    (libc::SYS_epoll_wait, FIRST),
    (libc::SYS_poll, POLL),
    (libc::SYS_mmap2, MEMORY),
    (libc::SYS_open, PATH | OPENS),
    (libc::SYS_creat, PATH | OPENS),
    (libc::SYS_unlink, PATH),
    (libc::SYS_rename, PATH),
    (407, FIRST | SECOND), // clock_nanosleep_time64
    (422, SECOND | FUTEX), // futex_time64
];

#[cfg(not(any(target_arch = "x86_64", target_arch = "arm")))]
const HERE: &[(libc::c_long, u32)] = &[(libc::SYS_mmap, MEMORY)];
