//! Serves the wake-ups of this machine as metrics, while they are counted.
//!
//! One page for one kind of client needs neither a web framework nor an asynchronous runtime: each
//! request gets a thread for its short life, and each connection ends with its response.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual_model::{WakeupAxis, Wakeups};
use rustix::net::Shutdown;

use crate::{encode, wakeups};

/// Maximum number of simultaneous connections. Others wait.
const CONNECTIONS: usize = 16;
/// Time limit for a connection: Prometheus itself gives up after 10 s by default.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause after a connection could not be accepted.
const NO_ACCEPT: Duration = Duration::from_millis(100);
/// Maximum size of the head of a request, in bytes, and maximum number of its headers.
const LONGEST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 100;

/// Errors from starting the server.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ScrapeError {
    /// The address.
    pub address: SocketAddr,
    /// The error of the system.
    pub source: io::Error,
}

/// The latest counts, and the axes to group them by.
type Latest = Arc<RwLock<Option<(Wakeups, Vec<WakeupAxis>)>>>;

/// A server of metrics. Dropping this value stops it.
#[derive(Debug)]
pub struct Scrape {
    /// The address that the server listens on.
    pub address: SocketAddr,
    latest: Latest,
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
}

impl Scrape {
    /// Starts the server, which answers to `GET /metrics`. Anyone who can reach the address can read
    /// the metrics.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub fn start(address: SocketAddr) -> Result<Self, ScrapeError> {
        let failed = |source| ScrapeError { address, source };
        let listener = Arc::new(TcpListener::bind(address).map_err(failed)?);
        let address = listener.local_addr().map_err(failed)?;
        let latest = Latest::default();
        let thread = {
            let (listener, latest) = (Arc::clone(&listener), Arc::clone(&latest));
            std::thread::spawn(move || serve(&listener, &latest))
        };
        Ok(Self {
            address,
            latest,
            listener,
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
        // Ends the pending accept(2). Connections end with their response.
        if rustix::net::shutdown(&self.listener, Shutdown::Read).is_ok() {
            self.thread.take().map(JoinHandle::join);
        }
    }
}

/// Number of open connections.
#[derive(Debug, Default)]
struct Seats {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Seats {
    /// Waits for a free seat and takes it.
    fn take(self: &Arc<Self>) -> Seat {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_while(taken, |taken| *taken >= CONNECTIONS);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        Seat(Arc::clone(self))
    }
}

/// The place of a connection.
struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

fn serve(listener: &TcpListener, latest: &Latest) {
    let seats = Arc::<Seats>::default();
    loop {
        let seat = seats.take();
        match listener.accept() {
            Ok((stream, _)) => {
                let latest = Arc::clone(latest);
                // If there is no memory for a thread, the client tries again later.
                let _ = std::thread::Builder::new().spawn(move || {
                    let _seat = seat;
                    // A client that is slow or disconnects is not an error.
                    let _ = respond(&mut Connection::new(stream), &latest);
                });
            }
            // The listener was shut down: see accept(2).
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            Err(_) => std::thread::sleep(NO_ACCEPT),
        }
    }
}

/// A connection whose operations all end at the same time.
struct Connection {
    stream: TcpStream,
    end: Instant,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        let end = Instant::now() + PATIENCE;
        Self { stream, end }
    }

