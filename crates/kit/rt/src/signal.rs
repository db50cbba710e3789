//! Signals that one thread sends to another. The receiver gets them in one of three ways.
//!
//! The signal is SIGRTMAX-4, sent to a thread of this process with `tgkill(2)`. [`SignalPort`] is
//! the receiving end.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::interrupt::{change_mask, set_of};
use crate::{Clock, Error, Instant, Tid, Waited};

/// Size of the kernel's `sigset_t`, which differs from that of the C library (`_NSIG / 8`).
const KERNEL_SIGNAL_SET: usize = if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
    16
} else {
    8
};

/// Size of one read from a signalfd (`struct signalfd_siginfo`).
const SIGNALFD_INFO: usize = size_of::<libc::signalfd_siginfo>();

/// How a thread receives its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalWay {
    /// The thread waits in `rt_sigtimedwait(2)`, like `sigwait(3)`.
    Wait,
    /// A handler runs while the thread is in `sigsuspend(2)`.
    Handler,
    /// The thread reads from a `signalfd(2)`.
    Descriptor,
}

thread_local! {
    /// Time when the handler last ran in this thread, or zero if it has not run since the last
    /// check. Has no destructor, so that a handler may use it at any time.
    static HANDLED: AtomicU64 = const { AtomicU64::new(0) };
}

fn signal() -> libc::c_int {
    libc::SIGRTMAX() - 4
}

/// A signal handler is allowed to read the clock (`signal-safety(7)`) and to store an atomic
/// number.
extern "C" fn handler(_signal: libc::c_int) {
    let now = Clock::Monotonic.now().as_nanos();
    HANDLED.with(|handled| handled.store(now, Ordering::Relaxed));
}

/// The receiving end of the signals to a thread. The signal is blocked in that thread until this
/// value is dropped, and the value cannot leave the thread.
#[derive(Debug)]
pub struct SignalPort {
    way: SignalWay,
    signals: libc::sigset_t,
    /// The signal mask of the thread without this signal, for use during the wait.
    open_mask: libc::sigset_t,
    descriptor: Option<OwnedFd>,
    was_blocked: bool,
    /// The signal is delivered to the thread that created this value, so this type is not `Send`.
    _stays: PhantomData<*mut ()>,
}

impl SignalPort {
    /// Creates a port for the calling thread. Always installs a handler for the whole process, so
    /// that a signal to a thread that no longer has a port does no harm.
    ///
    /// # Errors
    /// Returns [`Error::SignalTaken`] if another part of the program handles the signal, and
    /// [`Error::Os`] if no file descriptor is available.
    pub fn new(way: SignalWay) -> Result<Self, Error> {
        install()?;
        let was_blocked = change_mask(libc::SIG_BLOCK, signal())?;
        // From here on, dropping `this` restores the mask.
        let mut this = Self {
            way,
            signals: set_of(signal()),
            open_mask: set_of(signal()),
            descriptor: None,
            was_blocked,
            _stays: PhantomData,
        };
        // SAFETY: with a null new mask, the call only queries the mask and writes it to
        // `open_mask`. Then one signal is removed from it.
        let code = unsafe {
            let code = libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut this.open_mask);
            libc::sigdelset(&raw mut this.open_mask, signal());
            code
        };
        if code != 0 {
            let source = io::Error::from_raw_os_error(code);
            return Err(Error::os("pthread_sigmask", "the mask", source));
        }
        if way == SignalWay::Descriptor {
            // SAFETY: the set is initialised.
            let fd = unsafe { libc::signalfd(-1, &raw const this.signals, libc::SFD_CLOEXEC) };
            if fd < 0 {
                let source = io::Error::last_os_error();
                return Err(Error::os("signalfd", "a new one", source));
            }
            // SAFETY: the descriptor is new and has no other owner.
            this.descriptor = Some(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        Ok(this)
    }

    /// Waits for one signal. Returns the time on CLOCK_MONOTONIC when it was handled, which is
    /// right after the system call returned, or at the start of the handler. Returns `None` if
    /// another signal ended the wait.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn wait(&self) -> Result<Option<Instant>, Error> {
        let waited = match (self.way, &self.descriptor) {
            (SignalWay::Descriptor, Some(descriptor)) => read(descriptor)?,
            (SignalWay::Handler, _) => return Ok(self.suspend()),
            _ => self.take(ptr::null())?,
        };
        Ok((waited == Waited::Woken).then(|| Clock::Monotonic.now()))
    }

    /// Returns the time that the handler stored. If several signals were handled during one wait,
    /// this is the time of the last one.
    fn suspend(&self) -> Option<Instant> {
        // SAFETY: the mask is initialised. The call always returns with EINTR.
        unsafe { libc::sigsuspend(&raw const self.open_mask) };
        let handled = HANDLED.with(|handled| handled.swap(0, Ordering::Relaxed));
        (handled != 0).then(|| Instant::from_nanos(handled))
    }

    /// Does not use the C library's function, because that of musl continues to wait after EINTR.
    #[inline]
    fn take(&self, timeout: *const libc::timespec) -> Result<Waited, Error> {
        // SAFETY: `signals` is a set at least as large as the kernel's, no information is
        // requested, and `timeout` is null or valid.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait as libc::c_long,
                &raw const self.signals,
                ptr::null_mut::<libc::siginfo_t>(),
                timeout,
                KERNEL_SIGNAL_SET,
            )
        };
        if result >= 0 {
            return Ok(Waited::Woken);
        }
        let source = io::Error::last_os_error();
        match source.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => Ok(Waited::Interrupted),
            _ => Err(Error::os("rt_sigtimedwait", "a signal", source)),
        }
    }
}

