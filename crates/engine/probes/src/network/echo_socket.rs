//! A socket for ICMP echo, with the kernel's time stamps of sent and received frames.

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

use super::frame::{Form, MOST_PAYLOAD};

/// Room for a reply with its headers, and to notice a longer one.
const ROOM: usize = MOST_PAYLOAD + 128;

/// An open socket.
#[derive(Debug)]
pub(super) struct EchoSocket {
    to: SocketAddr,
    socket: OwnedFd,
    form: Form,
    frame: Vec<u8>,
    message: Vec<u8>,
    control: Vec<u8>,
    /// Number of frames sent, which the kernel counts too.
    sent: u32,
    /// The last frame that the kernel has stamped on its way out, by its number among the sent ones.
    stamped: Option<(u32, Nanos)>,
}

/// A message of the socket.
#[derive(Debug)]
pub(super) enum Received {
    /// The reply to a frame. `stamp`: when the kernel received it, on the real-time clock.
    Reply { number: u64, stamp: Option<Nanos> },
    /// There is none yet.
    Nothing,
    /// Another message.
    Foreign,
    /// The kernel reported an error, such as an unreachable host.
    Failed(io::Error),
}

impl EchoSocket {
    /// Opens a socket: of the kind for unprivileged users if the kernel permits it, otherwise a raw
    /// one.
    ///
    /// # Errors
    /// Returns an error if neither is permitted, or if there is no route to the address.
    pub(super) fn open(to: SocketAddr, payload: usize, token: u64) -> io::Result<Self> {
        Self::open_as(to, payload, token, false)
            .or_else(|_| Self::open_as(to, payload, token, true))
    }

    /// Opens a socket of one kind.
    pub(super) fn open_as(
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
        let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
        // Without stamps, the parts of the round trip are unknown, and the run says so.
        let _ = setsockopt(&socket, Timestamping, &stamps);
        let form = Form {
            is_ipv6: to.is_ipv6(),
            is_raw,
            identifier: std::process::id() as u16,
            token,
            payload,
        };
        Ok(Self {
            to,
            socket,
            form,
            frame: form.frame(),
            message: vec![0; ROOM],
            control: nix::cmsg_space!([u8; 256]),
            sent: 0,
            stamped: None,
        })
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

    /// Returns when the kernel gave the last frame to the network device, on the real-time clock.
    pub(super) fn sent_at(&self) -> Option<Nanos> {
        let last = self.sent.wrapping_sub(1);
        self.stamped
            .filter(|(number, _)| *number == last)
            .map(|(_, stamp)| stamp)
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
        let (bytes, stamp) = match received {
            Ok(message) => {
                let stamp = (message.cmsgs().into_iter().flatten()).find_map(|one| stamp_of(&one));
                (message.bytes, stamp)
            }
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Received::Nothing,
            Err(errno) => return Received::Failed(errno.into()),
        };
        match self.form.answered(&self.message[..bytes]) {
            Some(number) => Received::Reply { number, stamp },
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
            let (mut stamp, mut number) = (None, None);
            for one in message.cmsgs().into_iter().flatten() {
                stamp = stamp.or(stamp_of(&one));
                if let ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _) = one
                    && error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING
                {
                    number = Some(error.ee_data);
                }
            }
            self.stamped = number.zip(stamp).or(self.stamped);
        }
    }
}

fn stamp_of(message: &ControlMessageOwned) -> Option<Nanos> {
    let ControlMessageOwned::ScmTimestampsns(stamps) = message else {
        return None;
    };
    let nanos = |time: TimeSpec| {
        let seconds = u64::try_from(time.tv_sec())
            .ok()?
            .checked_mul(1_000_000_000)?;
        seconds.checked_add(u64::try_from(time.tv_nsec()).ok()?)
    };
    nanos(stamps.system).filter(|stamp| *stamp > 0).map(Nanos)
}

/// Returns the reason why no socket could be opened, with the remedy.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{error}: run it as root, with CAP_NET_RAW, or with a group in \
             /proc/sys/net/ipv4/ping_group_range"
        ),
        _ => error.to_string(),
    }
}
