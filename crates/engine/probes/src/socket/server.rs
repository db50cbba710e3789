//! The other end of the `socket` probe: a server that answers its messages.
//!
//! This code serves both on the loopback interface, in the measuring process, and on another
//! machine (`punctual measure socket --serve`). It answers only messages of this program. Each has
//! [`MESSAGE_BYTES`] bytes, and so does the reply. Over TCP, a message is answered once all its
//! bytes have arrived, and over UDP, only if they arrive as one datagram. Everything else is
//! dropped.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_rt::{Error, JoinHandle, Policy, ThreadBuilder};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

pub use super::message::MESSAGE_BYTES;
use super::message::answer;

/// Interval at which a waiting thread checks whether it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A connection that is idle for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// The maximum number of connections at a time. Further ones are closed immediately.
const CONNECTIONS: usize = 64;

/// The maximum number of ports that are tried until one is free for both TCP and UDP.
const ATTEMPTS: usize = 32;

/// Answers over TCP and UDP until dropped. Dropping it takes up to 50 ms.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicU64,
    cpus: Vec<u32>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    /// Listens at `address`, on the same port for TCP and UDP; port 0 chooses a free one. Its
    /// threads have the normal policy, on these `cpus`, or on any CPU if the list is empty.
    ///
    /// # Errors
    /// [`Error::Os`] if the address is not available; the errors of [`ThreadBuilder::spawn`].
    pub fn listen(address: SocketAddr, cpus: &[u32]) -> Result<Self, Error> {
        let (listener, datagrams, address) = bind(address)?;
        let server = Self {
            address,
            shared: Arc::new(Shared {
                stop: AtomicBool::new(false),
                answered: AtomicU64::new(0),
                cpus: cpus.to_vec(),
                threads: Mutex::new(Vec::new()),
            }),
        };
        let shared = Arc::clone(&server.shared);
        (server.shared).spawn("echo/accept", move || shared.accept(&listener))?;
        let shared = Arc::clone(&server.shared);
        (server.shared).spawn("echo/udp", move || shared.answer_datagrams(&datagrams))?;
        Ok(server)
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of messages answered so far.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Opens a connection to the server over an unnamed Unix socket.
    pub(crate) fn unix(&self) -> Result<UnixStream, Error> {
        let failed = |source| Error::Os {
            call: "socketpair",
            what: "a pair of Unix sockets".to_owned(),
            source,
        };
        let (ours, its) = UnixStream::pair().map_err(failed)?;
        its.set_read_timeout(Some(LOOK_AGAIN)).map_err(failed)?;
        let shared = Arc::clone(&self.shared);
        self.shared
            .spawn("echo/unix", move || shared.answer_stream(its))?;
        Ok(ours)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // The accepting thread adds connections until it ends.
        while let Some(thread) = self.shared.any_thread() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let mut thread = ThreadBuilder::new(name).policy(Policy::Other { nice: 0 });
        if !self.cpus.is_empty() {
            thread = thread.cpus(&self.cpus);
        }
        let thread = thread.spawn(work)?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    fn any_thread(&self) -> Option<JoinHandle<()>> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // The oldest thread comes first. Once the accepting threads have ended, no more threads are
        // added.
        (!threads.is_empty()).then(|| threads.remove(0))
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopping() {
            match listener.accept() {
                Ok((stream, _)) => self.take(stream),
                Err(error) if is_timeout(error.kind()) => {}
                // There are too many open files, or a client disconnected immediately. This must
                // neither end the thread nor make it spin.
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Serves one connection on a separate thread. Closes a connection that cannot be served.
    fn take(self: &Arc<Self>, stream: TcpStream) {
        let live = {
            let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.iter().filter(|t| !t.is_finished()).count()
        };
        let ready = live < CONNECTIONS
            && stream.set_nodelay(true).is_ok()
            && stream.set_read_timeout(Some(LOOK_AGAIN)).is_ok()
            && stream.set_write_timeout(Some(LOOK_AGAIN)).is_ok();
        if ready {
            let shared = Arc::clone(self);
            let _ = self.spawn("echo/tcp", move || shared.answer_stream(stream));
        }
    }

    /// Answers each message once it has arrived completely.
    fn answer_stream(&self, mut stream: impl Read + Write) {
        let mut message = [0; MESSAGE_BYTES];
        let mut filled = 0;
        let mut heard = Instant::now();
        while !self.stopping() {
            match stream.read(&mut message[filled..]) {
                Ok(0) => return,
                Ok(bytes) => filled += bytes,
                Err(error) if is_timeout(error.kind()) => {
                    if heard.elapsed() > IDLE {
                        return;
                    }
                    continue;
                }
                Err(_) => return,
            }
            if filled == MESSAGE_BYTES {
                // Count the answer before the client can receive it.
                self.answered.fetch_add(1, Ordering::Relaxed);
                if !answer(&mut message) || stream.write_all(&message).is_err() {
                    return;
                }
                heard = Instant::now();
                filled = 0;
            }
        }
    }

    /// Answers each datagram that is a message.
    fn answer_datagrams(&self, socket: &UdpSocket) {
        // The buffer has one extra byte, so that a longer datagram is not mistaken for a message.
        let mut buffer = [0; MESSAGE_BYTES + 1];
        while !self.stopping() {
            match socket.recv_from(&mut buffer) {
                Ok((MESSAGE_BYTES, from)) => {
                    let mut message = [0; MESSAGE_BYTES];
                    message.copy_from_slice(&buffer[..MESSAGE_BYTES]);
                    if answer(&mut message) {
                        self.answered.fetch_add(1, Ordering::Relaxed);
                        // The client has gone, or its buffer is full. This is not an error, because
                        // datagrams may be lost.
                        let _ = socket.send_to(&message, from);
                    }
                }
                Ok(_) => {}
                Err(error) if is_timeout(error.kind()) => {}
                // This happens, for example, if an earlier reply could not be delivered.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Binds both sockets to the same port.
fn bind(asked: SocketAddr) -> Result<(TcpListener, UdpSocket, SocketAddr), Error> {
    let failed = |call| {
        move |source| Error::Os {
            call,
            what: format!("the echo server at {asked}"),
            source,
        }
    };
    let mut attempt = 0;
    loop {
        attempt += 1;
        let listener = TcpListener::bind(asked).map_err(failed("bind (TCP)"))?;
        let address = listener.local_addr().map_err(failed("getsockname"))?;
        let datagrams = match UdpSocket::bind(address) {
            Ok(datagrams) => datagrams,
            // A port that is free for TCP may be in use for UDP.
            Err(_) if asked.port() == 0 && attempt < ATTEMPTS => continue,
            Err(source) => return Err(failed("bind (UDP)")(source)),
        };
        datagrams
            .set_read_timeout(Some(LOOK_AGAIN))
            .map_err(failed("setsockopt"))?;
        // accept(2) also respects this timeout (socket(7), SO_RCVTIMEO).
        set_socket_timeout(&listener, Timeout::Recv, Some(LOOK_AGAIN))
            .map_err(|errno| failed("setsockopt")(errno.into()))?;
        return Ok((listener, datagrams, address));
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{number_of_reply, request};
    use super::*;

    fn server() -> Server {
        Server::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap()
    }

    #[test]
    fn fragmented_message_is_answered_when_complete() {
        let server = server();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let timeout = Some(Duration::from_secs(5));
        stream.set_read_timeout(timeout).unwrap();
        let mut reply = [0; MESSAGE_BYTES];
        for number in 1..4 {
            for piece in request(number).chunks(7) {
                assert_eq!(server.answered(), number - 1);
                stream.write_all(piece).unwrap();
            }
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(number_of_reply(&reply), Some(number));
            assert_eq!(server.answered(), number);
        }
        let mut unix = server.unix().unwrap();
        unix.write_all(&request(9)).unwrap();
        unix.read_exact(&mut reply).unwrap();
        assert_eq!(number_of_reply(&reply), Some(9));
    }

    #[test]
    fn what_is_no_message_gets_no_answer() {
        let server = server();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        stream.write_all(&[b'x'; MESSAGE_BYTES]).unwrap();
        // The connection is closed, which shows as an end of file or as a reset.
        assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)));

        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.address()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut longer = request(1).to_vec();
        longer.push(b'.');
        let mut own = request(2);
        answer(&mut own);
        for datagram in [&b""[..], &b"x"[..], &longer, &own, &request(3)] {
            socket.send(datagram).unwrap();
        }
        let mut reply = [0; MESSAGE_BYTES];
        assert_eq!(socket.recv(&mut reply).unwrap(), MESSAGE_BYTES);
        assert_eq!(number_of_reply(&reply), Some(3), "the first with an answer");
    }

    #[test]
    fn server_ends_despite_connections_freeing_port() {
        let server = server();
        let address = server.address();
        let open: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        drop(server);
        for mut stream in open {
            stream
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)));
        }
        assert!(TcpStream::connect(address).is_err());
        drop(UdpSocket::bind(address).unwrap());
    }

    #[test]
    fn an_address_that_is_taken_is_named() {
        let first = server();
        let error = Server::listen(first.address(), &[]).unwrap_err();
        assert!(
            error.to_string().contains(&first.address().to_string()),
            "{error}"
        );
    }
}