    /// Returns the time that is left.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A request.
#[derive(Debug, PartialEq)]
struct Request {
    method: String,
    path: String,
    accept: Option<String>,
}

/// A response.
struct Response {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Response {
    fn text(status: &'static str, text: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: text.as_bytes().to_vec(),
        }
    }
}

fn respond(connection: &mut Connection, latest: &Latest) -> io::Result<()> {
    let request = read_head(connection)?;
    let response = match &request {
        Some(request) => answer(request, latest),
        None => Response::text("400 Bad Request", "this is not a request of HTTP/1\n"),
    };
    let Response { status, kind, body } = response;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes())?;
    if request.is_none_or(|request| request.method != "HEAD") {
        connection.write_all(&body)?;
    }
    connection.flush()
}

/// Reads the head of a request; `None` if it is not one. The body, which a request for metrics does
/// not have, is left.
fn read_head(from: &mut impl Read) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let mut piece = [0; 1 << 10];
    while head.len() < LONGEST_HEAD {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&piece[..count]);
        match parsed(&head) {
            Ok(None) => {}
            Ok(found) => return Ok(found),
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Parses the head of a request; `None` if it is incomplete.
fn parsed(head: &[u8]) -> Result<Option<Request>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(head)?.is_partial() {
        return Ok(None);
    }
    let accept = (request.headers.iter()).find(|one| one.name.eq_ignore_ascii_case("accept"));
    let target = request.path.unwrap_or_default();
    Ok(Some(Request {
        method: request.method.unwrap_or_default().to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        accept: accept.map(|one| String::from_utf8_lossy(one.value).into_owned()),
    }))
}

fn answer(request: &Request, latest: &Latest) -> Response {
    if request.path != "/metrics" {
        return Response::text("404 Not Found", "the metrics are at /metrics\n");
    }
    if !matches!(&*request.method, "GET" | "HEAD") {
        return Response::text("405 Method Not Allowed", "only GET and HEAD are allowed\n");
    }
    let latest = latest.read().unwrap_or_else(PoisonError::into_inner);
    match &*latest {
        Some((seen, axes)) => {
            let families = wakeups::families(seen, axes);
            let (kind, body) = encode(request.accept.as_deref(), &families);
            Response {
                status: "200 OK",
                kind,
                body,
            }
        }
        None => Response::text("503 Service Unavailable", "nothing has been counted yet\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Nanos, WakeupSource};

    fn start() -> Scrape {
        Scrape::start("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    /// Returns the response to these bytes.
    fn sent(scrape: &Scrape, request: &str) -> String {
        let mut stream = TcpStream::connect(scrape.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
    }

    fn counts() -> Wakeups {
        Wakeups {
            source: WakeupSource::Bpf,
            not_bpf: None,
            elapsed_ns: Nanos(1),
            rows: Vec::new(),
            longest: Vec::new(),
            open: Vec::new(),
            lost: 2,
            unnamed: 0,
            events_lost: 3,
        }
    }

    #[test]
    fn latest_counts_are_served_at_one_path() {
        let scrape = start();
        let early = sent(&scrape, &get("/metrics"));
        assert!(early.starts_with("HTTP/1.1 503 "), "{early}");
        scrape.publish(&counts(), &[WakeupAxis::Cpu]);
        let answer = sent(&scrape, &get("/metrics?from=here"));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: text/plain; version=0.0.4"));
        assert!(
            answer.contains("\npunctual_wakeups_lost_total{} 5\n"),
            "{answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
        let without_body = sent(&scrape, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(
            without_body.starts_with("HTTP/1.1 200 OK\r\n"),
            "{without_body}"
        );
        assert!(without_body.ends_with("\r\n\r\n"), "{without_body}");
        for (request, status) in [
            (get("/"), 404),
            ("POST /metrics HTTP/1.1\r\n\r\n".to_owned(), 405),
            ("\u{1}\u{2}\r\n\r\n".to_owned(), 400),
            ("GET /metrics FTP/1\r\n\r\n".to_owned(), 400),
        ] {
            let answer = sent(&scrape, &request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {answer}"
            );
        }
    }

    #[test]
    fn silent_clients_do_not_keep_others_from_reading() {
        let scrape = start();
        let silent = (1..CONNECTIONS).map(|_| TcpStream::connect(scrape.address).unwrap());
        let _silent: Vec<TcpStream> = silent.collect();
        assert!(sent(&scrape, &get("/metrics")).starts_with("HTTP/1.1 503 "));
    }

    #[test]
    fn endless_head_is_refused() {
        let mut endless = io::repeat(b'a');
        assert_eq!(read_head(&mut endless).unwrap(), None);
        let mut cut = &b"GET /metrics HTTP/1.1\r\n"[..];
        assert!(read_head(&mut cut).is_err());
    }

    #[test]
    fn address_is_free_after_the_end() {
        let scrape = start();
        let address = scrape.address;
        drop(scrape);
        TcpListener::bind(address).unwrap();
    }
}
