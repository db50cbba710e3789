//! Detects system calls in a region, including those not made through the C library.
//!
//! At each system call, the kernel checks a byte of the thread (PR_SET_SYSCALL_USER_DISPATCH, Linux
//! 5.11) and, in a region, sends SIGSYS instead of executing the call. The handler counts the call,
//! makes it on behalf of the region, and stores the result where the kernel would. Source:
//! Documentation/admin-guide/syscall-user-dispatch.rst.
#![allow(unsafe_code)]

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

use super::{Violation, Violations, within};
use crate::Error;

/// The libc crate does not define this constant (`include/uapi/linux/prctl.h`).
const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
const DISPATCH_OFF: libc::c_ulong = 0;
const DISPATCH_ON: libc::c_ulong = 1;
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;
/// `si_code` of a SIGSYS from user dispatch (`include/uapi/asm-generic/siginfo.h`).
const SYS_USER_DISPATCH: libc::c_int = 2;
/// The kernel's `SA_RESTORER` on x86.
const SA_RESTORER: libc::c_ulong = 0x0400_0000;
/// Length of the `syscall` instruction in bytes.
const INSTRUCTION: i64 = 2;

// The return from the handler is also a system call. It is made here, because only this range of
// code may make system calls in a region.
global_asm!(
    ".text",
    ".balign 16",
    ".local punctual_rt_restorer",
    ".type punctual_rt_restorer, @function",
    "punctual_rt_restorer:",
    "mov eax, 15", // rt_sigreturn
    "syscall",
    // The kernel checks the return address of the call, so that address must also be in this range.
    "ud2",
    ".local punctual_rt_restorer_end",
    "punctual_rt_restorer_end:",
    ".size punctual_rt_restorer, . - punctual_rt_restorer",
);

/// The kernel's `struct sigaction`, which differs from that of the C library.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

/// State shared by the handler and the guard. Both run in the same thread.
struct State {
    selector: AtomicU8,
    violations: Cell<Violations>,
}

thread_local! {
    /// State of this thread's guard.
    static STATE: Cell<*const State> = const { Cell::new(ptr::null()) };
}

/// Counts the system calls that the calling thread makes in its regions. The calls are still
/// executed. Clock reads through the vDSO do not count. A violation adds about 2 us to the call. No
/// privilege is needed.
///
/// Put waits outside the region. Threads started by the region are not watched.
pub struct SystemCallGuard {
    /// On the heap, and leaked if the guard is forgotten, because the kernel continues to read the
    /// byte.
    state: *mut State,
    _stays: PhantomData<*mut ()>,
}

impl SystemCallGuard {
    /// Creates a guard for the calling thread. Installs a handler for SIGSYS in the whole process.
    ///
    /// # Errors
    /// Returns [`Error::NotSupported`] before Linux 5.11, if a sandbox forbids it, or if this
    /// thread already has a guard, and [`Error::SignalTaken`] if another part of the program
    /// handles SIGSYS.
    pub fn new() -> Result<Self, Error> {
        if !STATE.get().is_null() {
            return Err(Error::NotSupported {
                what: "a second guard of system calls",
                why: "this thread has one already",
            });
        }
        install()?;
        let state = Box::into_raw(Box::new(State {
            selector: AtomicU8::new(ALLOW),
            violations: Cell::new(Violations::default()),
        }));
        let guard = Self {
            state,
            _stays: PhantomData,
        };
        STATE.set(state);
        let (start, end) = restorer();
        // SAFETY: the state was created above and is not freed before dispatch is switched off.
        let selector = unsafe { (*state).selector.as_ptr() };
        // SAFETY: the call takes integers, and a byte that is valid until dispatch is switched off.
        let result = unsafe {
            libc::prctl(
                PR_SET_SYSCALL_USER_DISPATCH,
                DISPATCH_ON,
                start as libc::c_ulong,
                (end - start) as libc::c_ulong,
                selector,
            )
        };
        match result {
            0 => Ok(guard),
            _ => Err(Error::NotSupported {
                what: "a guard of system calls",
                why: "prctl(PR_SET_SYSCALL_USER_DISPATCH) was refused: the kernel is older than \
                      Linux 5.11, or a sandbox forbids the call",
            }),
        }
    }

    /// Runs a region.
    #[inline]
    pub fn region<T>(&mut self, work: impl FnOnce() -> T) -> T {
        within(self, Self::enter, Self::leave, work)
    }

