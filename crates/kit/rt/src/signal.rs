//! One thread tells another by a signal, which that one takes in one of three
//! ways.
//!
//! The signal is SIGRTMAX-4. It is sent to a thread of this process with
//! `tgkill(2)`; [`SignalPort`] is the end that takes it.
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

/// The kernel's own `sigset_t`, not the C library's (`_NSIG / 8`).
const KERNEL_SIGNAL_SET: usize = if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
    16
} else {
    8
};

/// What is read from a signalfd at once (`struct signalfd_siginfo`).
const SIGNALFD_INFO: usize = size_of::<libc::signalfd_siginfo>();

/// How a thread takes its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalWay {
    /// It waits in `rt_sigtimedwait(2)`, as `sigwait(3)` does.
    Wait,
    /// A handler runs, while the thread is in `sigsuspend(2)`.
    Handler,
    /// It reads from a `signalfd(2)`.
    Descriptor,
}

thread_local! {
    /// When the handler last ran in this thread; zero: not since it was looked
    /// at. Without a destructor, so that a handler may use it at any time.
    static HANDLED: AtomicU64 = const { AtomicU64::new(0) };
}

fn signal() -> libc::c_int {
    libc::SIGRTMAX() - 4
}

/// Reading the clock is allowed in a handler (`signal-safety(7)`), and so is a
/// store to an atomic number.
extern "C" fn handler(_signal: libc::c_int) {
    let now = Clock::Monotonic.now().as_nanos();
    HANDLED.with(|handled| handled.store(now, Ordering::Relaxed));
}

/// The end at which a thread takes the signal. As long as it lives the signal
/// is blocked in that thread, which it does not leave.
#[derive(Debug)]
pub struct SignalPort {
    way: SignalWay,
    signals: libc::sigset_t,
    /// The thread's mask without the signal, for the time of the wait.
    open_mask: libc::sigset_t,
    descriptor: Option<OwnedFd>,
    was_blocked: bool,
    /// The signal goes to the thread that made it: not Send.
    _stays: PhantomData<*mut ()>,
}

impl SignalPort {
    /// A port for the calling thread. A handler is installed for the whole
    /// process whatever the way is, so that a signal to a thread that has no
    /// port any more does no harm.
    ///
    /// # Errors
    /// [`Error::SignalTaken`] if another part of the program handles the
    /// signal; [`Error::Os`] without a free file descriptor.
    pub fn new(way: SignalWay) -> Result<Self, Error> {
        install()?;
        let was_blocked = change_mask(libc::SIG_BLOCK, signal())?;
        // From here on the drop undoes it.
        let mut this = Self {
            way,
            signals: set_of(signal()),
            open_mask: set_of(signal()),
            descriptor: None,
            was_blocked,
            _stays: PhantomData,
        };
        // SAFETY: a null new mask only asks, and `open_mask` is written to;
        // then one signal is taken out of it.
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
            // SAFETY: an initialised set.
            let fd = unsafe { libc::signalfd(-1, &raw const this.signals, libc::SFD_CLOEXEC) };
            if fd < 0 {
                let source = io::Error::last_os_error();
                return Err(Error::os("signalfd", "a new one", source));
            }
            // SAFETY: new, and nobody else's.
            this.descriptor = Some(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        Ok(this)
    }

    /// Waits for one signal, and says when it was handled: on
    /// CLOCK_MONOTONIC, right after the system call returned, or first thing
    /// in the handler. `None` if another signal ended the wait.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn wait(&self) -> Result<Option<Instant>, Error> {
        let waited = match (self.way, &self.descriptor) {
            (SignalWay::Descriptor, Some(descriptor)) => read(descriptor)?,
            (SignalWay::Handler, _) => return Ok(self.suspend()),
            _ => self.take(ptr::null())?,
        };
        Ok((waited == Waited::Woken).then(|| Clock::Monotonic.now()))
    }

    /// The handler's own time. More than one signal may have been handled in
    /// one wait: then it is the last one's.
    fn suspend(&self) -> Option<Instant> {
        // SAFETY: an initialised mask. It always returns, with EINTR.
        unsafe { libc::sigsuspend(&raw const self.open_mask) };
        let handled = HANDLED.with(|handled| handled.swap(0, Ordering::Relaxed));
        (handled != 0).then(|| Instant::from_nanos(handled))
    }

    /// The C library's function is no use: musl's goes on after EINTR.
    #[inline]
    fn take(&self, timeout: *const libc::timespec) -> Result<Waited, Error> {
        // SAFETY: `signals` is a set at least as large as the kernel's, no
        // information is asked for, and `timeout` is null or valid.
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
            // None is left for the handler.
            while matches!(self.take(&raw const at_once), Ok(Waited::Woken)) {}
            // Changing the own mask does not fail for a signal that exists.
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

/// Sends the signal to a thread of this process, which has a [`SignalPort`].
///
/// # Errors
/// [`Error::NoSuchThread`] once it has ended.
#[inline]
pub fn send_signal(thread: Tid) -> Result<(), Error> {
    // SAFETY: takes nothing.
    send_signal_to(unsafe { libc::getpid() }, thread)
}

/// Sends it to a thread of the process with that number, which has a
/// [`SignalPort`]. It ends a process that never had one.
///
/// # Errors
/// [`Error::NoSuchThread`] once it has ended; [`Error::Os`] (EPERM) if the
/// process is another user's.
#[inline]
pub fn send_signal_to(process: i32, thread: Tid) -> Result<(), Error> {
    // SAFETY: takes numbers only. The process id keeps the signal inside that
    // process, and there is a handler for it if somebody has a port.
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

/// Installs the handler for the whole process; again does nothing new.
fn install() -> Result<(), Error> {
    let failed = |source| Error::os("sigaction", format!("signal {}", signal()), source);
    let ours = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: all zeroes is a valid sigaction: no flags, an empty mask.
    let (mut new, mut old) = unsafe {
        (
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
        )
    };
    // SAFETY: a null new action only asks; `old` is there to write to.
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
    // Threads of other languages may have small stacks.
    new.sa_flags = libc::SA_ONSTACK;
    // SAFETY: `new` is complete; its handler is async-signal-safe and lives as
    // long as the program.
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
    fn a_signal_arrives_in_each_way_after_it_was_sent() {
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
    fn another_signal_ends_the_wait_and_is_not_taken_for_it() {
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
    fn what_is_pending_at_the_end_does_no_harm() {
        std::thread::spawn(|| {
            for way in WAYS {
                let port = SignalPort::new(way).unwrap();
                for _ in 0..3 {
                    send_signal(current_tid()).unwrap();
                }
                drop(port);
                // Nor does one without a port, once there was one.
                send_signal(current_tid()).unwrap();
                // The time of that one is not left for the next.
                HANDLED.with(|handled| handled.store(0, Ordering::Relaxed));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_ended_thread_is_named() {
        drop(SignalPort::new(SignalWay::Wait).unwrap());
        // The kernel ends a thread a moment after it can be joined, and a thread of another
        // test may get its number.
        let is_named = |_| {
            let ended = std::thread::spawn(current_tid).join().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
            matches!(send_signal(ended), Err(Error::NoSuchThread { .. }))
        };
        assert!((0..100).any(is_named));
    }
}
