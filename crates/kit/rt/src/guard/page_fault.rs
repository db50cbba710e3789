//! Detects page faults in a region, with the faulting address.
//!
//! A perf software event counts them and sends SIGTRAP to the thread synchronously (`sigtrap` of
//! perf_event_open(2), Linux 5.13). It costs nothing as long as there is no fault.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

use super::{Violation, Violations, within};
use crate::Error;

/// `struct perf_event_attr` up to `sig_data` (`include/uapi/linux/perf_event.h`,
/// PERF_ATTR_SIZE_VER7).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved_2: u16,
    aux_sample_size: u32,
    reserved_3: u32,
    sig_data: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;
const _: () = assert!(SIZE == 128);

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
const PERF_SAMPLE_ADDR: u64 = 1 << 3;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const SIGTRAP: u64 = 1 << 37;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// `si_code` of a SIGTRAP from perf.
const TRAP_PERF: libc::c_int = 6;

thread_local! {
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
    static SEEN: Cell<Violations> = const { Cell::new(Violations {
        count: 0,
        cut_short: 0,
        kept: [None; super::KEPT_VIOLATIONS],
    }) };
}

/// Counts the page faults of the calling thread in its regions, with their addresses. Needs no
/// privilege if perf_event_paranoid is 2 or less. It does not see faults inside system calls, and
/// each fault outside a region costs a signal.
#[derive(Debug)]
pub struct PageFaultGuard {
    _event: OwnedFd,
    _stays: PhantomData<*mut ()>,
}

impl PageFaultGuard {
    /// Creates a guard for the calling thread. Installs a handler for SIGTRAP in the whole process.
    ///
    /// # Errors
    /// Returns [`Error::NotSupported`] before Linux 5.13, without CONFIG_PERF_EVENTS, or if
    /// perf_event_paranoid or a sandbox forbids it, and [`Error::SignalTaken`] if another part of
    /// the program (such as a built-in debugger) handles SIGTRAP.
    pub fn new() -> Result<Self, Error> {
        install()?;
        SEEN.set(Violations::default());
        let attributes = Attributes {
            kind: PERF_TYPE_SOFTWARE,
            size: SIZE,
            config: PERF_COUNT_SW_PAGE_FAULTS,
            sample_period: 1,
            sample_type: PERF_SAMPLE_ADDR,
            flags: EXCLUDE_KERNEL | EXCLUDE_HV | REMOVE_ON_EXEC | SIGTRAP,
            ..Attributes::default()
        };
        // SAFETY: the kernel reads as many bytes as the structure states. The arguments 0, -1 and
        // -1 mean this thread, any CPU and no group.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open as libc::c_long,
                &raw const attributes,
                0,
                -1,
                -1,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        let Some(fd) = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0) else {
            let source = io::Error::last_os_error();
            return Err(match source.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => Error::NotSupported {
                    what: "a page-fault guard",
                    why: "perf_event_open(2) was refused: kernel.perf_event_paranoid is above 2, \
                          or a sandbox forbids it",
                },
                Some(libc::EINVAL | libc::E2BIG | libc::ENOSYS | libc::ENOENT) => {
                    Error::NotSupported {
                        what: "a page-fault guard",
                        why: "it needs Linux 5.13 with CONFIG_PERF_EVENTS",
                    }
                }
                _ => Error::os("perf_event_open", "page faults", source),
            });
        };
        Ok(Self {
            // SAFETY: the descriptor is new and has no other owner.
            _event: unsafe { OwnedFd::from_raw_fd(fd) },
            _stays: PhantomData,
        })
    }

    /// Runs a region.
    #[inline]
    pub fn region<T>(&mut self, work: impl FnOnce() -> T) -> T {
        within(self, Self::enter, Self::leave, work)
    }

    /// Begins a region. Use this function if the region cannot be a closure.
    #[inline]
    pub fn enter(&mut self) {
        IN_REGION.set(true);
        compiler_fence(Ordering::SeqCst);
    }

    /// Ends a region.
    #[inline]
    pub fn leave(&mut self) {
        compiler_fence(Ordering::SeqCst);
        IN_REGION.set(false);
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> Violations {
        SEEN.get()
    }
}

/// Runs in the thread that faulted, so only async-signal-safe calls are allowed (signal-safety(7)).
extern "C" fn handler(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes this pointer.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return;
    };
    if info.si_code != TRAP_PERF {
        // The signal is due to a breakpoint, so restore the default action. SAFETY: both calls take
        // only integers.
        unsafe {
            libc::signal(libc::SIGTRAP, libc::SIG_DFL);
            libc::raise(libc::SIGTRAP);
        }
        return;
    }
    if !IN_REGION.get() {
        return;
    }
    // SAFETY: in a SIGTRAP from perf, this field holds the event's address.
    let address = unsafe { info.si_addr() } as u64;
    let mut seen = SEEN.get();
    seen.add(Violation { number: 0, address });
    SEEN.set(seen);
}

/// Installs the handler for the whole process. Further calls have no effect.
fn install() -> Result<(), Error> {
    let failed = || Error::os("sigaction", "SIGTRAP", io::Error::last_os_error());
    let ours = handler as *const () as libc::sighandler_t;
    // SAFETY: all zero bytes are a valid sigaction: no flags, an empty mask.
    let (mut new, mut old) = unsafe {
        (
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
        )
    };
    // SAFETY: with a null new action, the call only queries, and writes to `old`.
    if unsafe { libc::sigaction(libc::SIGTRAP, ptr::null(), &raw mut old) } != 0 {
        return Err(failed());
    }
    if old.sa_sigaction == ours {
        return Ok(());
    }
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&old.sa_sigaction) {
        return Err(Error::SignalTaken {
            signal: libc::SIGTRAP,
        });
    }
    new.sa_sigaction = ours;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `new` is complete; its handler is async-signal-safe and exists as long as the
    // program.
    match unsafe { libc::sigaction(libc::SIGTRAP, &raw const new, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(failed()),
    }
}
