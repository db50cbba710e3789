//! Small messages over TCP without delay.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_cork, set_tcp_nodelay, tcp_nodelay};

use crate::Error;

/// Sends what is written at once (TCP_NODELAY of tcp(7)). Without it Nagle's algorithm
/// holds a small segment back until the one before is acknowledged, which a delayed
/// acknowledgement makes 40 ms.
///
/// # Errors
/// [`Error::Os`] where it is no TCP socket.
pub fn send_at_once(socket: impl AsFd) -> Result<(), Error> {
    set_tcp_nodelay(socket, true).map_err(|errno| failed("TCP_NODELAY", errno))
}

/// Holds a TCP socket's segments back while several pieces of one message are written
/// (TCP_CORK of tcp(7)), and sends them as one when it is dropped: two system calls a
/// message, and no segment for each piece.
///
/// The kernel holds them back for 200 ms at most: keep it for one message.
#[derive(Debug)]
#[must_use = "the segments are sent as soon as this is dropped"]
pub struct TcpCork<S: AsFd> {
    socket: S,
}

impl<S: AsFd> TcpCork<S> {
    /// From here on what is written is held back. The socket must send at once otherwise
    /// ([`send_at_once`]): else the end of this would be another delay.
    ///
    /// # Errors
    /// [`Error::Os`] where it is no TCP socket, or has Nagle's algorithm in force.
    pub fn new(socket: S) -> Result<Self, Error> {
        match tcp_nodelay(&socket) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Error::NotSupported {
                    what: "a cork on a socket with Nagle's algorithm",
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
        // It was accepted a moment ago.
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
    fn pieces_are_sent_as_one_when_the_cork_is_drawn() {
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
