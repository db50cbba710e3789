//! The mechanisms by which one thread wakes another. Each has two ends, one that posts and one that
//! waits.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use punctual_rt::{
    Barrier, Error, EventFd, Futex, MessageQueue, Mutex, MutexGuard, Protocol, PthreadMonitor,
    Semaphore, SignalPort, SignalWay, SystemVSemaphore, Tid, current_tid, send_signal,
};
use serde::{Deserialize, Serialize};

/// A mechanism by which one thread wakes another. Each thread takes one end.
pub(super) trait Way: Send + Sync + 'static {
    /// The end that wakes.
    type Post<'a>: Post
    where
        Self: 'a;
    /// The end that is woken.
    type Wait<'a>: Wait
    where
        Self: 'a;

    /// Returns the end that wakes. Call this in the thread that uses the end, before the other
    /// thread waits.
    fn post_end(&self) -> Result<Self::Post<'_>, Error>;

    /// Returns the end that is woken. Call this in the thread that uses the end.
    fn wait_end(&self) -> Result<Self::Wait<'_>, Error>;

    /// Returns a description from which another process can create the end that wakes, with the
    /// descriptor to inherit; `None` if that is not supported.
    fn reach(&self) -> Option<Reach<'_>> {
        None
    }

    /// Returns the number of waits given up so far; `None` if waits are never given up.
    fn given_up(&self) -> Option<u64> {
        None
    }
}

/// Describes the end that wakes, for use in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    /// A futex in the shared memory.
    Futex,
    /// This mechanism and the next three are passed as a descriptor.
    Pipe,
    EventFd,
    Queue,
    Socket,
    /// A System V semaphore set, with its ID.
    Set(i32),
    /// A signal to the waiting thread, which belongs to the process with this ID.
    Signal(i32),
}

/// The end that wakes, with the descriptor that the other process inherits.
pub(super) type Reach<'a> = (End, Option<BorrowedFd<'a>>);

/// The end that wakes.
pub(super) trait Post {
    /// Prepares the post while the other thread is waiting. This is not part of the wake-up.
    fn prepare(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Wakes the other thread.
    fn post(&mut self) -> Result<(), Error>;
}

/// The end that is woken.
pub(super) trait Wait {
    /// Waits for a post. May also return without one, after a signal or spuriously.
    fn wait(&mut self) -> Result<(), Error>;

    /// Does the work that follows the wake-up but is not part of it.
    fn settle(&mut self) {}

    /// Returns whether the last wait ended by its timeout.
    fn gave_up(&self) -> bool {
        false
    }
}

/// A mechanism with ends that keep no state.
pub(super) trait Token: Send + Sync + 'static {
    fn post(&self) -> Result<(), Error>;
    fn wait(&self) -> Result<(), Error>;
    /// See [`Way::reach`].
    fn reach(&self) -> Option<Reach<'_>> {
        None
    }
}

impl<T: Token> Way for T {
    type Post<'a> = &'a T;
    type Wait<'a> = &'a T;

    fn post_end(&self) -> Result<&T, Error> {
        Ok(self)
    }

    fn wait_end(&self) -> Result<&T, Error> {
        Ok(self)
    }

    fn reach(&self) -> Option<Reach<'_>> {
        T::reach(self)
    }
}

impl<T: Token> Post for &T {
    #[inline]
    fn post(&mut self) -> Result<(), Error> {
        T::post(self)
    }
}

impl<T: Token> Wait for &T {
    #[inline]
    fn wait(&mut self) -> Result<(), Error> {
        T::wait(self)
    }
}

impl Token for Semaphore {
    #[inline]
    fn post(&self) -> Result<(), Error> {
        Semaphore::post(self)
    }
    #[inline]
    fn wait(&self) -> Result<(), Error> {
        Semaphore::wait(self).map(drop)
    }
}

impl Token for SystemVSemaphore {
    #[inline]
    fn post(&self) -> Result<(), Error> {
        SystemVSemaphore::post(self)
    }
    #[inline]
    fn wait(&self) -> Result<(), Error> {
        SystemVSemaphore::wait(self).map(drop)
    }
    fn reach(&self) -> Option<Reach<'_>> {
        Some((End::Set(self.id()), None))
    }
}

impl Token for EventFd {
    #[inline]
    fn post(&self) -> Result<(), Error> {
        EventFd::post(self)
    }
    #[inline]
    fn wait(&self) -> Result<(), Error> {
        EventFd::wait(self).map(drop)
    }
    fn reach(&self) -> Option<Reach<'_>> {
        Some((End::EventFd, Some(self.as_fd())))
    }
}

