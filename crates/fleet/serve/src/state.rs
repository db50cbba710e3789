//! The shared state of all requests.

use std::sync::Arc;

use punctual_model::WakeWindow;
use punctual_store::{Collection, Store, StoreError, Token};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use crate::gather::Gather;
use crate::listing::Listings;
use crate::newest::NewestRecordings;
use crate::problem::Problem;
use crate::refusals::Refusals;
use crate::strangers::Strangers;
use crate::workers::Workers;
use crate::worse::SeriesVerdicts;
use crate::{Config, SourceError};

/// The shared state of all requests.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) collection: Arc<dyn Collection>,
    /// Clients that were refused recently.
    pub(crate) refusals: Refusals,
    /// Machines that were refused because they use the token of another machine.
    pub(crate) strangers: Strangers,
    pub(crate) worse: Arc<SeriesVerdicts>,
    pub(crate) newest: Arc<NewestRecordings>,
    pub(crate) listings: Arc<Listings>,
    /// Permits for live views.
    pub(crate) streams: Arc<Semaphore>,
    /// Notifies long-running tasks that the server is about to end.
    pub(crate) ending: Notify,
    /// Memory that is still available for bodies, in KiB.
    pub(crate) room: Arc<Semaphore>,
    /// Token lookups by hash, combined for several requests.
    pub(crate) tokens: Arc<Gather<String, Option<Token>>>,
    /// Requests to store wake-up windows, combined. The answer is the number of new windows.
    pub(crate) windows: Arc<Gather<Vec<WakeWindow>, u64>>,
    workers: Workers,
}

/// Maximum number of live views, because each reads its recording repeatedly.
const STREAMS: usize = 32;
/// Maximum number of combined queries that run at the same time. They have separate threads, so
/// that pages and deliveries do not delay them.
const LOOK_UPS: usize = 2;

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    /// The file with samples and events of outliers, if there is one.
    pub(crate) fn stored(&self) -> Result<Option<Store>, SourceError> {
        let path = self.config.store.as_deref();
        Ok(path.map(Store::open_read_only).transpose()?)
    }
}

impl App {
    pub(crate) fn new(config: Config, collection: Arc<dyn Collection>, keepers: Handle) -> Self {
        let room = config.limits.in_flight >> 10;
        let workers = Workers::new(keepers);
        let worse = Arc::new(SeriesVerdicts::default());
        let newest = Arc::new(NewestRecordings::default());
        let listings = Listings::new(&collection, &workers, &worse, &newest, config.silent_after);
        Self(Arc::new(Inner {
            refusals: Refusals::default(),
            strangers: Strangers::default(),
            newest,
            listings,
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

    /// Runs `work` on a thread that may block on the disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = self.clone();
        self.workers.work(move || work(&app)).await
    }

    /// Runs `work`, which stores a delivery; see [`Workers::keep`].
    pub(crate) async fn keep<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = self.clone();
        self.workers.keep(move || work(&app)).await
    }

    /// Runs `work` on the collection, on a thread that may block on the disk.
    pub(crate) async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Collection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.work(|app| Ok(work(app.collection.as_ref())?)).await
    }
}

/// Returns the tokens of several requests.
fn tokens(collection: &dyn Collection, hashes: &[String]) -> Vec<Result<Option<Token>, Problem>> {
    match collection.tokens_of(hashes) {
        Ok(found) => {
            let of = |hash: &String| found.iter().find(|token| token.sha256 == *hash).cloned();
            hashes.iter().map(|hash| Ok(of(hash))).collect()
        }
        Err(error) => all_failed(Problem::from(error), hashes.len()),
    }
}

/// Stores the windows of several requests. If that fails, each request is retried separately, so
/// that invalid windows of one machine do not affect others.
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
