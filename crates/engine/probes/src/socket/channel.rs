//! The mechanisms for sending a message, and how each performs one exchange.

use std::array;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use punctual_model::Nanos;
use punctual_rt::Error;
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_cork};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, connect, ipproto, send, socket_with,
};

use super::message::{BODY, MESSAGE_BYTES, Message, PIECE_BYTES, number_of_reply};
use super::server::Server;
use crate::Control;
use crate::monotonic::now;

/// A reply that takes longer counts as missed.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(1);

/// The longest time that a call blocks before the stop flag is checked. Usually, the signal of the
/// stop ends the call earlier.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

const PIECES: usize = MESSAGE_BYTES / PIECE_BYTES;

/// The values of `--via`.
pub(super) const WAYS: &[(&str, &str)] = &[
    ("all", "all of these, one after the other"),
    ("default", "TCP without options: 15 writes of 2 bytes"),
    ("nodelay", "15 writes of 2 bytes, with TCP_NODELAY"),
    (
        "cork",
        "15 writes of 2 bytes, with TCP_CORK set before and cleared afterwards",
    ),
    ("writev", "TCP, one writev of 15 pieces"),
    ("more", "TCP, 15 sends, all except the last with MSG_MORE"),
    (
        "sendfile",
        "TCP, a write of 18 bytes, then sendfile of 12 bytes of a file in memory",
    ),
    (
        "sendfile-cork",
        "the same, with TCP_CORK set before and cleared afterwards",
    ),
    ("udp", "one datagram of 30 bytes"),
    ("unix", "one write of 30 bytes to a Unix stream socket"),
];

/// The mechanism for sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Default,
    NoDelay,
    Cork,
    Writev,
    More,
    Sendfile,
    SendfileCork,
    Udp,
    Unix,
}

impl Way {
    pub(super) const ALL: [Self; 9] = [
        Self::Default,
        Self::NoDelay,
        Self::Cork,
        Self::Writev,
        Self::More,
        Self::Sendfile,
        Self::SendfileCork,
        Self::Udp,
        Self::Unix,
    ];

    /// Returns the value of `--via` that selects this mechanism.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::NoDelay => "nodelay",
            Self::Cork => "cork",
            Self::Writev => "writev",
            Self::More => "more",
            Self::Sendfile => "sendfile",
            Self::SendfileCork => "sendfile-cork",
            Self::Udp => "udp",
            Self::Unix => "unix",
        }
    }

    /// Opens a connection to the echo server.
    pub(super) fn open(self, to: &Target, control: &Control) -> Result<Channel, Error> {
        let failed = |call| {
            move |source: io::Error| Error::Os {
                call,
                what: format!("the echo server {}", to.name()),
                source,
            }
        };
        let channel = match (self, to) {
            (Self::Unix, Target::Own(server)) => Channel::Unix(server.unix()?),
            (Self::Unix, Target::Other(..)) => {
                return Err(failed("connect")(ErrorKind::Unsupported.into()));
            }
            (Self::Udp, _) => Channel::Udp(udp(to.address()).map_err(failed("connect (UDP)"))?),
            _ => {
                let stream = tcp(to.address(), control).map_err(failed("connect (TCP)"))?;
                stream
                    .set_nodelay(self == Self::NoDelay)
                    .map_err(failed("setsockopt"))?;
                match self {
                    Self::Sendfile | Self::SendfileCork => {
                        let file = file_of_body().map_err(failed("memfd_create"))?;
                        Channel::File(stream, file, self)
                    }
                    _ => Channel::Tcp(stream, self),
                }
            }
        };
        channel.recheck().map_err(failed("setsockopt"))?;
        Ok(channel)
    }
}

/// The echo server.
#[derive(Debug)]
pub(super) enum Target {
    /// A server of this process, on the loopback interface.
    Own(Server),
    /// A server elsewhere, with the name that the user specified.
    Other(SocketAddr, String),
}

impl Target {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Own(server) => server.address(),
            Self::Other(address, _) => *address,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Own(server) => format!("of this process at {}", server.address()),
            Self::Other(_, name) => format!(
                "at {name} (started with punctual measure socket \
                --serve)"
            ),
        }
    }
}

fn udp(to: SocketAddr) -> io::Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket)
}