impl Token for MessageQueue {
    #[inline]
    fn post(&self) -> Result<(), Error> {
        self.send([1; Self::MESSAGE]).map(drop)
    }
    #[inline]
    fn wait(&self) -> Result<(), Error> {
        self.receive(&mut [0; Self::MESSAGE]).map(drop)
    }
    fn reach(&self) -> Option<Reach<'_>> {
        Some((End::Queue, Some(self.as_fd())))
    }
}

impl Token for Barrier {
    /// The last thread to arrive does not wait.
    #[inline]
    fn post(&self) -> Result<(), Error> {
        Barrier::wait(self);
        Ok(())
    }
    #[inline]
    fn wait(&self) -> Result<(), Error> {
        Barrier::wait(self);
        Ok(())
    }
}

/// Creates a barrier for the two threads.
pub(super) fn barrier() -> Result<Barrier, Error> {
    Barrier::new(NonZeroU32::MIN.saturating_add(1))
}

/// An unnamed pipe, through which one byte at a time is sent.
#[derive(Debug)]
pub(super) struct Pipe(PipeReader, PipeWriter);

impl Pipe {
    pub(super) fn new() -> Result<Self, Error> {
        let (reader, writer) = io::pipe().map_err(|error| system("pipe2", error))?;
        Ok(Self(reader, writer))
    }
}

impl Token for Pipe {
    #[inline]
    fn post(&self) -> Result<(), Error> {
        post_byte(&mut &self.1, "write to the pipe")
    }
    #[inline]
    fn wait(&self) -> Result<(), Error> {
        received("read from the pipe", (&self.0).read(&mut [0]))
    }
    fn reach(&self) -> Option<Reach<'_>> {
        Some((End::Pipe, Some(self.1.as_fd())))
    }
}

/// A pair of connected Unix stream sockets, through which one byte at a time is sent.
#[derive(Debug)]
pub(super) struct Socket(UnixStream, UnixStream);

impl Socket {
    pub(super) fn new() -> Result<Self, Error> {
        let (a, b) = UnixStream::pair().map_err(|error| system("socketpair", error))?;
        Ok(Self(a, b))
    }
}

impl Token for Socket {
    #[inline]
    fn post(&self) -> Result<(), Error> {
        post_byte(&mut &self.1, "write to the socket")
    }
    #[inline]
    fn wait(&self) -> Result<(), Error> {
        received("read from the socket", (&self.0).read(&mut [0]))
    }
    fn reach(&self) -> Option<Reach<'_>> {
        Some((End::Socket, Some(self.1.as_fd())))
    }
}

#[cold]
pub(super) fn system(call: &'static str, source: io::Error) -> Error {
    Error::Os {
        call,
        what: "a wake-up".to_owned(),
        source,
    }
}

/// The byte that wakes.
#[inline]
pub(super) fn post_byte(to: &mut impl Write, call: &'static str) -> Result<(), Error> {
    to.write_all(&[1]).map_err(|error| system(call, error))
}

#[inline]
fn received(call: &'static str, result: io::Result<usize>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(system(call, error)),
    }
}

/// A signal to the waiting thread.
#[derive(Debug, Default)]
pub(super) struct Signal(OnceLock<Tid>);

impl Way for Signal {
    type Post<'a> = &'a Signal;
    type Wait<'a> = SignalPort;

    fn post_end(&self) -> Result<&Self, Error> {
        Ok(self)
    }

    fn wait_end(&self) -> Result<SignalPort, Error> {
        let port = SignalPort::new(SignalWay::Wait)?;
        // This is set only once, because only one thread waits.
        let _ = self.0.set(current_tid());
        Ok(port)
    }

    fn reach(&self) -> Option<Reach<'_>> {
        Some((End::Signal(std::process::id().cast_signed()), None))
    }
}

impl Post for &Signal {
    #[inline]
    fn post(&mut self) -> Result<(), Error> {
        // The thread ID is already known, because the posting thread has seen that the other thread
        // is waiting.
        self.0.get().map_or(Ok(()), |thread| send_signal(*thread))
    }
}

impl Wait for SignalPort {
    #[inline]
    fn wait(&mut self) -> Result<(), Error> {
        SignalPort::wait(self).map(drop)
    }
}

/// A futex whose waiting end remembers the last value that it saw.
#[derive(Debug, Default)]
pub(super) struct BareFutex(Futex);

