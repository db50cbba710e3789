//! Queries to a generic netlink family, for values that no file contains: netlink(7) and
//! `Documentation/userspace-api/netlink/intro.rst` of the kernel.

use std::io;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `NLMSG_ERROR` from `include/uapi/linux/netlink.h`.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLM_F_ACK`: the kernel also acknowledges success.
const ACK: u16 = 4;
/// `GENL_ID_CTRL` of `include/uapi/linux/genetlink.h`, which provides the numbers of the families.
const CONTROLLER: u16 = 0x10;
/// `CTRL_CMD_GETFAMILY`.
const GET_FAMILY: u8 = 3;
/// `CTRL_ATTR_FAMILY_ID`.
const FAMILY_ID: u16 = 1;
/// `CTRL_ATTR_FAMILY_NAME`.
const FAMILY_NAME: u16 = 2;
/// `NLA_F_NESTED`: the attribute contains attributes.
const NESTED: u16 = 0x8000;
/// `NLA_TYPE_MASK`.
const NUMBER: u16 = 0x3fff;

/// Length of the headers in bytes: `struct nlmsghdr`, then `struct genlmsghdr`. The attributes
/// follow these headers.
const HEAD: usize = 16;
const BODY: usize = HEAD + 4;
/// Maximum length of the kernel's messages.
const LARGEST: usize = 32 << 10;
/// The kernel answers before the sending call returns, so this time-out is only a safeguard.
const PATIENCE: Duration = Duration::from_secs(1);

/// A socket for one family of generic netlink.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    family: u16,
    version: u8,
}

impl Netlink {
    /// Opens version 1 of the family with that name, such as `ethtool`.
    ///
    /// # Errors
    /// Returns the kernel's error, which is `NotFound` if there is no such family.
    pub fn open(family: &str) -> io::Result<Self> {
        let kind = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, kind, Some(GENERIC))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let mut link = Self {
            socket,
            family: CONTROLLER,
            version: 1,
        };
        let mut name = Vec::new();
        append_attribute(&mut name, FAMILY_NAME, &text(family));
        let answer = link.ask(GET_FAMILY, &name)?;
        let number = Attributes(&answer).find(|(number, _)| *number == FAMILY_ID);
        let number = number.and_then(|(_, bytes)| <[u8; 2]>::try_from(bytes).ok());
        link.family = u16::from_ne_bytes(number.ok_or_else(cut_short)?);
        Ok(link)
    }

    /// Sends a command to the family and returns the attributes of the answer.
    ///
    /// # Errors
    /// Returns the kernel's error (errno(3)).
    pub fn ask(&self, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
        self.send(command, REQUEST, attributes)?;
        match self.answer()? {
            Answer::Attributes(attributes) => Ok(attributes),
            Answer::Done => Err(cut_short()),
        }
    }

    /// Sends the family a command that has no answer, and waits for the acknowledgement.
    ///
    /// # Errors
    /// Returns the kernel's error (errno(3)).
    pub fn execute(&self, command: u8, attributes: &[u8]) -> io::Result<()> {
        self.send(command, REQUEST | ACK, attributes)?;
        match self.answer()? {
            Answer::Done => Ok(()),
            Answer::Attributes(_) => Err(cut_short()),
        }
    }

    fn send(&self, command: u8, flags: u16, attributes: &[u8]) -> io::Result<()> {
        let message = message(self.family, flags, command, self.version, attributes);
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, &message, SendFlags::empty(), &kernel)?;
        Ok(())
    }

    fn answer(&self) -> io::Result<Answer> {
        let mut bytes = vec![0; LARGEST];
        let (_, length) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.socket, bytes.as_mut_slice(), RecvFlags::TRUNC)
        })
        .map_err(|errno| match errno {
            Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer"),
            other => other.into(),
        })?;
        read(bytes.get(..length).ok_or_else(cut_short)?)
    }
}

/// The kernel's response to a message.
#[derive(Debug)]
enum Answer {
    Attributes(Vec<u8>),
    Done,
}

fn cut_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel's answer has an unexpected format",
    )
}

/// Creates a message. The kernel fills in the sender. Only one message is sent at a time, so the
/// sequence number can be 0.
fn message(family: u16, flags: u16, command: u8, version: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(BODY + attributes.len()).unwrap_or(u32::MAX);
    let mut message = Vec::with_capacity(BODY + attributes.len());
    message.extend(length.to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, version, 0, 0]);
    message.extend(attributes);
    message
}

/// Parses the first message of an answer.
fn read(bytes: &[u8]) -> io::Result<Answer> {
    let number = |at: usize| {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(four))
    };
    let length = number(0).map(|length| length as usize);
    let kind = bytes.get(4..6).and_then(|two| two.try_into().ok());
    let (Some(length), Some(kind)) = (length, kind) else {
        return Err(cut_short());
    };
    let message = bytes.get(..length).ok_or_else(cut_short)?;
    if u16::from_ne_bytes(kind) != ERROR {
        let attributes = message.get(BODY..).ok_or_else(cut_short)?;
        return Ok(Answer::Attributes(attributes.to_owned()));
    }
    match number(HEAD).map(u32::cast_signed) {
        Some(0) => Ok(Answer::Done),
        // The kernel sends a negative error number.
        Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        None => Err(cut_short()),
    }
}

/// Adds an attribute (`struct nlattr`), which consists of length, number and content, padded to a
/// multiple of four bytes.
pub fn append_attribute(attributes: &mut Vec<u8>, number: u16, content: &[u8]) {
    let length = u16::try_from(4 + content.len()).unwrap_or(u16::MAX);
    attributes.extend(length.to_ne_bytes());
    attributes.extend(number.to_ne_bytes());
    attributes.extend(content);
    let odd = attributes.len().next_multiple_of(4);
    attributes.resize(odd, 0);
}

/// Adds an attribute that contains attributes. The rest is as in [`append_attribute`].
pub fn put_nest(attributes: &mut Vec<u8>, number: u16, content: &[u8]) {
    append_attribute(attributes, number | NESTED, content);
}

/// Returns a name in the form that the kernel expects, with a trailing NUL.
pub fn text(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Iterator over the attributes of an answer, each with its number. It stops at an incomplete
/// attribute.
#[derive(Debug)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let two = |at: usize| {
            let bytes = self.0.get(at..at + 2)?.try_into().ok()?;
            Some(u16::from_ne_bytes(bytes))
        };
        let (length, number) = (usize::from(two(0)?), two(2)? & NUMBER);
        let content = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((number, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        append_attribute(&mut bytes, 7, b"abc");
        put_nest(&mut bytes, 1, b"");
        append_attribute(&mut bytes, 9, &5_u32.to_ne_bytes());
        assert_eq!(bytes.len(), 8 + 4 + 8);
        let read: Vec<(u16, &[u8])> = Attributes(&bytes).collect();
        let five = 5_u32.to_ne_bytes();
        assert_eq!(read, [(7, &b"abc"[..]), (1, &[]), (9, &five[..])]);
    }

    #[test]
    fn an_error_is_distinguished_from_an_answer() {
        let error = |number: i32| {
            let mut bytes = message(ERROR, 0, 0, 0, &[]);
            bytes.truncate(HEAD);
            bytes.extend(number.to_ne_bytes());
            read(&bytes)
        };
        assert!(matches!(error(0), Ok(Answer::Done)));
        assert_eq!(error(-95).unwrap_err().raw_os_error(), Some(95));
        let answer = read(&message(20, 0, 1, 1, b"1234")).unwrap();
        assert!(matches!(answer, Answer::Attributes(bytes) if bytes == b"1234"));
    }

    #[test]
    fn nonexistent_family_is_not_found() {
        match Netlink::open("no-such-family") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                punctual_testing::skip_refused("generic netlink is not to be had", &error)
            }
            Ok(_) => panic!("there is such a family"),
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&bytes);
            let all: usize = Attributes(&bytes).map(|(_, content)| content.len() + 4).sum();
            prop_assert!(all <= bytes.len());
        }
    }
}
