//! A process that runs a minimal loop at the other end of a pipe.
#![allow(unsafe_code)]

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};

use crate::clock::read as read_clock;
use crate::{Error, Instant, Policy, ThreadRef, Tid};

/// A child process that answers each message with the time when it arrived (CLOCK_MONOTONIC). It
/// has its own address space, inherits the CPUs of the thread that started it, and has an ordinary
/// policy; see [`Self::place`].
///
/// It ends when this handle is dropped, and also when the thread that started it ends for any
/// reason (`PR_SET_PDEATHSIG` of `prctl(2)`), so keep the handle in that thread. It drops to
/// SCHED_OTHER before it ends.
///
/// As after any fork(2), the next write to each existing page of the calling process causes a page
/// fault. Start the child before allocating memory for the measurement.
#[derive(Debug)]
pub struct EchoProcess {
    pid: libc::pid_t,
    to: PipeWriter,
    from: PipeReader,
}

/// A message: a time in eight bytes, in native byte order.
const MESSAGE: usize = size_of::<u64>();

impl EchoProcess {
    /// Starts the process, and returns after its first answer.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if pipe(2) or fork(2) fails (too many files or processes), or if the
    /// child ends at once.
    pub fn start() -> Result<Self, Error> {
        let failed = |call| move |source| Error::os(call, "an echo process", source);
        let (theirs_in, to) = io::pipe().map_err(failed("pipe2"))?;
        let (from, theirs_out) = io::pipe().map_err(failed("pipe2"))?;
        // SAFETY: the call takes no arguments.
        let parent = unsafe { libc::getpid() };
        // Block all signals in the child: our handlers must not run there, because they would use
        // copies of our data.
        let mask = block_all().map_err(failed("pthread_sigmask"))?;
        // SAFETY: the child only calls `serve`, which never returns and does only what is allowed
        // after a fork of a multithreaded process: system calls, but no allocation, no lock and no
        // panic.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            serve(theirs_in.as_raw_fd(), theirs_out.as_raw_fd(), parent);
        }
        // Read errno before restoring the mask, which is another system call.
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

    /// Sends a message. This does not block, because the answer to the previous message has already
    /// been received.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn send(&mut self) -> io::Result<()> {
        self.to.write_all(&[0; MESSAGE])
    }

    /// Waits for the answer: the time when the message arrived. Returns `None` if a signal
    /// interrupted the wait.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn receive(&mut self) -> io::Result<Option<Instant>> {
        let mut time = [0; MESSAGE];
        match self.from.read(&mut time) {
            Ok(MESSAGE) => Ok(Some(Instant::from_nanos(u64::from_ne_bytes(time)))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            // A write of eight bytes to a pipe is atomic (pipe(7)).
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        }
    }

    /// Sets the CPUs and the policy of the process.
    ///
    /// # Errors
    /// See [`crate::affinity::set`] and [`crate::set_policy`].
    pub fn place(&self, cpus: &[u32], policy: &Policy) -> Result<(), Error> {
        let thread = Tid::from_raw(self.pid)
            .ok_or_else(|| Error::os("fork", "an echo process", io::ErrorKind::NotFound.into()))?;
        crate::affinity::set(thread, cpus)?;
        crate::set_policy(thread, policy)
    }

    /// Returns the process ID.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        if let Some(process) = Tid::from_raw(self.pid) {
            crate::demote(process);
        }
        // SAFETY: the call takes only integers. The child has not been waited for, so its PID is
        // not reused.
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

/// Body of the child. Only system calls and its own stack are allowed here (`signal-safety(7)`,
/// fork(2)).
fn serve(from: RawFd, to: RawFd, parent: libc::pid_t) -> ! {
    // SAFETY: each call takes numbers, or a buffer on this stack with its length. `close_range`
    // closes files of this process only. This function never returns, so no destructor closes one
    // of them again.
    unsafe {
        // Close all inherited files except these two: if a pipe stayed open in this process, its
        // reader would never see the end of the file. Move the two files to 0 and 1 first.
        const IN: RawFd = 0;
        const OUT: RawFd = 1;
        // Duplicates both descriptors to numbers of at least 2, so that neither dup2 below closes
        // the other one.
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
        if !end_with_parent() {
            end(PARENT_ENDED);
        }
        // The parent may have ended before that.
        if libc::getppid() != parent {
            end(PARENT_ENDED);
        }
        let mut message = [0_u8; MESSAGE];
        loop {
            if libc::read(IN, message.as_mut_ptr().cast(), MESSAGE) != MESSAGE as isize {
                end(0);
            }
            message = read_clock(libc::CLOCK_MONOTONIC).to_ne_bytes();
            if libc::write(OUT, message.as_ptr().cast(), MESSAGE) != MESSAGE as isize {
                end(0);
            }
        }
    }
}

/// The signal that the child gets when the thread that started it ends. All other signals are
/// blocked.
const PARENT_ENDED: libc::c_int = libc::SIGTERM;

/// Ends the child, which must not exit as a real-time thread. This is also its signal handler.
extern "C" fn end(status: libc::c_int) -> ! {
    crate::demote(ThreadRef::Current);
    // SAFETY: the call takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

/// Lets the child end with the thread that started it. Returns false if that fails.
fn end_with_parent() -> bool {
    let mut only = MaybeUninit::<libc::sigset_t>::zeroed();
    let handler = end as extern "C" fn(libc::c_int) -> ! as libc::sighandler_t;
    // SAFETY: the calls take numbers, and a set and an action on this stack that are complete: all
    // zero bytes are a valid action without flags.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = handler;
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), PARENT_ENDED);
        libc::sigaction(PARENT_ENDED, &raw const action, std::ptr::null_mut()) == 0
            && libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), std::ptr::null_mut()) == 0
            && libc::prctl(libc::PR_SET_PDEATHSIG, PARENT_ENDED as libc::c_ulong) == 0
    }
}

/// Blocks all signals in the calling thread. Returns the previous mask.
fn block_all() -> io::Result<libc::sigset_t> {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut old = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the calls write to both sets; all zero bytes are a valid set.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr()) {
            0 => Ok(old.assume_init()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

fn restore(mask: &libc::sigset_t) {
    // SAFETY: the mask was read before; the old mask may be null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    /// Runs in a separate thread, because the child ends with the thread that started it.
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
    fn echo_process_ends_with_handle_and_thread() {
        let gone = |pid| {
            // A child that was not waited for still exists, at least as a zombie.
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
        // SAFETY: an integer and a null status are passed, and the process is a child of this one.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
}
