//! A socket for ICMP echo or Ethernet frames, with the kernel's time stamps of sent and received
//! frames.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::{Priority, Timestamping, TxTime};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt,
};
use nix::sys::time::TimeSpec;
use punctual_model::Nanos;
use punctual_rt::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    connect, ipproto, send, sendmsg, socket_with,
};

use super::clocks::{Pair, real_time};
use super::departures::Departures;
use super::flights::{DropReason, Flight, Flights, Stamps};
use super::frame::{ETHERTYPE, Form, Kind, MOST_PAYLOAD};
use super::interface::Interface;
use crate::monotonic::now;

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
    flights: Flights,
    settings: SendSettings,
    pub(super) departures: Departures,
    /// The directions of the frames that the card has stamped.
    pub(super) card_stamps: CardStamps,
}

/// The frames that a card has stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CardStamps {
    pub(super) sent: bool,
    pub(super) received: bool,
}

/// Settings of the sent frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SendSettings {
    /// The clock of the launch times; `None` if the frames have no launch time.
    pub(super) clock: Option<Clock>,
    /// The priority of the frames (SO_PRIORITY), if it is not the usual one.
    pub(super) priority: Option<u8>,
}

/// Reports both stamps of a sent frame: the kernel's and the card's (SOF_TIMESTAMPING_OPT_TX_SWHW).
const BOTH: u32 = 1 << 14;

/// `SO_EE_ORIGIN_TXTIME` from `include/uapi/linux/errqueue.h`: the queueing discipline dropped a
/// frame because of its launch time.
const ORIGIN_TXTIME: u8 = 6;

/// `SO_EE_CODE_TXTIME_MISSED`.
const CODE_MISSED: u8 = 2;

/// `PACKET_TX_TIMESTAMP` from `include/uapi/linux/if_packet.h`.
const PACKET_REPORT: i32 = 16;

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
    pub(super) fn open(
        to: Target,
        payload: usize,
        token: u64,
        settings: SendSettings,
    ) -> io::Result<Self> {
        let mut socket = match to {
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
        }?;
        socket.set(settings)?;
        Ok(socket)
    }

    /// Applies the settings of the sent frames.
    fn set(&mut self, settings: SendSettings) -> io::Result<()> {
        let failed = |option: &str, error: nix::Error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{option}: {error}"))
        };
        if let Some(priority) = settings.priority {
            setsockopt(&self.socket, Priority, &priority.into())
                .map_err(|error| failed("SO_PRIORITY", error))?;
        }
        if let Some(clock) = settings.clock {
            let clockid = match clock {
                Clock::Tai => libc::CLOCK_TAI,
                _ => libc::CLOCK_MONOTONIC,
            };
            let flags = libc::SOF_TXTIME_REPORT_ERRORS;
            setsockopt(&self.socket, TxTime, &libc::sock_txtime { clockid, flags })
                .map_err(|error| failed("SO_TXTIME", error))?;
        }
        self.settings = settings;
        Ok(())
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
            flights: Flights::new(),
            settings: SendSettings::default(),
            departures: Departures::new(None),
            card_stamps: CardStamps::default(),
        }
    }

    /// Opens the socket again. After a failure, the numbers of the kernel's stamps are unknown.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let (payload, token) = (self.form.payload, self.form.token);
        let new = Self::open(self.to, payload, token, self.settings)?;
        (self.socket, self.form) = (new.socket, new.form);
        (self.frame, self.flights) = (new.frame, new.flights);
        Ok(())
    }

    /// Sends a frame. Also succeeds if the queueing discipline dropped it because of its launch
    /// time, which [`next_dropped`](Self::next_dropped) then returns.
    pub(super) fn send(&mut self, flight: Flight) -> io::Result<()> {
        self.form.renumber(&mut self.frame, flight.number);
        self.flights.begin(flight);
        let sent = loop {
            match self.pass(flight) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        self.take_reports();
        if let Err(errno) = sent
            && !self.flights.last_is_dropped()
        {
            self.flights.cancel();
            return Err(errno.into());
        }
        self.departures.sent(&flight);
        Ok(())
    }

    /// Passes the frame to the kernel.
    fn pass(&self, flight: Flight) -> Result<usize, Errno> {
        let Some(launch) = flight.launch else {
            return send(&self.socket, &self.frame, SendFlags::empty());
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(TxTime(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::TxTime(launch.disciplined.0));
        let frame = [IoSlice::new(&self.frame)];
        sendmsg(&self.socket, &frame, &mut control, SendFlags::empty())
    }

    /// Returns the time before the send call of a frame, and when the kernel gave it to the network
    /// device and the card sent it.
    pub(super) fn sent_at(&mut self, number: u64) -> Option<(Pair, Stamps)> {
        // The card's stamp can arrive at the same time as the reply.
        self.take_reports();
        let (flight, stamps) = self.flights.find(number)?;
        Some((flight.sent, stamps))
    }

    /// Returns a frame that the queueing discipline dropped because of its launch time, once.
    pub(super) fn next_dropped(&mut self) -> Option<(u64, DropReason)> {
        self.flights.next_dropped()
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
            self.take_reports();
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
                let mut messages = message.cmsgs().into_iter().flatten();
                let stamps = messages.find_map(|one| stamps_of(&one)).unwrap_or_default();
                (message.bytes, stamps)
            }
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Received::Nothing,
            Err(errno) => return Received::Failed(errno.into()),
        };
        match self.form.answered(&self.message[..bytes]) {
            Some(number) => {
                self.card_stamps.received |= stamps.card.is_some();
                Received::Reply { number, stamps }
            }
            None => Received::Foreign,
        }
    }

    /// Reads what the kernel reports about sent frames in the error queue.
    pub(super) fn take_reports(&mut self) {
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
            let (mut stamps, mut report) = (Stamps::default(), None);
            for one in message.cmsgs().into_iter().flatten() {
                stamps = stamps_of(&one).unwrap_or(stamps);
                report = Report::read(&one).or(report);
            }
            // Without launch times, only one frame is sent at a time. Packet sockets do not number
            // the stamps before Linux 5.0.
            let last = self.flights.last();
            let is_ethernet = matches!(self.form.kind, Kind::Ethernet { .. });
            let key = match report {
                Some(Report::Dropped(disciplined, why)) => {
                    self.flights.dropped(disciplined, why);
                    continue;
                }
                _ if is_ethernet && self.settings.clock.is_none() => last,
                Some(Report::Stamped(key)) => key,
                None => continue,
            };
            self.card_stamps.sent |= stamps.card.is_some();
            if let Some((flight, stamps)) = self.flights.stamped(key, stamps) {
                let monotonic = now();
                let real = real_time();
                let read = Pair { real, monotonic };
                self.departures.stamped(&flight, stamps, read);
            }
        }
    }
}

