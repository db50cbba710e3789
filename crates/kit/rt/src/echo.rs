//! Another process on the other end of a pipe, with the shortest of loops.
#![allow(unsafe_code)]

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};

use crate::clock::read as read_clock;
use crate::{Error, Instant, Policy, Tid};

/// A child process that answers every message with the time at which it got it
/// (CLOCK_MONOTONIC). It has an address space of its own, and policy,
/// priority and CPUs of the thread that started it.
///
/// It ends with this handle, and with the thread that started it, however that
/// ends (`PR_SET_PDEATHSIG` of `prctl(2)`): keep the handle in that thread. A
/// thread with the reset-on-fork flag or a deadline policy cannot start it with
/// its own policy.
///
/// The start costs each page of the calling process that is there already and is
/// written later one page fault, as every fork(2) does: start it before the memory
/// of the measurement is made.
#[derive(Debug)]
pub struct EchoProcess {
    pid: libc::pid_t,
    to: PipeWriter,
    from: PipeReader,
}

/// A message: eight bytes, the time in the machine's own order.
const MESSAGE: usize = size_of::<u64>();

impl EchoProcess {
    /// Starts it, and returns once it has answered a first message.
    ///
    /// # Errors
    /// [`Error::Os`]: pipe(2) or fork(2) failed (too many files or processes),
    /// or it ended at once.
    pub fn start() -> Result<Self, Error> {
        let failed = |call| move |source| Error::os(call, "an echo process", source);
        let (theirs_in, to) = io::pipe().map_err(failed("pipe2"))?;
        let (from, theirs_out) = io::pipe().map_err(failed("pipe2"))?;
        // SAFETY: takes nothing.
        let parent = unsafe { libc::getpid() };
        // No handler of ours may run in the child, where what it refers to is
        // only a copy: all signals stay blocked there.
        let mask = block_all().map_err(failed("pthread_sigmask"))?;
        // SAFETY: the child calls `serve` only, which keeps to what is allowed
        // after a fork in a process of many threads: system calls, no memory
        // from the heap, no lock, no panic; and it never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            serve(theirs_in.as_raw_fd(), theirs_out.as_raw_fd(), parent);
        }
        // Before the mask is set again, which is a call of its own.
        let forked = match pid {
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(pid),
        };
        restore(&mask);
        let pid = forked.map_err(failed("fork"))?;
        drop((theirs_in, theirs_out));
        let mut echo = Self { pid, to, from };
        echo.send().map_err(failed("write"))?;
        while echo.receive().map_err(failed("read"))?.is_none() {}
        Ok(echo)
    }

    /// Sends a message; it does not block, as an answer is taken before the
    /// next is sent.
    ///
    /// # Errors
    /// The process is gone.
    pub fn send(&mut self) -> io::Result<()> {
        self.to.write_all(&[0; MESSAGE])
    }

    /// Waits for the answer: the time at which the process got the message.
    /// `None` when a signal interrupted the wait.
    ///
    /// # Errors
    /// The process is gone.
    pub fn receive(&mut self) -> io::Result<Option<Instant>> {
        let mut time = [0; MESSAGE];
        match self.from.read(&mut time) {
            Ok(MESSAGE) => Ok(Some(Instant::from_nanos(u64::from_ne_bytes(time)))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            // A write of eight bytes to a pipe is never split (pipe(7)).
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        }
    }

    /// Gives it these CPUs and this policy, in place of those of the thread that
    /// started it.
    ///
    /// # Errors
    /// As [`crate::affinity::set`] and [`crate::set_policy`].
    pub fn place(&self, cpus: &[u32], policy: &Policy) -> Result<(), Error> {
        let thread = Tid::from_raw(self.pid)
            .ok_or_else(|| Error::os("fork", "an echo process", io::ErrorKind::NotFound.into()))?;
        crate::affinity::set(thread, cpus)?;
        crate::set_policy(thread, policy)
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // SAFETY: numbers only. The child has not been waited for, so its
        // number is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        loop {
            // SAFETY: a null status is allowed.
            let waited = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
            let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if waited != -1 || !interrupted {
                return;
            }
        }
    }
}