impl Way for BareFutex {
    type Post<'a> = &'a BareFutex;
    type Wait<'a> = FutexWait<'a>;

    fn post_end(&self) -> Result<&Self, Error> {
        Ok(self)
    }

    fn wait_end(&self) -> Result<FutexWait<'_>, Error> {
        Ok(FutexWait {
            futex: &self.0,
            seen: 0,
        })
    }
}

impl Post for &BareFutex {
    #[inline]
    fn post(&mut self) -> Result<(), Error> {
        self.0.post()
    }
}

pub(super) struct FutexWait<'a> {
    futex: &'a Futex,
    seen: u32,
}

impl Wait for FutexWait<'_> {
    #[inline]
    fn wait(&mut self) -> Result<(), Error> {
        self.futex.wait_while(self.seen)?;
        self.seen = self.futex.value();
        Ok(())
    }
}

/// A condition variable with its mutex, and a counter that is protected by the mutex.
#[derive(Debug)]
pub(super) struct Condition(PthreadMonitor<u64>);

impl Condition {
    pub(super) fn new() -> Result<Self, Error> {
        PthreadMonitor::new(0, Protocol::Plain).map(Self)
    }
}

impl Way for Condition {
    type Post<'a> = &'a Condition;
    type Wait<'a> = ConditionWait<'a>;

    fn post_end(&self) -> Result<&Self, Error> {
        Ok(self)
    }

    fn wait_end(&self) -> Result<ConditionWait<'_>, Error> {
        Ok(ConditionWait {
            monitor: &self.0,
            seen: 0,
        })
    }
}

impl Post for &Condition {
    /// Unlocks the mutex before it notifies, so that the woken thread finds the mutex free.
    #[inline]
    fn post(&mut self) -> Result<(), Error> {
        *self.0.lock()? += 1;
        self.0.notify_one();
        Ok(())
    }
}

pub(super) struct ConditionWait<'a> {
    monitor: &'a PthreadMonitor<u64>,
    seen: u64,
}

impl Wait for ConditionWait<'_> {
    #[inline]
    fn wait(&mut self) -> Result<(), Error> {
        let mut count = self.monitor.lock()?;
        while *count == self.seen {
            count.wait()?;
        }
        self.seen = *count;
        Ok(())
    }
}

/// Two mutexes, used in turn: the posting thread holds both, and releases the one that the other
/// thread waits for. While that thread moves on to the other mutex, the posting thread takes the
/// first again.
#[derive(Debug)]
pub(super) struct Mutexes([Mutex<()>; 2]);

impl Mutexes {
    pub(super) fn new(protocol: Protocol) -> Result<Self, Error> {
        Ok(Self([Mutex::new((), protocol)?, Mutex::new((), protocol)?]))
    }
}

impl Way for Mutexes {
    type Post<'a> = MutexPost<'a>;
    type Wait<'a> = MutexWait<'a>;

    fn post_end(&self) -> Result<MutexPost<'_>, Error> {
        Ok(MutexPost {
            mutexes: &self.0,
            held: [Some(self.0[0].lock()?), Some(self.0[1].lock()?)],
            next: 0,
        })
    }

    fn wait_end(&self) -> Result<MutexWait<'_>, Error> {
        Ok(MutexWait {
            mutexes: &self.0,
            held: None,
            next: 0,
        })
    }
}

pub(super) struct MutexPost<'a> {
    mutexes: &'a [Mutex<()>; 2],
    held: [Option<MutexGuard<'a, ()>>; 2],
    /// The mutex that the other thread is waiting for.
    next: usize,
}

impl Post for MutexPost<'_> {
    fn prepare(&mut self) -> Result<(), Error> {
        let other = 1 - self.next;
        if self.held[other].is_none() {
            self.held[other] = Some(self.mutexes[other].lock()?);
        }
        Ok(())
    }

    #[inline]
    fn post(&mut self) -> Result<(), Error> {
        self.held[self.next] = None;
        self.next = 1 - self.next;
        Ok(())
    }
}

pub(super) struct MutexWait<'a> {
    mutexes: &'a [Mutex<()>; 2],
    held: Option<MutexGuard<'a, ()>>,
    next: usize,
}

impl Wait for MutexWait<'_> {
    #[inline]
    fn wait(&mut self) -> Result<(), Error> {
        self.held = Some(self.mutexes[self.next].lock()?);
        Ok(())
    }

    fn settle(&mut self) {
        self.held = None;
        self.next = 1 - self.next;
    }
}
