//! Sends small messages over TCP without delay.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_cork, set_tcp_nodelay, tcp_nodelay};

use crate::Error;

/// Sends written data immediately (TCP_NODELAY of tcp(7)). Without this option, Nagle's algorithm
/// holds back a small segment until the previous one is acknowledged, which takes 40 ms with
/// delayed acknowledgements.
///
/// # Errors
/// Returns [`Error::Os`] if the socket is not a TCP socket.
pub fn send_at_once(socket: impl AsFd) -> Result<(), Error> {
    set_tcp_nodelay(socket, true).map_err(|errno| failed("TCP_NODELAY", errno))
}

/// Holds back the segments of a TCP socket while several pieces of one message are written
/// (TCP_CORK of tcp(7)), and sends them as one on drop. This costs two system calls per message,
/// but avoids sending each piece as a separate segment.
///
/// The kernel holds the segments back for at most 200 ms, so use it for a single message.
#[derive(Debug)]
#[must_use = "the segments are sent as soon as this value is dropped"]
pub struct TcpCork<S: AsFd> {
    socket: S,
}

impl<S: AsFd> TcpCork<S> {
    /// Starts to hold back written data. [`send_at_once`] must have been called for the socket;
    /// otherwise, the segments sent on drop would be delayed again.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if the socket is not a TCP socket, or uses Nagle's algorithm.
    pub fn new(socket: S) -> Result<Self, Error> {
        match tcp_nodelay(&socket) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Error::NotSupported {
                    what: "TCP_CORK on a socket that uses Nagle's algorithm",
                    why: "call send_at_once() for the socket first",
                });
            }
            Err(errno) => return Err(failed("TCP_NODELAY", errno)),
        }
        set_tcp_cork(&socket, true).map_err(|errno| failed("TCP_CORK", errno))?;
        Ok(Self { socket })
    }
}

impl<S: AsFd> Drop for TcpCork<S> {
    fn drop(&mut self) {
        // This does not fail, because the same option was accepted before.
        let _ = set_tcp_cork(&self.socket, false);
    }
}

#[cold]
fn failed(option: &str, errno: Errno) -> Error {
    Error::os("setsockopt", option, io::Error::from(errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (sender, listener.accept().unwrap().0)
    }

    #[test]
    fn uncorking_sends_pieces_together() {
        let (sender, mut receiver) = pair();
        assert!(TcpCork::new(&sender).is_err(), "Nagle is in force");
        send_at_once(&sender).unwrap();
        assert!(sender.nodelay().unwrap());
        receiver.set_nonblocking(true).unwrap();
        let cork = TcpCork::new(&sender).unwrap();
        (&sender).write_all(b"head").unwrap();
        let mut buffer = [0; 16];
        let early = receiver.read(&mut buffer);
        assert_eq!(early.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        (&sender).write_all(b" body").unwrap();
        drop(cork);
        receiver.set_nonblocking(false).unwrap();
        let read = receiver.read(&mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"head body");
    }

    #[test]
    fn another_socket_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(send_at_once(&socket).is_err());
        assert!(TcpCork::new(&socket).is_err());
    }
}
