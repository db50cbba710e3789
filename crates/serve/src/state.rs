//! What all requests share.

use std::sync::Arc;

use punctual_store::{Collection, StoreError};
use tokio::sync::{Notify, Semaphore};

use crate::Config;
use crate::guesses::Guesses;
use crate::problem::Problem;
use crate::worse::Worse;

/// What all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) collection: Arc<dyn Collection>,
    pub(crate) guesses: Guesses,
    pub(crate) worse: Worse,
    /// Live views.
    pub(crate) streams: Arc<Semaphore>,
    /// Says to what runs on its own that the server ends.
    pub(crate) ending: Notify,
    /// Room for bodies, in KiB.
    pub(crate) room: Arc<Semaphore>,
    /// Work that waits for the store or draws: at most so much at once.
    hands: Semaphore,
}

/// Work at once: a few more than connections to the store are kept open.
const HANDS: usize = 8;

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(config: Config, collection: Arc<dyn Collection>) -> Self {
        let room = config.limits.in_flight >> 10;
        Self(Arc::new(Inner {
            config,
            collection,
            guesses: Guesses::default(),
            worse: Worse::default(),
            streams: Arc::new(Semaphore::new(crate::live::STREAMS)),
            ending: Notify::new(),
            room: Arc::new(Semaphore::new(room)),
            hands: Semaphore::new(HANDS),
        }))
    }

    /// Runs `work` on a thread that may wait for the disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let _hand = self.hands.acquire().await;
        let app = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&app)).await;
        done.unwrap_or_else(|_| {
            let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            Err(Problem::new(
                status,
                "this request failed: a fault of punctual",
            ))
        })
    }

    /// Runs `work` on the collection, on a thread that may wait for the disk.
    pub(crate) async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Collection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.work(|app| Ok(work(app.collection.as_ref())?)).await
    }
}
