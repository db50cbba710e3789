//! Starts threads that are fully set up before their first instruction.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, Scope};
use std::time::Duration;

use crate::{
    Error, Policy, PolicyKind, StarvationWatch, ThreadRef, Tid, affinity, current_tid, interrupt,
    prefault_stack, set_policy,
};

/// Time without CPU time after which the start of a thread fails. Real-time throttling and the
/// kernel's server for ordinary threads (Linux 6.12) give CPU time in each second.
const START_PATIENCE: Duration = Duration::from_secs(2);

/// The same for a thread that has been asked to end.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Interval of checks for starvation.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts a thread with its name, CPUs, stack and policy already set.
///
/// Everything that is not set is inherited from the spawning thread, as in any other thread: CPUs
/// and signal mask, and an ordinary policy. The exceptions are that the signal of
/// [`interrupt::interrupt`] is unblocked, and that a real-time policy is not inherited
/// ([`set_policy`]).
#[derive(Clone, Debug)]
#[must_use = "nothing is started before spawn()"]
pub struct ThreadBuilder {
    name: String,
    policy: Option<Policy>,
    cpus: Option<Vec<u32>>,
    stack_bytes: Option<usize>,
    prefault_bytes: usize,
}

impl ThreadBuilder {
    /// Creates a builder for a thread with this name. The kernel shows at most 15 bytes of it.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            policy: None,
            cpus: None,
            stack_bytes: None,
            prefault_bytes: 0,
        }
    }

    /// Sets the scheduling policy.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the CPUs that the thread may run on.
    pub fn cpus(mut self, cpus: &[u32]) -> Self {
        self.cpus = Some(cpus.to_vec());
        self
    }

    /// Sets the stack size in bytes. The default is 2 MiB, as in the standard library.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Sets how many bytes of the stack to touch before `f` runs ([`prefault_stack`]).
    pub fn prefault_stack(mut self, bytes: usize) -> Self {
        self.prefault_bytes = bytes;
        self
    }

    /// Starts the thread and waits until it is set up. If any setting is refused, `f` does not run,
    /// and the thread has ended when this returns.
    ///
    /// # Errors
    /// Returns the errors of [`affinity::set`], [`prefault_stack`] and [`set_policy`],
    /// [`Error::ThreadName`] or [`Error::SpawnFailed`], and [`Error::ThreadStarved`] if the thread
    /// gets no CPU time on its CPUs.
    pub fn spawn<F, T>(self, f: F) -> Result<JoinHandle<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (report, answer) = sync_channel(0);
        let builder = self.prepare()?;
        let name = self.name.clone();
        let inner = builder
            .spawn(move || self.run(&report, f))
            .map_err(|source| spawn_failed(&name, source))?;
        match answer_of(answer, &name) {
            Ok(tid) => Ok(JoinHandle { inner, name, tid }),
            Err(error) => {
                // The thread returns right after its report. If it panicked during the setup,
                // `error` already says so.
                let _ = inner.join();
                Err(error)
            }
        }
    }

    /// Like [`Self::spawn`], for a function that borrows ([`std::thread::scope`]).
    ///
    /// # Errors
    /// See [`Self::spawn`].
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, Error>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (report, answer) = sync_channel(0);
        let builder = self.prepare()?;
        let name = self.name.clone();
        let inner = builder
            .spawn_scoped(scope, move || self.run(&report, f))
            .map_err(|source| spawn_failed(&name, source))?;
        match answer_of(answer, &name) {
            Ok(tid) => Ok(ScopedJoinHandle { inner, name, tid }),
            Err(error) => {
                let _ = inner.join();
                Err(error)
            }
        }
    }

    fn prepare(&self) -> Result<thread::Builder, Error> {
        // The standard library panics on a zero byte.
        if self.name.contains('\0') {
            return Err(Error::ThreadName {
                name: self.name.clone(),
            });
        }
        let builder = thread::Builder::new().name(self.name.clone());
        Ok(match self.stack_bytes {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        })
    }

    /// Body of the thread. Returns `None` if `f` did not run.
    fn run<T>(self, report: &SyncSender<Result<Tid, Error>>, f: impl FnOnce() -> T) -> Option<T> {
        // Each message is passed directly to the spawning thread, so this fails if that thread no
        // longer waits.
        report.send(Ok(current_tid())).ok()?;
        let ready = self.set_up();
        let go = ready.is_ok();
        let told = report.send(ready).is_ok();
        (go && told).then(f)
    }

    /// Runs in the new thread. Sets a real-time priority first, because an ordinary thread may get
    /// no time on these CPUs, and the CPUs before the stack, whose pages are then allocated near
    /// them. A deadline policy is set last: such a thread cannot be pinned, and the setup would
    /// consume its CPU time.
    fn set_up(&self) -> Result<Tid, Error> {
        interrupt::unblock()?;
        let (first, last) = match &self.policy {
            Some(policy) if policy.kind() == PolicyKind::Deadline => (None, Some(policy)),
            policy => (policy.as_ref(), None),
        };
        let set = |policy: Option<&Policy>| match policy {
            Some(policy) => set_policy(ThreadRef::Current, policy),
            None => Ok(()),
        };
        set(first)?;
        if let Some(cpus) = &self.cpus {
            affinity::set(ThreadRef::Current, cpus)?;
        }
        prefault_stack(self.prefault_bytes)?;
        set(last)?;
        Ok(current_tid())
    }
}

