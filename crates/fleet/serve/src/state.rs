//! What all requests share.

use std::sync::Arc;

use punctual_model::WakeWindow;
use punctual_store::{Collection, StoreError, Token};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use crate::Config;
use crate::gather::Gather;
use crate::listing::Listings;
use crate::problem::Problem;
use crate::refusals::Refusals;
use crate::strangers::Strangers;
use crate::workers::Workers;
use crate::worse::Worse;

/// What all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) collection: Arc<dyn Collection>,
    /// Clients that were refused lately.
    pub(crate) refusals: Refusals,
    /// Machines that were refused because they use the token of another.
    pub(crate) strangers: Strangers,
    pub(crate) worse: Arc<Worse>,
    pub(crate) listings: Arc<Listings>,
    /// Live views.
    pub(crate) streams: Arc<Semaphore>,
    /// Says to what runs on its own that the server ends.
    pub(crate) ending: Notify,
    /// Room for bodies, in KiB.
    pub(crate) room: Arc<Semaphore>,
    /// Tokens that are looked for, by their hash.
    pub(crate) tokens: Arc<Gather<String, Option<Token>>>,
    /// Windows of wake-ups that arrive; how many of each ask are new.
    pub(crate) windows: Arc<Gather<Vec<WakeWindow>, u64>>,
    workers: Workers,
}

/// Live views at once: each reads its recording again and again.
const STREAMS: usize = 32;
/// Questions at once that are gathered from many requests: neither pages nor deliveries
/// delay them.
const LOOK_UPS: usize = 2;

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(config: Config, collection: Arc<dyn Collection>, keepers: Handle) -> Self {
        let room = config.limits.in_flight >> 10;
        let workers = Workers::new(keepers);
        let worse = Arc::new(Worse::default());
        Self(Arc::new(Inner {
            refusals: Refusals::default(),
            strangers: Strangers::default(),
            listings: Listings::new(&collection, &workers, &worse, config.silent_after),
            worse,
            streams: Arc::new(Semaphore::new(STREAMS)),
            ending: Notify::new(),
            room: Arc::new(Semaphore::new(room)),
            tokens: Gather::new(&collection, &workers.apart(LOOK_UPS), tokens),
            windows: Gather::new(&collection, &workers.apart(LOOK_UPS), windows),
            workers,
            collection,
            config,
        }))
    }

    /// Runs `work` on a thread that may wait for the disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = self.clone();
        self.workers.work(move || work(&app)).await
    }

    /// Runs `work`, which keeps a delivery, see [`Workers::keep`].
    pub(crate) async fn keep<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = self.clone();
        self.workers.keep(move || work(&app)).await
    }

    /// Runs `work` on the collection, on a thread that may wait for the disk.
    pub(crate) async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Collection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.work(|app| Ok(work(app.collection.as_ref())?)).await
    }
}

/// The tokens of several requests.
fn tokens(collection: &dyn Collection, hashes: &[String]) -> Vec<Result<Option<Token>, Problem>> {
    match collection.tokens_of(hashes) {
        Ok(found) => {
            let of = |hash: &String| found.iter().find(|token| token.sha256 == *hash).cloned();
            hashes.iter().map(|hash| Ok(of(hash))).collect()
        }
        Err(error) => all_failed(Problem::from(error), hashes.len()),
    }
}

/// Keeps the windows of several requests. Where that fails each is tried alone: the windows
/// of one machine are no reason to refuse those of others.
fn windows(collection: &dyn Collection, asked: &[Vec<WakeWindow>]) -> Vec<Result<u64, Problem>> {
    match collection.add_windows_of(asked) {
        Ok(new) => new.into_iter().map(Ok).collect(),
        Err(error) if asked.len() == 1 => vec![Err(error.into())],
        Err(_) => (asked.iter())
            .map(|windows| Ok(collection.add_windows(windows)?))
            .collect(),
    }
}

fn all_failed<T>(problem: Problem, count: usize) -> Vec<Result<T, Problem>> {
    (0..count).map(|_| Err(problem.clone())).collect()
}