impl Drop for SignalPort {
    fn drop(&mut self) {
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if !self.was_blocked {
            // Receives a pending signal, so that the handler does not run for it.
            while matches!(self.take(&raw const at_once), Ok(Waited::Woken)) {}
            // Changing the thread's own mask does not fail for a valid signal.
            let _ = change_mask(libc::SIG_UNBLOCK, signal());
        }
    }
}

#[inline]
fn read(descriptor: &OwnedFd) -> Result<Waited, Error> {
    let mut info = [0_u8; SIGNALFD_INFO];
    match rustix::io::read(descriptor, &mut info) {
        Ok(_) => Ok(Waited::Woken),
        Err(Errno::INTR) => Ok(Waited::Interrupted),
        Err(errno) => Err(Error::os("read", "the signalfd", io::Error::from(errno))),
    }
}

/// Sends the signal to a thread of this process that has a [`SignalPort`].
///
/// # Errors
/// Returns [`Error::NoSuchThread`] if the thread has ended.
#[inline]
pub fn send_signal(thread: Tid) -> Result<(), Error> {
    // SAFETY: the call takes no arguments.
    send_signal_to(unsafe { libc::getpid() }, thread)
}

/// Sends the signal to a thread with a [`SignalPort`] in the process with this ID. The signal kills
/// a process that never had a port.
///
/// # Errors
/// Returns [`Error::NoSuchThread`] if the thread has ended, and [`Error::Os`] (EPERM) if the
/// process belongs to another user.
#[inline]
pub fn send_signal_to(process: i32, thread: Tid) -> Result<(), Error> {
    // SAFETY: the call takes only integers. The process ID keeps the signal inside that process,
    // which has a handler for it if any thread has a port.
    let result = unsafe {
        libc::syscall(
            libc::SYS_tgkill as libc::c_long,
            process,
            thread.as_raw(),
            signal(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(refused(thread))
    }
}

#[cold]
fn refused(thread: Tid) -> Error {
    let source = io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::ESRCH) => Error::NoSuchThread {
            thread: thread.into(),
        },
        _ => Error::os("tgkill", format!("thread {thread}"), source),
    }
}

/// Installs the handler for the whole process. Further calls have no effect.
fn install() -> Result<(), Error> {
    let failed = |source| Error::os("sigaction", format!("signal {}", signal()), source);
    let ours = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: all zero bytes are a valid sigaction: no flags, an empty mask.
    let (mut new, mut old) = unsafe {
        (
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
        )
    };
    // SAFETY: with a null new action, the call only queries, and writes to `old`.
    if unsafe { libc::sigaction(signal(), ptr::null(), &raw mut old) } != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if old.sa_sigaction == ours {
        return Ok(());
    }
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&old.sa_sigaction) {
        return Err(Error::SignalTaken { signal: signal() });
    }
    new.sa_sigaction = ours;
    // Threads started by code in other languages may have small stacks.
    new.sa_flags = libc::SA_ONSTACK;
    // SAFETY: `new` is complete; its handler is async-signal-safe and exists as long as the
    // program.
    if unsafe { libc::sigaction(signal(), &raw const new, ptr::null_mut()) } != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::{install_interrupt_handler, interrupt};
    use crate::{ThreadBuilder, current_tid};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const WAYS: [SignalWay; 3] = [SignalWay::Wait, SignalWay::Handler, SignalWay::Descriptor];

    #[test]
    fn sent_signal_arrives_in_each_way() {
        for way in WAYS {
            let (told, heard) = channel();
            let thread = ThreadBuilder::new("port")
                .spawn(move || {
                    let port = SignalPort::new(way).unwrap();
                    for _ in 0..50 {
                        told.send(None).unwrap();
                        let at = loop {
                            if let Some(at) = port.wait().unwrap() {
                                break at;
                            }
                        };
                        told.send(Some(at)).unwrap();
                    }
                })
                .unwrap();
            for _ in 0..50 {
                assert_eq!(heard.recv().unwrap(), None);
                let sent = Clock::Monotonic.now();
                send_signal(thread.tid()).unwrap();
                let at = heard.recv().unwrap().unwrap();
                assert!(sent <= at && at <= Clock::Monotonic.now(), "{way:?}");
            }
            thread.join().unwrap();
        }
    }

    #[test]
    fn other_signal_only_ends_the_wait() {
        install_interrupt_handler().unwrap();
        for way in WAYS {
            let thread = ThreadBuilder::new("port")
                .spawn(move || SignalPort::new(way).unwrap().wait().unwrap())
                .unwrap();
            while !thread.is_finished() {
                match interrupt(thread.tid()) {
                    Ok(()) | Err(Error::NoSuchThread { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(thread.join().unwrap(), None, "{way:?}");
        }
    }

    #[test]
    fn pending_signal_at_end_is_harmless() {
        std::thread::spawn(|| {
            for way in WAYS {
                let port = SignalPort::new(way).unwrap();
                for _ in 0..3 {
                    send_signal(current_tid()).unwrap();
                }
                drop(port);
                // A signal to a thread that no longer has a port also does no harm.
                send_signal(current_tid()).unwrap();
                // Discard the time of this signal, so that the next wait does not see it.
                HANDLED.with(|handled| handled.store(0, Ordering::Relaxed));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_ended_thread_is_named() {
        drop(SignalPort::new(SignalWay::Wait).unwrap());
        // The kernel releases a thread shortly after the join, and a thread of another test may
        // reuse its ID.
        let is_named = |_| {
            let ended = std::thread::spawn(current_tid).join().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
            matches!(send_signal(ended), Err(Error::NoSuchThread { .. }))
        };
        assert!((0..100).any(is_named));
    }
}