fn spawn_failed(name: &str, source: io::Error) -> Error {
    Error::SpawnFailed {
        name: name.to_owned(),
        source,
    }
}

/// Returns the setup result reported by the new thread. If the thread gets no CPU time, rescues it,
/// so that it can end.
#[expect(
    clippy::disallowed_methods,
    reason = "the new thread first states its ID, or ends"
)]
fn answer_of(answer: Receiver<Result<Tid, Error>>, name: &str) -> Result<Tid, Error> {
    let panicked = || Error::ThreadPanicked {
        name: name.to_owned(),
        message: "before it was ready".to_owned(),
    };
    let mut watch = StarvationWatch::new(answer.recv().map_err(|_| panicked())??);
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(ready) => return ready,
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if watch.starved_for() >= START_PATIENCE
            && let Some(starved) = watch.explain()
        {
            // It ends at its next message, because nobody receives it. If the rescue is refused, it
            // still ends as soon as it gets the CPU.
            watch.rescue()?;
            return Err(Error::ThreadStarved(starved));
        }
    }
}

/// Returns the result of a joined thread.
fn outcome<T>(name: String, result: thread::Result<Option<T>>) -> Result<T, Error> {
    let message = match result {
        Ok(Some(value)) => return Ok(value),
        // Cannot happen: a handle exists only if `f` ran.
        Ok(None) => "it did not run".to_owned(),
        Err(payload) => message_of(payload.as_ref()),
    };
    Err(Error::ThreadPanicked { name, message })
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(message) = payload.downcast_ref::<&str>() {
        (*message).to_owned()
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message.clone()
    } else {
        "(a panic without a message)".to_owned()
    }
}

/// A running thread, until it is joined. Dropping the handle lets it continue.
pub struct JoinHandle<T> {
    inner: thread::JoinHandle<Option<T>>,
    name: String,
    tid: Tid,
}

/// A running thread within a scope, until it is joined or the scope ends.
pub struct ScopedJoinHandle<'scope, T> {
    inner: thread::ScopedJoinHandle<'scope, Option<T>>,
    name: String,
    tid: Tid,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread ends, and returns the result of its function.
    ///
    /// # Errors
    /// Returns [`Error::ThreadPanicked`] with the panic message.
    pub fn join(self) -> Result<T, Error> {
        outcome(self.name, self.inner.join())
    }

    /// Like [`Self::join`], for a thread that has been asked to end. If the thread gets no CPU time
    /// for a second, it ends at SCHED_OTHER on the CPUs of the calling thread.
    ///
    /// # Errors
    /// See [`Self::join`].
    pub fn join_rescuing(self) -> Result<T, Error> {
        let mut watch = StarvationWatch::new(self.tid);
        let mut pause = Duration::from_micros(100);
        while !self.is_finished() {
            thread::sleep(pause);
            pause = (2 * pause).min(LOOK_EVERY);
            if watch.starved_for() >= END_PATIENCE {
                // If this is refused, the thread may still get CPU time later.
                let _ = watch.rescue();
            }
        }
        self.join()
    }

    /// Returns the kernel's thread ID, which may be reused once the thread has ended.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Returns whether its function has returned.
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// See [`JoinHandle::join`].
    ///
    /// # Errors
    /// Returns [`Error::ThreadPanicked`] with the panic message.
    pub fn join(self) -> Result<T, Error> {
        outcome(self.name, self.inner.join())
    }

    /// See [`JoinHandle::tid`].
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Returns whether its function has returned.
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

// Not derived: the result of a thread need not implement Debug.
impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("JoinHandle", &self.name, self.tid, f)
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("ScopedJoinHandle", &self.name, self.tid, f)
    }
}

fn debug(what: &str, name: &str, tid: Tid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct(what)
        .field("name", &name)
        .field("tid", &tid)
        .finish_non_exhaustive()
}