/// The child's whole life. Allowed here: system calls and its own stack
/// (`signal-safety(7)`, fork(2)).
fn serve(from: RawFd, to: RawFd, parent: libc::pid_t) -> ! {
    // SAFETY: each call takes numbers, or a buffer on this stack with its
    // length. `close_range` closes files of this process only, and no
    // destructor runs that would close one of them again: this function never
    // returns.
    unsafe {
        // What the others have open is none of its business: a pipe that it
        // keeps open would never end for its reader. Its own two files are
        // moved to the front first.
        const IN: RawFd = 0;
        const OUT: RawFd = 1;
        // Neither may sit where the other is to go.
        let (from, to) = (
            libc::fcntl(from, libc::F_DUPFD, 2),
            libc::fcntl(to, libc::F_DUPFD, 2),
        );
        libc::dup2(from, IN);
        libc::dup2(to, OUT);
        libc::syscall(
            libc::SYS_close_range as libc::c_long,
            2_u32,
            u32::MAX,
            0_u32,
        );
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        // The parent may have ended before that.
        if libc::getppid() != parent {
            libc::_exit(1);
        }
        let mut message = [0_u8; MESSAGE];
        loop {
            if libc::read(IN, message.as_mut_ptr().cast(), MESSAGE) != MESSAGE as isize {
                libc::_exit(0);
            }
            message = read_clock(libc::CLOCK_MONOTONIC).to_ne_bytes();
            if libc::write(OUT, message.as_ptr().cast(), MESSAGE) != MESSAGE as isize {
                libc::_exit(0);
            }
        }
    }
}

/// Blocks all signals in the calling thread; returns which were blocked.
fn block_all() -> io::Result<libc::sigset_t> {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut old = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both are sets to write to; all zeroes is a valid one.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr()) {
            0 => Ok(old.assume_init()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

fn restore(mask: &libc::sigset_t) {
    // SAFETY: a set that was read before; a null old one is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    /// In a thread of its own: it is what the child's life hangs on.
    fn in_a_thread<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(test).join().unwrap()
    }

    fn answer(echo: &mut EchoProcess) -> Instant {
        echo.send().unwrap();
        loop {
            if let Some(time) = echo.receive().unwrap() {
                return time;
            }
        }
    }

    #[test]
    fn it_answers_with_the_time_between() {
        in_a_thread(|| {
            let mut echo = EchoProcess::start().unwrap();
            for _ in 0..100 {
                let before = Clock::Monotonic.now();
                let time = answer(&mut echo);
                assert!(before <= time && time <= Clock::Monotonic.now());
            }
        });
    }

    #[test]
    fn two_do_not_hold_each_others_pipes() {
        in_a_thread(|| {
            let mut first = EchoProcess::start().unwrap();
            let mut second = EchoProcess::start().unwrap();
            assert!(answer(&mut first) <= answer(&mut second));
            drop(first);
            answer(&mut second);
        });
    }

    #[test]
    fn it_is_gone_with_its_handle_and_with_its_thread() {
        let gone = |pid| {
            // A child of this process that was not waited for is still there,
            // as a zombie at least.
            for _ in 0..500 {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
                match stat {
                    Err(_) => return true,
                    Ok(stat) if stat.contains(") Z ") => return true,
                    Ok(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
                }
            }
            false
        };
        let pid = in_a_thread(|| EchoProcess::start().unwrap().pid());
        assert!(gone(pid));
        let pid = in_a_thread(|| {
            let echo = EchoProcess::start().unwrap();
            let pid = echo.pid();
            std::mem::forget(echo);
            pid
        });
        assert!(gone(pid));
        // SAFETY: numbers and a null status; the child is this process's own.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
}
