//! A socket for ICMP echo or Ethernet frames, with the kernel's time stamps of sent and received
//! frames.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt,
};
use nix::sys::time::TimeSpec;
use punctual_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, connect, ipproto, send, socket_with,
};

use super::frame::{ETHERTYPE, Form, Kind, MOST_PAYLOAD};
use super::interface::Interface;

/// Room for a reply with its headers, and to notice a longer one.
const ROOM: usize = MOST_PAYLOAD + 128;

/// The destination of the frames.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// To a machine, as ICMP echo.
    Machine(SocketAddr),
    /// Through an interface, as Ethernet frames to this address.
    Segment(Interface, [u8; 6]),
}

/// An open socket.
#[derive(Debug)]
pub(super) struct FrameSocket {
    to: Target,
    socket: OwnedFd,
    form: Form,
    frame: Vec<u8>,
    message: Vec<u8>,
    control: Vec<u8>,
    /// Number of frames sent, which the kernel counts too.
    sent: u32,
    /// The last frame that the kernel has stamped on its way out, by its number among the sent ones.
    stamped: Option<(u32, Nanos)>,
    /// The last frame that the card has stamped.
    stamped_by_card: Option<(u32, Nanos)>,
}

/// Reports both stamps of a sent frame: the kernel's and the card's (SOF_TIMESTAMPING_OPT_TX_SWHW).
const BOTH: u32 = 1 << 14;

/// When a frame passed a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps {
    /// By the kernel, on the real-time clock.
    pub(super) kernel: Option<Nanos>,
    /// By the card, on its own clock. Cards do not stamp frames unless this was enabled.
    pub(super) card: Option<Nanos>,
}

/// A message of the socket.
#[derive(Debug)]
pub(super) enum Received {
    /// The reply to a frame. `stamps`: when it was received.
    Reply { number: u64, stamps: Stamps },
    /// There is none yet.
    Nothing,
    /// Another message.
    Foreign,
    /// The kernel reported an error, such as an unreachable host.
    Failed(io::Error),
}

impl FrameSocket {
    /// Opens a socket. For ICMP echo, it is of the kind for unprivileged users if the kernel permits
    /// it, otherwise a raw one.
    ///
    /// # Errors
    /// Returns an error if it is not permitted, or if there is no route to the address.
    pub(super) fn open(to: Target, payload: usize, token: u64) -> io::Result<Self> {
        match to {
            Target::Machine(address) => Self::echo(address, payload, token, false)
                .or_else(|_| Self::echo(address, payload, token, true)),
            Target::Segment(interface, address) => {
                let socket = punctual_rt::packet_socket(interface.index, ETHERTYPE);
                let kind = Kind::Ethernet {
                    to: address,
                    from: interface.address,
                };
                let socket = socket.map_err(|error| match error {
                    punctual_rt::Error::Os { source, .. } => source,
                    other => io::Error::other(other),
                })?;
                Ok(Self::new(to, socket, kind, (payload, token)))
            }
        }
    }

