//! The server: listens, answers, and ends on request.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use punctual_store::Collection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::seats::{Seat, Seats};
use crate::state::App;
use crate::{Config, ServeError, follow, routes, tls};

/// Maximum time for pending requests after the server is asked to end.
const DRAIN: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted, for example because no file descriptor was free.
const NO_ACCEPT: Duration = Duration::from_millis(100);
/// Number of threads for responses. Blocking work has other threads.
const WORKERS: usize = 2;
/// Number of threads that store deliveries. At least two, so that one can compute while another
/// waits for the disk. At most eight, to stay within the default connection limit of a database.
const KEEPERS: (usize, usize) = (2, 8);
/// By how much the nice value of these threads is raised, which lowers their priority to that of a
/// background task. A recording takes milliseconds of CPU time, and pages should not have to wait
/// for it.
const NICER: i32 = 5;

/// A server that runs on separate threads.
#[derive(Debug)]
pub struct Running {
    /// The address that the server listens on.
    pub address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Stops the server: accepts no further connections, and waits for the active ones to end.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(end) = self.end.take() {
            // If it has already ended, there is nothing to do.
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a server that runs until it is stopped.
///
/// # Errors
/// See [`ServeError`].
pub fn start(config: Config, collection: Arc<dyn Collection>) -> Result<Running, ServeError> {
    let prepared = prepare(&config)?;
    let address = local_address(&prepared.listener, &config)?;
    let (end, ended) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        serve_until(prepared, config, collection, async {
            // An error means that the sender was dropped, so end as well.
            let _ = ended.await;
        });
    });
    Ok(Running {
        address,
        end: Some(end),
        thread: Some(thread),
    })
}

/// Serves until SIGTERM or SIGINT. Calls `listening` with the address.
///
/// # Errors
/// See [`ServeError`].
pub fn run(
    config: Config,
    collection: Arc<dyn Collection>,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let prepared = prepare(&config)?;
    let address = local_address(&prepared.listener, &config)?;
    let (mut term, mut int) = {
        let _inside = prepared.runtime.enter();
        let on = |kind| signal(kind).map_err(ServeError::Runtime);
        (on(SignalKind::terminate())?, on(SignalKind::interrupt())?)
    };
    listening(address);
    serve_until(prepared, config, collection, async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    });
    Ok(())
}

/// Serves until `ended`, then ends all threads. The collection is dropped after the threads,
/// because a task must not drop a PostgreSQL client.
fn serve_until(
    prepared: Prepared,
    config: Config,
    collection: Arc<dyn Collection>,
    ended: impl Future<Output = ()>,
) {
    let Prepared {
        runtime,
        keepers,
        listener,
        acceptor,
    } = prepared;
    let kept = Arc::clone(&collection);
    let app = App::new(config, collection, keepers.handle().clone());
    runtime.block_on(serve(app, listener, acceptor, ended));
    runtime.shutdown_timeout(DRAIN);
    keepers.shutdown_timeout(DRAIN);
    drop(kept);
}

/// Everything that is set up before the first connection is accepted.
struct Prepared {
    runtime: Runtime,
    /// A runtime that is used only for its blocking threads.
    keepers: Runtime,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
}

fn prepare(config: &Config) -> Result<Prepared, ServeError> {
    config.check()?;
    let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("punctual-serve")
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let keepers = Builder::new_current_thread()
        .max_blocking_threads(cpus.clamp(KEEPERS.0, KEEPERS.1))
        .thread_name("punctual-keep")
        .on_thread_start(|| {
            // This applies only to the current thread (setpriority(2)). If it fails, deliveries
            // have the same priority as pages.
            let _ = rustix::process::nice(NICER);
        })
        .build()
        .map_err(ServeError::Runtime)?;
    let listen = |source| ServeError::Listen {
        address: config.listen,
        source,
    };
    let listener = runtime
        .block_on(TcpListener::bind(config.listen))
        .map_err(listen)?;
    Ok(Prepared {
        runtime,
        keepers,
        listener,
        acceptor,
    })
}

fn local_address(listener: &TcpListener, config: &Config) -> Result<SocketAddr, ServeError> {
    listener.local_addr().map_err(|source| ServeError::Listen {
        address: config.listen,
        source,
    })
}

async fn serve(
    app: App,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    ended: impl Future<Output = ()>,
) {
    let patience = app.config.limits.patience;
    let seats = Seats::new(&app.config.limits, &app.config.proxies);
    let router = routes::router(&app);
    let follow = tokio::spawn(follow::follow(app.clone()));
    let graceful = GracefulShutdown::new();
    let mut ended = std::pin::pin!(ended);
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(_) => {
                    tokio::time::sleep(NO_ACCEPT).await;
                    continue;
                }
            },
            () = &mut ended => break,
        };
        let Ok(seat) = seats.take(from.ip()) else {
            app.refusals.log("too many connections", from.ip());
            continue;
        };
        let seat = Arc::new(seat);
        let visit = Visit {
            from,
            seat: Arc::clone(&seat),
            patience,
            router: router.clone(),
            watcher: graceful.watcher(),
            app: app.clone(),
        };
        let (app, acceptor) = (app.clone(), acceptor.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection(stream, acceptor, visit) => {}
                () = seat.has_to_leave() => {
                    let reason = "connection closed, because it sent no token and other \
                        connections are waiting";
                    app.refusals.log(reason, from.ip());
                }
            }
        });
    }
    drop(listener);
    follow.abort();
    app.streams.close();
    app.ending.notify_waiters();
    // Connections that take longer are cut off.
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
}

/// A client's connection, and the state to answer it.
struct Visit {
    from: SocketAddr,
    seat: Arc<Seat>,
    patience: Duration,
    router: Router,
    watcher: Watcher,
    app: App,
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, visit: Visit) {
    // Responses are written in one piece, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    match acceptor {
        None => talk(stream, visit).await,
        Some(acceptor) => {
            let accepted = tokio::time::timeout(visit.patience, acceptor.accept(stream)).await;
            match accepted {
                Ok(Ok(stream)) => talk(stream, visit).await,
                // The client does not use TLS correctly. This is not logged.
                Ok(Err(_)) => {}
                Err(_) => (visit.app.refusals).log("no TLS handshake in time", visit.from.ip()),
            }
        }
    }
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, visit: Visit) {
    let Visit {
        from,
        seat,
        patience,
        router,
        watcher,
        app,
    } = visit;
    let asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&asked);
    // There are already timeouts for the head, the body and the whole request. There is no timeout
    // for each read, because the client of a live view sends nothing.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(patience));
    let service = tower::ServiceBuilder::new()
        .map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
            asks.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(ConnectInfo(from));
            request.extensions_mut().insert(Arc::clone(&seat));
            request
        })
        .service(router);
    let service = TowerToHyperService::new(service);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience);
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
    // A client that disconnects, or sends no further request, is not an error.
    if let Err(error) = watcher.watch(connection).await {
        match error.is_timeout() {
            true if !asked.load(Ordering::Relaxed) => {
                app.refusals.log("no request in time", from.ip());
            }
            _ if is_slow(&error) => app
                .refusals
                .log("a client did not read a response in time", from.ip()),
            _ => {}
        }
    }
}

/// Whether a write to the client took too long.
fn is_slow(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
}
