//! The life of a set of measuring threads: started, made ready, let go
//! together, joined; the error of one ends them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_rt::{Clock, Instant, JoinHandle, ThreadBuilder};

use crate::{Control, Gate, Opening, ProbeError};

/// The clock of all starts.
const CLOCK: Clock = Clock::Monotonic;

/// Between the last thread's readiness and the common start.
const LEAD: Duration = Duration::from_millis(2);

/// The threads of one run; `T` is what each of them brings home.
pub(crate) struct Crew<T> {
    control: Arc<Control>,
    gate: Arc<Gate>,
    failed: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Option<T>, ProbeError>>>,
}

impl<T: Send + 'static> Crew<T> {
    /// One without threads yet.
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self {
            control: Arc::clone(control),
            gate: Arc::new(Gate::default()),
            failed: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        }
    }

    /// Starts a thread. It runs `ready`, waits until all are, and runs
    /// `measure` from the common start on.
    ///
    /// # Errors
    /// Why it could not be started; dropping the crew ends the others.
    pub(crate) fn spawn<S>(
        &mut self,
        builder: ThreadBuilder,
        ready: impl FnOnce(&Control) -> Result<S, ProbeError> + Send + 'static,
        measure: impl FnOnce(S, &Control, Instant) -> Result<T, ProbeError> + Send + 'static,
    ) -> Result<(), ProbeError> {
        let control = Arc::clone(&self.control);
        let gate = Arc::clone(&self.gate);
        let failed = Arc::clone(&self.failed);
        self.threads.push(builder.spawn(move || {
            let _entered = control.enter();
            let result = match ready(&control) {
                Ok(state) => match gate.wait() {
                    Opening::Start(start) => measure(state, &control, start).map(Some),
                    Opening::Cancelled => Ok(None),
                },
                Err(error) => Err(error),
            };
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
                control.stop();
            }
            result
        })?);
        Ok(())
    }

    /// Lets the threads go once all are ready; from then on they measure.
    pub(crate) fn go(&self) {
        let failed = || self.failed.load(Ordering::Relaxed);
        let ready = self.gate.await_waiting(self.threads.len(), failed);
        self.gate.open(if ready {
            Opening::Start(CLOCK.now() + LEAD)
        } else {
            Opening::Cancelled
        });
    }

    /// Whether all threads have ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for all of them, for what they bring, in the order they were
    /// started.
    ///
    /// # Errors
    /// That of a thread that failed.
    pub(crate) fn join(mut self) -> Result<Vec<T>, ProbeError> {
        let mut brought = Vec::with_capacity(self.threads.len());
        let mut error = None;
        for thread in std::mem::take(&mut self.threads) {
            match thread.join() {
                Ok(Ok(Some(one))) => brought.push(one),
                Ok(Ok(None)) => {}
                Ok(Err(failure)) => error = Some(failure),
                Err(panic) => error = Some(panic.into()),
            }
        }
        error.map_or(Ok(brought), Err)
    }
}

/// No thread is left waiting at the gate when one of them could not be
/// started.
impl<T> Drop for Crew<T> {
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
    fn all_start_together_and_come_home_in_order() {
        let mut crew = Crew::new(&Arc::new(Control::new()));
        for number in 0..3 {
            crew.spawn(
                ThreadBuilder::new("crew"),
                move |_| Ok(number),
                |number, _, start| Ok((number, start)),
            )
            .unwrap();
        }
        crew.go();
        let brought = crew.join().unwrap();
        assert_eq!(brought.iter().map(|b| b.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(brought.iter().all(|b| b.1 == brought[0].1));
    }

    #[test]
    fn the_error_of_one_ends_all() {
        let control = Arc::new(Control::new());
        let mut crew = Crew::new(&control);
        crew.spawn(
            ThreadBuilder::new("bad"),
            |_| Err::<(), _>(ProbeError::Unfit("no".to_owned())),
            |(), _, _| Ok(()),
        )
        .unwrap();
        crew.spawn(
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
        crew.go();
        assert!(crew.join().is_err());
        assert!(control.stopping());
    }

    #[test]
    fn a_crew_that_is_given_up_leaves_no_thread_behind() {
        let mut crew = Crew::<()>::new(&Arc::new(Control::new()));
        crew.spawn(ThreadBuilder::new("waits"), |_| Ok(()), |(), _, _| Ok(()))
            .unwrap();
        drop(crew);
    }
}