/// A message in the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    /// The time stamps of the frame with this number.
    Stamped(u32),
    /// The queueing discipline dropped the frame with this launch time.
    Dropped(Nanos, DropReason),
}

impl Report {
    fn read(message: &ControlMessageOwned) -> Option<Self> {
        match message {
            ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                Self::of(error.ee_origin, error.ee_code, error.ee_info, error.ee_data)
            }
            ControlMessageOwned::Unknown(other)
                if other.cmsg_header.cmsg_level == libc::SOL_PACKET
                    && other.cmsg_header.cmsg_type == PACKET_REPORT =>
            {
                Self::of_packet(&other.data_bytes)
            }
            _ => None,
        }
    }

    /// Parses a `struct sock_extended_err`.
    fn of_packet(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(four))
        };
        Self::of(*bytes.get(4)?, *bytes.get(6)?, number(8)?, number(12)?)
    }

    fn of(origin: u8, code: u8, info: u32, data: u32) -> Option<Self> {
        match origin {
            libc::SO_EE_ORIGIN_TIMESTAMPING => Some(Self::Stamped(data)),
            ORIGIN_TXTIME => {
                let why = match code {
                    CODE_MISSED => DropReason::InQueue,
                    _ => DropReason::OnTheWay,
                };
                // The data has the upper half of the launch time.
                let launch = Nanos(u64::from(data) << 32 | u64::from(info));
                Some(Self::Dropped(launch, why))
            }
            _ => None,
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
        (ErrorKind::PermissionDenied, _) if error.to_string().starts_with("SO_") => format!(
            "{error}: run it as root, or with CAP_NET_ADMIN, which launch times on CLOCK_TAI and \
             priorities above 6 need"
        ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_kernel_are_told_apart() {
        let launch = Nanos(37 << 32 | 5);
        for (origin, code, expected) in [
            (4, 0, Some(Report::Stamped(37))),
            (6, 1, Some(Report::Dropped(launch, DropReason::OnTheWay))),
            (6, 2, Some(Report::Dropped(launch, DropReason::InQueue))),
            // An ICMP message.
            (2, 1, None),
        ] {
            assert_eq!(Report::of(origin, code, 5, 37), expected);
            let mut bytes = vec![0, 0, 0, 0, origin, 0, code, 0];
            bytes.extend([5_u32, 37].map(u32::to_ne_bytes).concat());
            assert_eq!(Report::of_packet(&bytes), expected);
            assert_eq!(Report::of_packet(&bytes[..15]), None);
        }
    }

    #[test]
    fn refused_option_names_the_right() {
        let to = Target::Machine("127.0.0.1:0".parse().unwrap());
        let refused = io::Error::new(ErrorKind::PermissionDenied, "SO_TXTIME: EPERM");
        assert!(reason(&refused, to).contains("CAP_NET_ADMIN"));
        let refused = io::Error::from(ErrorKind::PermissionDenied);
        assert!(reason(&refused, to).contains("CAP_NET_RAW"));
    }
}
