//! Threads for work that waits for the disk or draws.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use crate::problem::Problem;

/// Work at once, beside deliveries.
const AT_ONCE: usize = 8;

/// Threads for work that waits for the disk or draws.
#[derive(Clone)]
pub(crate) struct Workers {
    /// Work that is not a delivery: at most so much at once.
    at_once: Arc<Semaphore>,
    /// Threads that keep what is delivered, see [`Workers::keep`].
    keepers: Handle,
}

impl Workers {
    pub(crate) fn new(keepers: Handle) -> Self {
        Self {
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            keepers,
        }
    }

    /// The same with `at_once` of its own: other work does not delay what runs there.
    pub(crate) fn apart(&self, at_once: usize) -> Self {
        Self {
            at_once: Arc::new(Semaphore::new(at_once)),
            keepers: self.keepers.clone(),
        }
    }

    /// Runs `work` on a thread that may wait for the disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let one = Arc::clone(&self.at_once).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            // With the work: it goes on if the request is given up.
            let _one = one;
            work()
        });
        ended(done.await)
    }

    /// Runs `work`, which keeps a delivery, on one of few threads of lower priority: pages
    /// are not late because machines deliver. It runs even if the client goes away, so it
    /// owns what it needs.
    pub(crate) async fn keep<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        ended(self.keepers.spawn_blocking(work).await)
    }
}

/// What work came to; a panic is an answer, too.
fn ended<T>(done: Result<Result<T, Problem>, JoinError>) -> Result<T, Problem> {
    done.unwrap_or_else(|_| Err(Problem::fault()))
}
