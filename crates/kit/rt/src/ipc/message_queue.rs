//! A POSIX message queue.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Clock, Error, Waited};

/// Upper limit of a timeout, so that a 32-bit time does not overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A queue of messages of up to eight bytes (`mq_overview(7)`), private to this process. Its name
/// is removed as soon as it is open, so that the kernel frees it when the process ends for any
/// reason.
#[derive(Debug)]
pub struct MessageQueue(libc::mqd_t);

impl MessageQueue {
    /// Length of a message in bytes.
    pub const MESSAGE: usize = 8;

    /// Creates an empty queue with room for `messages` messages.
    ///
    /// # Errors
    /// Returns [`Error::Os`]: EMFILE if it would exceed RLIMIT_MSGQUEUE (the total size in bytes of
    /// all queues of a user), ENOSPC if it would exceed `/proc/sys/fs/mqueue/queues_max`, EINVAL
    /// for more messages than `/proc/sys/fs/mqueue/msg_max`, ENOSYS if the kernel does not support
    /// message queues.
    pub fn new(messages: u32) -> Result<Self, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("/punctual-{}-{number}", process::id());
        let failed = |call, name: &str| Error::os(call, name, io::Error::last_os_error());
        // The name contains no zero byte.
        let path = CString::new(name.clone()).unwrap_or_default();
        // SAFETY: all zero bytes are a valid mq_attr, which consists of numbers.
        let mut attributes = unsafe { MaybeUninit::<libc::mq_attr>::zeroed().assume_init() };
        attributes.mq_maxmsg = messages as _;
        attributes.mq_msgsize = Self::MESSAGE as _;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the path ends in a zero byte. With O_CREAT, the call takes a mode and attributes,
        // which are complete.
        let queue = unsafe {
            libc::mq_open(
                path.as_ptr(),
                flags,
                0o600 as libc::mode_t,
                &raw const attributes,
            )
        };
        if queue < 0 {
            return Err(failed("mq_open", &name));
        }
        let queue = Self(queue);
        // SAFETY: the path ends in a zero byte.
        if unsafe { libc::mq_unlink(path.as_ptr()) } != 0 {
            return Err(failed("mq_unlink", &name));
        }
        Ok(queue)
    }

    /// Sends a message. Waits while the queue is full.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn send(&self, message: [u8; Self::MESSAGE]) -> Result<Waited, Error> {
        // SAFETY: the queue is open, and the message has the given length.
        let result = unsafe { libc::mq_send(self.0, message.as_ptr().cast(), message.len(), 0) };
        match result {
            0 => Ok(Waited::Woken),
            _ => interrupted("mq_send"),
        }
    }

    /// Receives a message into `message`. Waits while the queue is empty.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn receive(&self, message: &mut [u8; Self::MESSAGE]) -> Result<Waited, Error> {
        let length = message.len();
        // SAFETY: the queue is open, and there is room for its longest message.
        let result = unsafe {
            libc::mq_receive(
                self.0,
                message.as_mut_ptr().cast(),
                length,
                std::ptr::null_mut(),
            )
        };
        match result {
            0.. => Ok(Waited::Woken),
            _ => interrupted("mq_receive"),
        }
    }

    /// Like [`receive`](Self::receive), but returns `None` after `patience`. The call only supports
    /// CLOCK_REALTIME: if that clock is set during the wait, the timeout changes by the same
    /// amount.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn receive_within(
        &self,
        message: &mut [u8; Self::MESSAGE],
        patience: Duration,
    ) -> Result<Option<Waited>, Error> {
        let now = Duration::from_nanos(Clock::Realtime.now().as_nanos());
        let until = now + patience.min(LONGEST);
        let until = libc::timespec {
            // The type of `tv_sec` has different names in different C libraries, so it is inferred.
            tv_sec: until.as_secs().try_into().unwrap_or(i32::MAX.into()),
            tv_nsec: until.subsec_nanos() as _,
        };
        let length = message.len();
        // SAFETY: the queue is open, there is room for its longest message, and the time stays
        // valid until the call returns.
        let result = unsafe {
            libc::mq_timedreceive(
                self.0,
                message.as_mut_ptr().cast(),
                length,
                std::ptr::null_mut(),
                &raw const until,
            )
        };
        match result {
            0.. => Ok(Some(Waited::Woken)),
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT) => Ok(None),
            _ => interrupted("mq_timedreceive").map(Some),
        }
    }
}

/// Uses a queue that another process created and this one inherited.
impl From<OwnedFd> for MessageQueue {
    fn from(descriptor: OwnedFd) -> Self {
        // On Linux, a queue is a file descriptor (mq_overview(7)).
        Self(descriptor.into_raw_fd())
    }
}

impl AsFd for MessageQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the file descriptor stays open as long as `self` exists.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for MessageQueue {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open and not used again.
        unsafe { libc::mq_close(self.0) };
    }
}

#[cold]
fn interrupted(call: &'static str) -> Result<Waited, Error> {
    let source = io::Error::last_os_error();
    if source.kind() == io::ErrorKind::Interrupted {
        return Ok(Waited::Interrupted);
    }
    Err(Error::os(call, "a message queue", source))
}
