//! A thread that is in order before its first instruction runs.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use crate::{
    Error, Policy, ThreadRef, Tid, affinity, current_tid, interrupt, prefault_stack, set_policy,
};

/// Starts a thread with its name, CPUs, stack and policy in order.
///
/// What is not asked for is as in any other thread: CPUs, policy and signal
/// mask are those of the spawning thread, except that the signal of
/// [`interrupt::interrupt`] is let through.
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
    /// A thread of this name. Of a longer one the kernel shows 15 bytes.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            policy: None,
            cpus: None,
            stack_bytes: None,
            prefault_bytes: 0,
        }
    }

    /// The scheduling policy.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The CPUs it may run on.
    pub fn cpus(mut self, cpus: &[u32]) -> Self {
        self.cpus = Some(cpus.to_vec());
        self
    }

    /// The size of its stack in bytes; 2 MiB by default, as the standard
    /// library's.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// How many bytes of its stack to touch before it begins
    /// ([`prefault_stack`]).
    pub fn prefault_stack(mut self, bytes: usize) -> Self {
        self.prefault_bytes = bytes;
        self
    }

    /// Starts the thread and waits until it is in order. If something of it is
    /// refused, `f` does not run and the thread is gone when this returns.
    ///
    /// # Errors
    /// Those of [`affinity::set`], [`prefault_stack`] and [`set_policy`];
    /// [`Error::ThreadName`], [`Error::SpawnFailed`].
    pub fn spawn<F, T>(self, f: F) -> Result<JoinHandle<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (report, answer) = sync_channel(1);
        let builder = self.prepare()?;
        let name = self.name.clone();
        let inner = builder
            .spawn(move || self.run(&report, f))
            .map_err(|source| spawn_failed(&name, source))?;
        match answer_of(&answer, &name) {
            Ok(tid) => Ok(JoinHandle { inner, name, tid }),
            Err(error) => {
                // It returns right after its report; a panic of the setup is
                // what `error` tells.
                let _ = inner.join();
                Err(error)
            }
        }
    }

    /// As [`Self::spawn`], for a function that borrows
    /// ([`std::thread::scope`]).
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, Error>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (report, answer) = sync_channel(1);
        let builder = self.prepare()?;
        let name = self.name.clone();
        let inner = builder
            .spawn_scoped(scope, move || self.run(&report, f))
            .map_err(|source| spawn_failed(&name, source))?;
        match answer_of(&answer, &name) {
            Ok(tid) => Ok(ScopedJoinHandle { inner, name, tid }),
            Err(error) => {
                let _ = inner.join();
                Err(error)
            }
        }
    }

    fn prepare(&self) -> Result<thread::Builder, Error> {
        // The standard library panics at a zero byte.
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

    /// The thread's whole life. None if `f` did not run.
    fn run<T>(self, report: &SyncSender<Result<Tid, Error>>, f: impl FnOnce() -> T) -> Option<T> {
        let ready = self.set_up();
        let go = ready.is_ok();
        // The spawner waits for it; there is room for this one message.
        let told = report.send(ready).is_ok();
        (go && told).then(f)
    }

    /// In the new thread. The CPUs come first, so that the stack's pages are
    /// taken near them, and the policy last, so that its CPU time is not spent
    /// on the rest.
    fn set_up(&self) -> Result<Tid, Error> {
        interrupt::unblock()?;
        if let Some(cpus) = &self.cpus {
            affinity::set(ThreadRef::Current, cpus)?;
        }
        prefault_stack(self.prefault_bytes)?;
        if let Some(policy) = &self.policy {
            set_policy(ThreadRef::Current, policy)?;
        }
        Ok(current_tid())
    }
}

fn spawn_failed(name: &str, source: io::Error) -> Error {
    Error::SpawnFailed {
        name: name.to_owned(),
        source,
    }
}

/// What the new thread reports of its setup.
fn answer_of(answer: &Receiver<Result<Tid, Error>>, name: &str) -> Result<Tid, Error> {
    answer.recv().unwrap_or_else(|_| {
        Err(Error::ThreadPanicked {
            name: name.to_owned(),
            message: "before it was ready".to_owned(),
        })
    })
}

/// What came of a thread that has been joined.
fn outcome<T>(name: String, result: thread::Result<Option<T>>) -> Result<T, Error> {
    let message = match result {
        Ok(Some(value)) => return Ok(value),
        // A handle exists only if `f` ran.
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

/// A thread that runs, until it is joined. Dropping the handle lets it run on.
pub struct JoinHandle<T> {
    inner: thread::JoinHandle<Option<T>>,
    name: String,
    tid: Tid,
}

/// A thread that runs within a scope, until it is joined or the scope ends.
pub struct ScopedJoinHandle<'scope, T> {
    inner: thread::ScopedJoinHandle<'scope, Option<T>>,
    name: String,
    tid: Tid,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread ends, for what its function returns.
    ///
    /// # Errors
    /// [`Error::ThreadPanicked`] with the panic's message.
    pub fn join(self) -> Result<T, Error> {
        outcome(self.name, self.inner.join())
    }

    /// The thread's number in the kernel; free for another thread once this
    /// one has ended.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Whether its function has returned.
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// As [`JoinHandle::join`].
    ///
    /// # Errors
    /// [`Error::ThreadPanicked`] with the panic's message.
    pub fn join(self) -> Result<T, Error> {
        outcome(self.name, self.inner.join())
    }

    /// As [`JoinHandle::tid`].
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Whether its function has returned.
    pub fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

// Not derived: what a thread returns need not be Debug.
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
