//! Queries about network interfaces and routes: rtnetlink(7).

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `NLMSG_ERROR` from `include/uapi/linux/netlink.h`.
const ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a list.
const DONE: u16 = 3;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLM_F_MULTI`: more messages follow.
const MULTI: u16 = 2;
/// `NLM_F_DUMP_INTR`: the list changed while it was read.
const INTERRUPTED: u16 = 0x10;
/// `NLM_F_DUMP`: a request for a list.
pub(crate) const LIST: u16 = 0x300;

/// Length of `struct nlmsghdr`.
const HEAD: usize = 16;
/// Maximum length of the kernel's messages.
const LARGEST: usize = 64 << 10;
/// The kernel answers before the sending call returns, so this time-out is only a safeguard.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of attempts to read a list that changes meanwhile.
const ATTEMPTS: u32 = 5;

/// Sends a request, and returns the contents of the answers of type `wanted`. `flags` is 0 or
/// [`LIST`].
///
/// # Errors
/// Returns the kernel's error (errno(3)).
pub(crate) fn ask(kind: u16, flags: u16, body: &[u8], wanted: u16) -> io::Result<Vec<Vec<u8>>> {
    for _ in 0..ATTEMPTS {
        if let Some(answers) = attempt(kind, flags, body, wanted)? {
            return Ok(answers);
        }
    }
    Err(io::Error::other("the list changed while it was read"))
}

/// Returns `None` if the list changed while it was read.
fn attempt(kind: u16, flags: u16, body: &[u8], wanted: u16) -> io::Result<Option<Vec<Vec<u8>>>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // The protocol 0: NETLINK_ROUTE.
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    let request = message(kind, REQUEST | flags, body);
    rustix::net::sendto(&socket, &request, SendFlags::empty(), &kernel)?;
    let mut bytes = vec![0; LARGEST];
    let mut answers = Answers::default();
    while !answers.complete {
        let (_, length) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&socket, bytes.as_mut_slice(), RecvFlags::TRUNC)
        })
        .map_err(|errno| match errno {
            Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer"),
            other => other.into(),
        })?;
        answers.read(bytes.get(..length).ok_or_else(cut_short)?, wanted)?;
    }
    Ok((!answers.interrupted).then_some(answers.contents))
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEAD + body.len()).unwrap_or(u32::MAX);
    let mut message = Vec::with_capacity(HEAD + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Only one request is sent, so the sequence number can be 0. The kernel fills in the sender.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// The answers so far.
#[derive(Debug, Default)]
struct Answers {
    contents: Vec<Vec<u8>>,
    complete: bool,
    interrupted: bool,
}

impl Answers {
    /// Reads the messages of one datagram.
    fn read(&mut self, mut bytes: &[u8], wanted: u16) -> io::Result<()> {
        if bytes.is_empty() {
            return Err(cut_short());
        }
        while !bytes.is_empty() && !self.complete {
            let two = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
            let four =
                |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
            let (Some(length), Some(kind), Some(flags)) = (four(0), two(4), two(6)) else {
                return Err(cut_short());
            };
            let length = length as usize;
            let content = bytes.get(HEAD..length).ok_or_else(cut_short)?;
            self.interrupted |= flags & INTERRUPTED != 0;
            match kind {
                ERROR => match four(HEAD).map(u32::cast_signed) {
                    Some(0) => self.complete = true,
                    // The kernel sends a negative error number.
                    Some(error) => {
                        return Err(io::Error::from_raw_os_error(error.saturating_neg()));
                    }
                    None => return Err(cut_short()),
                },
                DONE => self.complete = true,
                _ => {
                    if kind == wanted {
                        self.contents.push(content.to_owned());
                    }
                    self.complete = flags & MULTI == 0;
                }
            }
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(())
    }
}

fn cut_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel's answer has an unexpected format",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> io::Result<Answers> {
        let mut answers = Answers::default();
        answers.read(bytes, 36)?;
        Ok(answers)
    }

    #[test]
    fn lists_end_with_the_last_message() {
        let first = [message(36, MULTI, b"1234"), message(40, MULTI, b"5678")].concat();
        let mut answers = read(&first).unwrap();
        assert!(!answers.complete);
        let rest = [message(36, MULTI, b"abcd"), message(DONE, MULTI, &[0; 4])].concat();
        answers.read(&rest, 36).unwrap();
        assert!(answers.complete && !answers.interrupted);
        assert_eq!(answers.contents, [b"1234", b"abcd"]);
    }

    #[test]
    fn single_answers_and_errors_differ() {
        let answers = read(&message(36, 0, b"1234")).unwrap();
        assert!(answers.complete);
        let refused = read(&message(ERROR, 0, &(-101_i32).to_ne_bytes()));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(101));
        let changed = message(36, MULTI | INTERRUPTED, b"1234");
        assert!(read(&changed).unwrap().interrupted);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&bytes);
        }
    }
}