    /// Begins a region. Use this function if the region cannot be a closure.
    #[inline]
    pub fn enter(&mut self) {
        // SAFETY: the state exists as long as the guard.
        let selector = unsafe { &(*self.state).selector };
        selector.store(BLOCK, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Ends a region.
    #[inline]
    pub fn leave(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the state exists as long as the guard.
        let selector = unsafe { &(*self.state).selector };
        selector.store(ALLOW, Ordering::Relaxed);
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> Violations {
        // SAFETY: the state exists as long as the guard.
        unsafe { (*self.state).violations.get() }
    }
}

impl Drop for SystemCallGuard {
    fn drop(&mut self) {
        // SAFETY: the call takes only integers. It does not fail in a thread with dispatch switched
        // on.
        unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0, 0, 0) };
        STATE.set(ptr::null());
        // SAFETY: created by `new`; the kernel no longer reads it.
        drop(unsafe { Box::from_raw(self.state) });
    }
}

impl std::fmt::Debug for SystemCallGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemCallGuard").finish_non_exhaustive()
    }
}

/// Returns the start and end of the code that returns from the handler.
fn restorer() -> (usize, usize) {
    let (start, end): (usize, usize);
    // SAFETY: loads two addresses of this program into registers.
    unsafe {
        asm!(
            "lea {0}, [rip + punctual_rt_restorer]",
            "lea {1}, [rip + punctual_rt_restorer_end]",
            out(reg) start, out(reg) end,
            options(nomem, nostack, preserves_flags)
        );
    }
    (start, end)
}

/// Installs the handler for the whole process. Further calls have no effect.
fn install() -> Result<(), Error> {
    let failed = || Error::os("rt_sigaction", "SIGSYS", io::Error::last_os_error());
    let ours = handler as *const () as usize;
    let mut old = KernelAction {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    let new = KernelAction {
        handler: ours,
        flags: libc::SA_SIGINFO as libc::c_ulong | libc::SA_ONSTACK as libc::c_ulong | SA_RESTORER,
        restorer: restorer().0,
        mask: 0,
    };
    let action = |new: *const KernelAction, old: *mut KernelAction| {
        // SAFETY: the kernel's own structures, or null; its signal set has 8 bytes.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGSYS, new, old, 8_usize) }
    };
    if action(ptr::null(), &raw mut old) != 0 {
        return Err(failed());
    }
    if old.handler == ours {
        return Ok(());
    }
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&old.handler) {
        return Err(Error::SignalTaken {
            signal: libc::SIGSYS,
        });
    }
    match action(&raw const new, ptr::null_mut()) {
        0 => Ok(()),
        _ => Err(failed()),
    }
}

/// Returns whether the region must make the call itself, with dispatch switched off until the
/// region ends. The reason is that such a call changes the state that the return from the handler
/// restores, or does not return to the handler.
fn is_left_to_the_region(number: i64) -> bool {
    [
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigsuspend,
        libc::SYS_sigaltstack,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_arch_prctl,
        libc::SYS_prctl,
    ]
    .contains(&number)
}

/// Runs in the thread that made the call, so only async-signal-safe calls are allowed
/// (signal-safety(7)). It changes the selector before it makes any system call.
extern "C" fn handler(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let state = STATE.get();
    // SAFETY: the kernel passes both pointers; the state is null or belongs to this thread.
    let (Some(info), Some(context), Some(state)) = (unsafe {
        (
            info.as_ref(),
            context.cast::<libc::ucontext_t>().as_mut(),
            state.as_ref(),
        )
    }) else {
        return;
    };
    if info.si_code != SYS_USER_DISPATCH {
        // The signal is from a sandbox (seccomp), so restore the default action, which ends the
        // process. SAFETY: both calls take only integers.
        unsafe {
            libc::signal(libc::SIGSYS, libc::SIG_DFL);
            libc::raise(libc::SIGSYS);
        }
        return;
    }
    state.selector.store(ALLOW, Ordering::Relaxed);
    let registers = &mut context.uc_mcontext.gregs;
    let number = registers[libc::REG_RAX as usize];
    let mut violations = state.violations.get();
    violations.add(Violation {
        number: number.cast_unsigned(),
        address: registers[libc::REG_RIP as usize].cast_unsigned(),
    });
    if is_left_to_the_region(number) {
        // Execute the instruction again; the call number is still in its register.
        registers[libc::REG_RIP as usize] -= INSTRUCTION;
        violations.cut_short = violations.cut_short.saturating_add(1);
        state.violations.set(violations);
        return;
    }
    state.violations.set(violations);
    let argument = |register: libc::c_int| registers[register as usize];
    // SAFETY: this is the call that the region made, with the same arguments.
    let result = unsafe {
        raw(
            number,
            [
                argument(libc::REG_RDI),
                argument(libc::REG_RSI),
                argument(libc::REG_RDX),
                argument(libc::REG_R10),
                argument(libc::REG_R8),
                argument(libc::REG_R9),
            ],
        )
    };
    registers[libc::REG_RAX as usize] = result;
    state.selector.store(BLOCK, Ordering::Relaxed);
}

/// Makes a system call and returns the kernel's result, not that of the C library.
///
/// # Safety
/// The requirements of the system call apply.
unsafe fn raw(number: i64, arguments: [i64; 6]) -> i64 {
    let result;
    // SAFETY: guaranteed by the caller. Besides the result, the kernel only changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}
