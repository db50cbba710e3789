//! Threads for work that blocks on the disk or draws plots.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use crate::problem::Problem;

/// Maximum number of concurrent jobs other than deliveries.
const AT_ONCE: usize = 8;

/// Threads for work that blocks on the disk or draws plots.
#[derive(Clone)]
pub(crate) struct Workers {
    /// Permits for work other than deliveries.
    at_once: Arc<Semaphore>,
    /// Threads that store deliveries; see [`Workers::keep`].
    keepers: Handle,
}

impl Workers {
    pub(crate) fn new(keepers: Handle) -> Self {
        Self {
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            keepers,
        }
    }

    /// Returns the same threads with separate permits, so that other work does not delay this work.
    pub(crate) fn apart(&self, at_once: usize) -> Self {
        Self {
            at_once: Arc::new(Semaphore::new(at_once)),
            keepers: self.keepers.clone(),
        }
    }

    /// Runs `work` on a thread that may block on the disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let one = Arc::clone(&self.at_once).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            // Hold the permit in the closure, because the work continues even if the request is
            // aborted.
            let _one = one;
            work()
        });
        ended(done.await)
    }

    /// Runs `work`, which stores a delivery, on one of a few threads with lower priority, so that
    /// deliveries do not delay pages. It continues if the client disconnects, so it must own its
    /// data.
    pub(crate) async fn keep<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        ended(self.keepers.spawn_blocking(work).await)
    }
}

/// Returns the result of work, or a problem if it panicked.
fn ended<T>(done: Result<Result<T, Problem>, JoinError>) -> Result<T, Problem> {
    done.unwrap_or_else(|_| Err(Problem::fault()))
}
