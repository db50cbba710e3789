//! Serves the wake-ups of this machine as metrics, while they are counted.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use punctual_model::{WakeupAxis, Wakeups};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use crate::ServeError;
use crate::metrics::{answer, wakeups};

/// Maximum number of simultaneous connections. Others wait.
const CONNECTIONS: usize = 16;
/// Time limit for a connection: Prometheus itself gives up after 10 s by default.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause after a connection could not be accepted.
const NO_ACCEPT: Duration = Duration::from_millis(100);

/// The latest counts, and the axes to group them by.
type Latest = Arc<RwLock<Option<(Wakeups, Vec<WakeupAxis>)>>>;

/// A server of metrics. Dropping this value stops it.
#[derive(Debug)]
pub struct Scrape {
    /// The address that the server listens on.
    pub address: SocketAddr,
    latest: Latest,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrape {
    /// Starts the server, which answers to `GET /metrics`. Anyone who can reach the address can read
    /// the metrics.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used, or if the runtime cannot be started.
    pub fn start(address: SocketAddr) -> Result<Self, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServeError::Runtime)?;
        let listen = |source| ServeError::Listen { address, source };
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let latest = Latest::default();
        let router = Router::new()
            .route("/metrics", get(metrics))
            .with_state(Arc::clone(&latest));
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, router) => {}
                    // An error means that the sender was dropped, so end as well.
                    _ = ended => {}
                }
            });
        });
        Ok(Self {
            address,
            latest,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Sets the counts that are served from now on.
    pub fn publish(&self, seen: &Wakeups, axes: &[WakeupAxis]) {
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        *latest = Some((seen.clone(), axes.to_vec()));
    }
}

impl Drop for Scrape {
    fn drop(&mut self) {
        // If it has already ended, there is nothing to do.
        self.end.take().map(|end| end.send(()));
        self.thread.take().map(JoinHandle::join);
    }
}

async fn metrics(State(latest): State<Latest>, headers: HeaderMap) -> Response {
    let latest = latest.read().unwrap_or_else(PoisonError::into_inner);
    match &*latest {
        Some((seen, axes)) => answer(&headers, &wakeups::families(seen, axes)),
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            "nothing has been counted yet\n",
        )
            .into_response(),
    }
}

async fn serve(listener: TcpListener, router: Router) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(seat) = Arc::clone(&seats).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(NO_ACCEPT).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            let _seat = seat;
            // A client that is slow or disconnects is not an error.
            let _ = tokio::time::timeout(PATIENCE, connection(stream, router)).await;
        });
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let _ = stream.set_nodelay(true);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).keep_alive(false);
    let service = TowerToHyperService::new(router);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