/// Like `TcpStream::connect_timeout`, except that a stop ends it. The function in std continues
/// after a signal.
fn tcp(to: SocketAddr, control: &Control) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        Some(ipproto::TCP),
    )?;
    // connect(2) also respects this timeout (socket(7)), and continues connecting when it is called
    // again.
    set_socket_timeout(&socket, Timeout::Send, Some(LOOK_AGAIN))?;
    let deadline = now() + PATIENCE;
    loop {
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(TcpStream::from(socket)),
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if control.stopping() {
            return Err(ErrorKind::Interrupted.into());
        }
        if now() >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

/// Returns a file in memory that holds the body of a message.
fn file_of_body() -> io::Result<File> {
    let file = memfd_create("punctual-message", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    file.write_all(&BODY)?;
    Ok(file)
}

/// Sends the head of the message by a write, and its body from the file.
fn send_file(
    mut stream: &TcpStream,
    file: &File,
    message: &Message,
    end: &mut End<'_>,
) -> Result<(), Exchange> {
    let head = &message[..MESSAGE_BYTES - BODY.len()];
    end.all(head.len(), || stream.write(head))?;
    end.all(BODY.len(), || {
        let mut offset = 0;
        Ok(sendfile(stream, file, Some(&mut offset), BODY.len())?)
    })
}

/// An open connection.
#[derive(Debug)]
pub(super) enum Channel {
    Tcp(TcpStream, Way),
    /// A part of each message comes from the file.
    File(TcpStream, File, Way),
    Udp(UdpSocket),
    Unix(UnixStream),
}

/// How an exchange ended.
#[derive(Debug)]
pub(super) enum Exchange {
    /// The whole reply had arrived at this time.
    Replied(Nanos),
    /// No reply arrived in time.
    Missed,
    /// The run was stopped during the exchange.
    Stopped,
    /// The connection can no longer be used.
    Lost(io::Error),
}

impl Channel {
    fn recheck(&self) -> io::Result<()> {
        let timeout = Some(LOOK_AGAIN);
        match self {
            Self::Tcp(stream, _) | Self::File(stream, ..) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Self::Udp(socket) => {
                socket.set_read_timeout(timeout)?;
                socket.set_write_timeout(timeout)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }

    /// Sends the message, which was begun at `start`, and reads the reply to it. This is the hot
    /// path, which makes only the measured calls.
    pub(super) fn exchange(
        &self,
        message: &Message,
        number: u64,
        start: Nanos,
        control: &Control,
    ) -> Exchange {
        let mut end = End {
            deadline: start + PATIENCE,
            control,
        };
        if let Err(how) = self.send(message, &mut end) {
            return how;
        }
        let mut reply = [0; MESSAGE_BYTES];
        let mut filled = 0;
        loop {
            match self.receive(&mut reply[filled..]) {
                Ok(0) => return Exchange::Lost(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => filled += bytes,
                Err(error) => {
                    if let Err(how) = end.go_on(error) {
                        return how;
                    }
                }
            }
            if filled < MESSAGE_BYTES {
                continue;
            }
            match number_of_reply(&reply) {
                Some(of) if of == number => return Exchange::Replied(now()),
                // This is the reply to an earlier message that was given up.
                Some(_) if matches!(self, Self::Udp(_)) => filled = 0,
                _ => return Exchange::Lost(ErrorKind::InvalidData.into()),
            }
            if now() >= end.deadline {
                return Exchange::Missed;
            }
        }
    }

    fn send(&self, message: &Message, end: &mut End<'_>) -> Result<(), Exchange> {
        match self {
            Self::Tcp(stream, Way::Cork) => {
                set_tcp_cork(stream, true).map_err(lost)?;
                for piece in message.chunks_exact(PIECE_BYTES) {
                    end.all(piece.len(), || (&*stream).write(piece))?;
                }
                set_tcp_cork(stream, false).map_err(lost)
            }
            Self::Tcp(stream, Way::Writev) => {
                let pieces: [IoSlice; PIECES] = array::from_fn(|piece| {
                    IoSlice::new(&message[piece * PIECE_BYTES..][..PIECE_BYTES])
                });
                end.all(message.len(), || (&*stream).write_vectored(&pieces))
            }
            Self::Tcp(stream, Way::More) => {
                let (last, first) = (
                    &message[MESSAGE_BYTES - PIECE_BYTES..],
                    &message[..MESSAGE_BYTES - PIECE_BYTES],
                );
                for piece in first.chunks_exact(PIECE_BYTES) {
                    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
                    end.all(piece.len(), || Ok(send(stream, piece, flags)?))?;
                }
                end.all(last.len(), || Ok(send(stream, last, SendFlags::NOSIGNAL)?))
            }
            Self::Tcp(stream, _) => {
                for piece in message.chunks_exact(PIECE_BYTES) {
                    end.all(piece.len(), || (&*stream).write(piece))?;
                }
                Ok(())
            }
            Self::File(stream, file, Way::SendfileCork) => {
                set_tcp_cork(stream, true).map_err(lost)?;
                send_file(stream, file, message, end)?;
                set_tcp_cork(stream, false).map_err(lost)
            }
            Self::File(stream, file, _) => send_file(stream, file, message, end),
            Self::Udp(socket) => end.all(message.len(), || socket.send(message)),
            Self::Unix(stream) => end.all(message.len(), || (&*stream).write(message)),
        }
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream, _) | Self::File(stream, ..) => (&*stream).read(into),
            Self::Udp(socket) => socket.recv(into),
            Self::Unix(stream) => (&*stream).read(into),
        }
    }
}

fn lost(errno: Errno) -> Exchange {
    Exchange::Lost(errno.into())
}

/// The limits that end an exchange, with or without a reply.
struct End<'a> {
    deadline: Nanos,
    control: &'a Control,
}

impl End<'_> {
    /// Repeats a write that was prevented by a signal or a full buffer. The pieces are so small
    /// that each is written either completely or not at all.
    fn all(
        &mut self,
        bytes: usize,
        mut write: impl FnMut() -> io::Result<usize>,
    ) -> Result<(), Exchange> {
        loop {
            match write() {
                Ok(written) if written == bytes => return Ok(()),
                Ok(_) => return Err(Exchange::Lost(ErrorKind::WriteZero.into())),
                Err(error) => self.go_on(error)?,
            }
        }
    }

    /// Returns whether to repeat a call that was interrupted or timed out.
    #[cold]
    fn go_on(&self, error: io::Error) -> Result<(), Exchange> {
        match error.kind() {
            ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
            _ => return Err(Exchange::Lost(error)),
        }
        if self.control.stopping() {
            Err(Exchange::Stopped)
        } else if now() >= self.deadline {
            Err(Exchange::Missed)
        } else {
            Ok(())
        }
    }
}
