//! Manages a set of measuring threads: starts and prepares them, releases them together, watches
//! and joins them. An error in one thread ends all of them.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use punctual_rt::{Clock, Instant, JoinHandle, ThreadBuilder, Tid};

use crate::{Control, Gate, Opening, ProbeError};

/// The clock of all starts.
const CLOCK: Clock = Clock::Monotonic;

/// Time from the moment when the last thread is ready to the common start.
const LEAD: Duration = Duration::from_millis(2);

/// Interval at which the threads are checked. It is long, because the checks run on the measured
/// machine.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The threads of one run. `T` is the type of the result of each thread.
pub(crate) struct ThreadGroup<T> {
    control: Arc<Control>,
    gate: Arc<Gate>,
    failed: Arc<AtomicBool>,
    /// Each thread keeps a clone until it ends.
    alive: Option<Sender<Infallible>>,
    ends: Receiver<Infallible>,
    threads: Vec<JoinHandle<Result<Option<T>, ProbeError>>>,
}

/// A thread's view of its group.
pub(crate) struct Member {
    control: Arc<Control>,
    gate: Arc<Gate>,
    failed: Arc<AtomicBool>,
    _alive: Option<Sender<Infallible>>,
}

impl Member {
    /// Returns the control of the run.
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Waits until all are ready, for the common start; `None` if the run is cancelled.
    pub(crate) fn begin(&self) -> Option<Instant> {
        match self.gate.wait() {
            Opening::Start(start) => Some(start),
            Opening::Cancelled => None,
        }
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
        self.control.stop();
    }
}

/// The other threads do not wait for one that has panicked.
impl Drop for Member {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}

impl<T: Send + 'static> ThreadGroup<T> {
    /// Creates a group without threads.
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        let (alive, ends) = channel();
        Self {
            control: Arc::clone(control),
            gate: Arc::new(Gate::default()),
            failed: Arc::new(AtomicBool::new(false)),
            alive: Some(alive),
            ends,
            threads: Vec::new(),
        }
    }

    /// Starts a thread. The thread runs `ready`, waits until all threads are ready, and then runs
    /// `measure` from the common start on.
    ///
    /// # Errors
    /// Returns an error if the thread could not be started. Dropping the group then ends the other
    /// threads.
    pub(crate) fn spawn<S>(
        &mut self,
        builder: ThreadBuilder,
        ready: impl FnOnce(&Control) -> Result<S, ProbeError> + Send + 'static,
        measure: impl FnOnce(S, &Control, Instant) -> Result<T, ProbeError> + Send + 'static,
    ) -> Result<(), ProbeError> {
        self.spawn_member(builder, |member| {
            let state = ready(member.control())?;
            let start = member.begin();
            start
                .map(|start| measure(state, member.control(), start))
                .transpose()
        })
    }

    /// Starts a thread with a single function. This is for cases in which the prepared state cannot
    /// be moved from one function to another. The function must call [`Member::begin`] once, when
    /// it is ready.
    ///
    /// # Errors
    /// The errors of [`spawn`](Self::spawn).
    pub(crate) fn spawn_member(
        &mut self,
        builder: ThreadBuilder,
        life: impl FnOnce(&Member) -> Result<Option<T>, ProbeError> + Send + 'static,
    ) -> Result<(), ProbeError> {
        let member = Member {
            control: Arc::clone(&self.control),
            gate: Arc::clone(&self.gate),
            failed: Arc::clone(&self.failed),
            _alive: self.alive.clone(),
        };
        self.threads.push(builder.spawn(move || {
            let _entered = member.control.enter();
            let result = life(&member);
            if result.is_err() {
                member.fail();
            }
            result
        })?);
        Ok(())
    }

    /// Returns the thread IDs, in the order of their start.
    pub(crate) fn tids(&self) -> Vec<Tid> {
        self.threads.iter().map(JoinHandle::tid).collect()
    }

    /// Releases the threads once all are ready. From then on, they measure.
    pub(crate) fn go(&self) {
        self.open(if self.ready() {
            Opening::Start(CLOCK.now() + LEAD)
        } else {
            Opening::Cancelled
        });
    }

    /// Waits until all threads are ready. Returns false if one of them failed.
    pub(crate) fn ready(&self) -> bool {
        let failed = || self.failed.load(Ordering::Relaxed);
        self.gate.await_waiting(self.threads.len(), failed)
    }

    /// Releases the threads, or makes them end.
    pub(crate) fn open(&self, opening: Opening) {
        self.gate.open(opening);
    }

    /// Returns once all threads have ended. Until then, calls `look` at intervals of `every`. Also
    /// repeats a stop, because the first one may have come just before a thread went to sleep.
    pub(crate) fn attend(&mut self, every: Duration, mut look: impl FnMut()) {
        self.alive = None;
        while let Err(RecvTimeoutError::Timeout) = self.ends.recv_timeout(every) {
            if self.control.stopping() {
                self.control.stop();
            }
            look();
        }
    }

    /// Waits for all threads and returns their results, in the order of their start.
    ///
    /// # Errors
    /// The error of the first thread, in that order, that failed.
    pub(crate) fn join(mut self) -> Result<Vec<T>, ProbeError> {
        self.attend(LOOK_EVERY, || ());
        let mut brought = Vec::with_capacity(self.threads.len());
        let mut error = None;
        for thread in std::mem::take(&mut self.threads) {
            match thread.join() {
                Ok(Ok(one)) => brought.extend(one),
                Ok(Err(failure)) => _ = error.get_or_insert(failure),
                Err(panic) => _ = error.get_or_insert(panic.into()),
            }
        }
        error.map_or(Ok(brought), Err)
    }
}

