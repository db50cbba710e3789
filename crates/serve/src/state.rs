//! What all requests share.

use std::sync::Arc;

use punctual_model::WakeWindow;
use punctual_store::{Collection, StoreError, Token};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinError;

use crate::Config;
use crate::gather::Gather;
use crate::guesses::Guesses;
use crate::listing::Listings;
use crate::missed::Missed;
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
    pub(crate) missed: Missed,
    pub(crate) listings: Listings,
    /// Live views.
    pub(crate) streams: Arc<Semaphore>,
    /// Says to what runs on its own that the server ends.
    pub(crate) ending: Notify,
    /// Room for bodies, in KiB.
    pub(crate) room: Arc<Semaphore>,
    /// Tokens that are looked for, by their hash.
    pub(crate) tokens: Gather<String, Option<Token>>,
    /// Windows of wake-ups that arrive; how many of each ask are new.
    pub(crate) windows: Gather<Vec<WakeWindow>, u64>,
    /// Work that waits for the store or draws: at most so much at once.
    hands: Semaphore,
    /// Threads that keep what is delivered, see [`App::keep`].
    keepers: Handle,
}

/// Live views at once: each reads its recording again and again.
const STREAMS: usize = 32;
/// Work at once, beside deliveries.
const HANDS: usize = 8;

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(config: Config, collection: Arc<dyn Collection>, keepers: Handle) -> Self {
        let room = config.limits.in_flight >> 10;
        Self(Arc::new(Inner {
            config,
            collection,
            guesses: Guesses::default(),
            worse: Worse::default(),
            missed: Missed::default(),
            listings: Listings::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            ending: Notify::new(),
            room: Arc::new(Semaphore::new(room)),
            tokens: Gather::new(|app| &app.tokens, tokens),
            windows: Gather::new(|app| &app.windows, windows),
            hands: Semaphore::new(HANDS),
            keepers,
        }))
    }

    /// Runs `work` on a thread that may wait for the disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let _hand = self.hands.acquire().await;
        let app = self.clone();
        ended(tokio::task::spawn_blocking(move || work(&app)).await)
    }

    /// Runs `work`, which keeps a delivery, on one of few threads of lower priority: pages
    /// are not late because machines deliver. It runs even if the client goes away, so it
    /// owns what it needs.
    pub(crate) async fn keep<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = self.clone();
        ended(self.keepers.spawn_blocking(move || work(&app)).await)
    }

    /// Runs `work` on the collection, on a thread that may wait for the disk.
    pub(crate) async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Collection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.work(|app| Ok(work(app.collection.as_ref())?)).await
    }
}

/// What work came to; a panic is an answer, too.
fn ended<T>(done: Result<Result<T, Problem>, JoinError>) -> Result<T, Problem> {
    done.unwrap_or_else(|_| {
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        Err(Problem::new(
            status,
            "this request failed: a fault of punctual",
        ))
    })
}

/// The tokens of several requests.
fn tokens(app: &Inner, hashes: &[String]) -> Vec<Result<Option<Token>, Problem>> {
    match app.collection.tokens_of(hashes) {
        Ok(found) => {
            let of = |hash: &String| found.iter().find(|token| token.sha256 == *hash).cloned();
            hashes.iter().map(|hash| Ok(of(hash))).collect()
        }
        Err(error) => all_failed(Problem::from(error), hashes.len()),
    }
}

/// Keeps the windows of several requests. Where that fails each is tried alone: the windows
/// of one machine are no reason to refuse those of others.
fn windows(app: &Inner, asked: &[Vec<WakeWindow>]) -> Vec<Result<u64, Problem>> {
    let all = app.collection.as_ref();
    match all.add_windows_of(asked) {
        Ok(new) => new.into_iter().map(Ok).collect(),
        Err(error) if asked.len() == 1 => vec![Err(error.into())],
        Err(_) => (asked.iter())
            .map(|windows| Ok(all.add_windows(windows)?))
            .collect(),
    }
}

fn all_failed<T>(problem: Problem, count: usize) -> Vec<Result<T, Problem>> {
    (0..count).map(|_| Err(problem.clone())).collect()
}