    /// Opens a socket of one kind for ICMP echo.
    pub(super) fn echo(
        to: SocketAddr,
        payload: usize,
        token: u64,
        is_raw: bool,
    ) -> io::Result<Self> {
        let (family, protocol) = match to {
            SocketAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
            SocketAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = if is_raw {
            SocketType::RAW
        } else {
            SocketType::DGRAM
        };
        let socket = socket_with(family, kind, flags, Some(protocol))?;
        connect(&socket, &to)?;
        let kind = Kind::Echo {
            is_ipv6: to.is_ipv6(),
            is_raw,
        };
        Ok(Self::new(
            Target::Machine(to),
            socket,
            kind,
            (payload, token),
        ))
    }

    fn new(to: Target, socket: OwnedFd, kind: Kind, (payload, token): (usize, u64)) -> Self {
        let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
            | TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE
            | TimestampingFlag::SOF_TIMESTAMPING_TX_HARDWARE
            | TimestampingFlag::from_bits_retain(BOTH);
        // Without stamps, the parts of the round trip are unknown, and the run says so.
        let _ = setsockopt(&socket, Timestamping, &stamps);
        let form = Form {
            kind,
            identifier: std::process::id() as u16,
            token,
            payload,
        };
        Self {
            to,
            socket,
            form,
            frame: form.frame(),
            message: vec![0; ROOM],
            control: nix::cmsg_space!([u8; 256]),
            sent: 0,
            stamped: None,
            stamped_by_card: None,
        }
    }

    /// Returns a new socket with the same settings. After a failure, the numbers of the kernel's
    /// stamps are unknown.
    pub(super) fn reopened(&self) -> io::Result<Self> {
        Self::open(self.to, self.form.payload, self.form.token)
    }

    /// Sends a frame.
    pub(super) fn send(&mut self, number: u64) -> io::Result<()> {
        self.form.renumber(&mut self.frame, number);
        loop {
            match send(&self.socket, &self.frame, SendFlags::empty()) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.sent = self.sent.wrapping_add(1);
        self.take_stamps();
        Ok(())
    }

    /// Returns when the kernel gave the last frame to the network device, and when the card sent it.
    pub(super) fn sent_at(&mut self) -> Stamps {
        // The card's stamp can arrive at the same time as the reply.
        self.take_stamps();
        let last = self.sent.wrapping_sub(1);
        let of_last = |stamped: Option<(u32, Nanos)>| {
            stamped
                .filter(|(number, _)| *number == last)
                .map(|(_, stamp)| stamp)
        };
        Stamps {
            kernel: of_last(self.stamped),
            card: of_last(self.stamped_by_card),
        }
    }

    /// Waits for a message or until `left` has passed. Also returns at a signal.
    pub(super) fn wait(&mut self, left: Nanos) -> io::Result<()> {
        let time = Timespec {
            tv_sec: (left.0 / 1_000_000_000) as i64,
            tv_nsec: (left.0 % 1_000_000_000) as i64,
        };
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut sockets, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if sockets[0].revents().contains(PollFlags::ERR) {
            self.take_stamps();
        }
        Ok(())
    }

    /// Returns the next message, without waiting for it.
    pub(super) fn receive(&mut self) -> Received {
        let mut parts = [IoSliceMut::new(&mut self.message)];
        let received = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut self.control),
            MsgFlags::MSG_DONTWAIT,
        );
        let (bytes, stamps) = match received {
            Ok(message) => {
                let stamps =
                    (message.cmsgs().into_iter().flatten()).find_map(|one| stamps_of(&one));
                (message.bytes, stamps.unwrap_or_default())
            }
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Received::Nothing,
            Err(errno) => return Received::Failed(errno.into()),
        };
        match self.form.answered(&self.message[..bytes]) {
            Some(number) => Received::Reply { number, stamps },
            None => Received::Foreign,
        }
    }

    /// Reads the stamps of sent frames from the error queue.
    fn take_stamps(&mut self) {
        loop {
            let mut parts = [IoSliceMut::new(&mut self.message)];
            let received = recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut self.control),
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_ERRQUEUE,
            );
            let Ok(message) = received else {
                return;
            };
            let (mut stamps, mut number) = (Stamps::default(), None);
            for one in message.cmsgs().into_iter().flatten() {
                stamps = stamps_of(&one).unwrap_or(stamps);
                if let ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _) = one
                    && error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING
                {
                    number = Some(error.ee_data);
                }
            }
            // Packet sockets do not number the stamps. One of an older frame is before the send call,
            // so it is not used.
            let last = self.sent.wrapping_sub(1);
            let is_ethernet = matches!(self.form.kind, Kind::Ethernet { .. });
            let number = number.or(is_ethernet.then_some(last));
            self.stamped = number.zip(stamps.kernel).or(self.stamped);
            self.stamped_by_card = number.zip(stamps.card).or(self.stamped_by_card);
        }
    }
}

fn stamps_of(message: &ControlMessageOwned) -> Option<Stamps> {
    let ControlMessageOwned::ScmTimestampsns(stamps) = message else {
        return None;
    };
    let nanos = |time: TimeSpec| {
        let seconds = u64::try_from(time.tv_sec())
            .ok()?
            .checked_mul(1_000_000_000)?;
        seconds.checked_add(u64::try_from(time.tv_nsec()).ok()?)
    };
    let known = |time| nanos(time).filter(|stamp| *stamp > 0).map(Nanos);
    Some(Stamps {
        kernel: known(stamps.system),
        card: known(stamps.hw_raw),
    })
}

/// Returns the reason why no socket could be opened, with the remedy.
pub(super) fn reason(error: &io::Error, to: Target) -> String {
    match (error.kind(), to) {
        (ErrorKind::PermissionDenied, Target::Segment(..)) => {
            format!("{error}: run it as root, or with CAP_NET_RAW")
        }
        (ErrorKind::PermissionDenied, Target::Machine(_)) => format!(
            "{error}: run it as root, with CAP_NET_RAW, or with a group in \
             /proc/sys/net/ipv4/ping_group_range"
        ),
        _ => error.to_string(),
    }
}