/// No thread is left waiting at the gate if one of them could not be started.
impl<T> Drop for ThreadGroup<T> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.gate.open(Opening::Cancelled);
            for thread in std::mem::take(&mut self.threads) {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_start_together_and_return_in_order() {
        let mut group = ThreadGroup::new(&Arc::new(Control::new()));
        for number in 0..3 {
            group
                .spawn(
                    ThreadBuilder::new("group"),
                    move |_| Ok(number),
                    |number, _, start| Ok((number, start)),
                )
                .unwrap();
        }
        assert_eq!(group.tids().len(), 3);
        group.go();
        let brought = group.join().unwrap();
        assert_eq!(brought.iter().map(|b| b.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(brought.iter().all(|b| b.1 == brought[0].1));
    }

    #[test]
    fn the_error_of_one_ends_all() {
        let control = Arc::new(Control::new());
        let mut group = ThreadGroup::new(&control);
        group
            .spawn(
                ThreadBuilder::new("bad"),
                |_| Err::<(), _>(ProbeError::Unfit("no".to_owned())),
                |(), _, _| Ok(()),
            )
            .unwrap();
        group
            .spawn(
                ThreadBuilder::new("good"),
                |_| Ok(()),
                |(), control, _| {
                    while !control.stopping() {
                        std::thread::yield_now();
                    }
                    Ok(())
                },
            )
            .unwrap();
        group.go();
        assert!(group.join().is_err());
        assert!(control.stopping());
    }

    #[test]
    fn the_panic_of_one_ends_all() {
        punctual_rt::interrupt::install_interrupt_handler().unwrap();
        let mut group = ThreadGroup::new(&Arc::new(Control::new()));
        group
            .spawn(
                ThreadBuilder::new("bad"),
                |_| Ok(()),
                |(), _, _| panic!("on purpose"),
            )
            .unwrap();
        group
            .spawn(ThreadBuilder::new("good"), |_| Ok(()), sleep_until_stopped)
            .unwrap();
        group.go();
        assert!(group.join().is_err());
    }

    fn sleep_until_stopped((): (), control: &Control, _: Instant) -> Result<u32, ProbeError> {
        let semaphore = punctual_rt::Semaphore::new(0)?;
        let mut sleeps = 0;
        while !control.stopping() || sleeps < 3 {
            semaphore.wait()?;
            sleeps += 1;
        }
        Ok(sleeps)
    }

    #[test]
    fn stop_repeats_until_threads_are_gone() {
        punctual_rt::interrupt::install_interrupt_handler().unwrap();
        let control = Arc::new(Control::new());
        let mut group = ThreadGroup::new(&control);
        group
            .spawn(
                ThreadBuilder::new("sleeps"),
                |_| Ok(()),
                sleep_until_stopped,
            )
            .unwrap();
        group.go();
        control.stop();
        let mut looked = 0;
        group.attend(Duration::from_millis(5), || looked += 1);
        // Each stop ends only one sleep, so a single stop would not suffice.
        assert!(group.join().unwrap()[0] >= 3);
        assert!(looked >= 2);
    }

    #[test]
    fn abandoned_group_leaves_no_thread() {
        let mut group = ThreadGroup::<()>::new(&Arc::new(Control::new()));
        group
            .spawn(ThreadBuilder::new("waits"), |_| Ok(()), |(), _, _| Ok(()))
            .unwrap();
        drop(group);
    }
}
