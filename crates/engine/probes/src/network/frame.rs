//! Frames and their replies: ICMP echo (RFC 792, RFC 4443), or Ethernet frames that return unchanged.

use std::ops::Range;

/// The smallest payload: token and number.
pub(super) const LEAST_PAYLOAD: usize = 16;
/// The largest payload that fits into one Ethernet frame, also with IPv6.
pub(super) const MOST_PAYLOAD: usize = 1_452;

const HEADER: usize = 8;
const CHECKSUM: Range<usize> = 2..4;
const IDENTIFIER: Range<usize> = 4..6;
const SEQUENCE: Range<usize> = 6..8;

/// The type of our Ethernet frames: the first of IEEE 802 for local experiments.
pub(super) const ETHERTYPE: u16 = 0x88b5;
/// Both addresses and the type.
const ETHERNET_HEADER: usize = 14;

/// Kind of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// ICMP echo.
    Echo {
        is_ipv6: bool,
        /// Whether the socket is raw. With IPv4, its user computes the checksum and gets the IP
        /// header.
        is_raw: bool,
    },
    /// Ethernet frames between these addresses.
    Ethernet { to: [u8; 6], from: [u8; 6] },
}

impl Kind {
    /// Returns the length of the header before the payload.
    const fn header(self) -> usize {
        match self {
            Self::Echo { .. } => HEADER,
            Self::Ethernet { .. } => ETHERNET_HEADER,
        }
    }

    /// Returns whether the user of the socket computes the checksum and gets the IP header.
    const fn has_ip_header(self) -> bool {
        matches!(
            self,
            Self::Echo {
                is_ipv6: false,
                is_raw: true
            }
        )
    }

    /// Returns the position of the token, which the number follows.
    const fn token(self) -> Range<usize> {
        self.header()..self.header() + 8
    }

    const fn number(self) -> Range<usize> {
        self.header() + 8..self.header() + 16
    }
}

/// How the frames of a run look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) kind: Kind,
    pub(super) identifier: u16,
    /// Tells the replies of this run from those of other programs.
    pub(super) token: u64,
    pub(super) payload: usize,
}

impl Form {
    /// Returns a frame with room for any number.
    pub(super) fn frame(self) -> Vec<u8> {
        let mut frame = vec![0xa5; self.kind.header() + self.payload];
        match self.kind {
            Kind::Echo { is_ipv6, .. } => {
                frame[..2].copy_from_slice(&[if is_ipv6 { 128 } else { 8 }, 0]);
                frame[IDENTIFIER].copy_from_slice(&self.identifier.to_be_bytes());
            }
            Kind::Ethernet { to, from } => {
                frame[..6].copy_from_slice(&to);
                frame[6..12].copy_from_slice(&from);
                frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
            }
        }
        frame[self.kind.token()].copy_from_slice(&self.token.to_ne_bytes());
        frame
    }

    /// Changes the number of a frame.
    pub(super) fn renumber(self, frame: &mut [u8], number: u64) {
        frame[self.kind.number()].copy_from_slice(&number.to_ne_bytes());
        if let Kind::Echo { .. } = self.kind {
            frame[SEQUENCE].copy_from_slice(&(number as u16).to_be_bytes());
        }
        // In the other cases, the kernel computes it, or there is none.
        if self.kind.has_ip_header() {
            frame[CHECKSUM].fill(0);
            let sum = checksum(frame);
            frame[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Returns the number of the frame that this message answers; `None` if another program's frame
    /// was answered, or if it is not a reply.
    pub(super) fn answered(self, message: &[u8]) -> Option<u64> {
        let message = if self.kind.has_ip_header() {
            let words = message.first()? & 0xf;
            message.get(usize::from(words) * 4..)?
        } else {
            message
        };
        let is_reply = match self.kind {
            Kind::Echo { is_ipv6, .. } => message.first()? == &(if is_ipv6 { 129 } else { 0 }),
            // The socket receives no frames that this machine has sent.
            Kind::Ethernet { .. } => message.get(12..14)? == ETHERTYPE.to_be_bytes(),
        };
        let is_own = message.get(self.kind.token())? == self.token.to_ne_bytes();
        let number = message.get(self.kind.number())?.try_into().ok()?;
        (is_reply && is_own).then_some(u64::from_ne_bytes(number))
    }
}

/// Returns the Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(2);
    let mut sum: u32 = words
        .by_ref()
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    sum += words
        .remainder()
        .first()
        .map_or(0, |byte| u32::from(*byte) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(is_ipv6: bool, is_raw: bool, payload: usize) -> Form {
        Form {
            kind: Kind::Echo { is_ipv6, is_raw },
            identifier: 77,
            token: 0x0102_0304_0506_0708,
            payload,
        }
    }

    fn ethernet(payload: usize) -> Form {
        Form {
            kind: Kind::Ethernet {
                to: *b"\x02aaaaa",
                from: *b"\x02bbbbb",
            },
            ..form(false, false, payload)
        }
    }

    /// Answers a frame like a host, with an IP header if the socket is raw.
    fn reply(form: Form, frame: &[u8]) -> Vec<u8> {
        let mut reply = frame.to_vec();
        let is_ipv6 = matches!(form.kind, Kind::Echo { is_ipv6: true, .. });
        reply[0] = if is_ipv6 { 129 } else { 0 };
        if form.kind.has_ip_header() {
            let mut whole = vec![0; 24];
            whole[0] = 0x46;
            whole.extend(reply);
            return whole;
        }
        reply
    }

    proptest! {
        #[test]
        fn reply_has_the_number(
            number: u64,
            is_ipv6: bool,
            is_raw: bool,
            payload in LEAST_PAYLOAD..=MOST_PAYLOAD,
        ) {
            let form = form(is_ipv6, is_raw, payload);
            let mut frame = form.frame();
            form.renumber(&mut frame, number);
            prop_assert_eq!(frame.len(), 8 + payload);
            if is_raw && !is_ipv6 {
                prop_assert_eq!(checksum(&frame), 0, "the sum over a valid frame");
            }
            let reply = reply(form, &frame);
            prop_assert_eq!(form.answered(&reply), Some(number));
            prop_assert_eq!(form.answered(&frame), None, "a request is not a reply");
            let other = Form { token: 1, ..form };
            prop_assert_eq!(other.answered(&reply), None);
        }

        #[test]
        fn any_message_is_read(message: Vec<u8>, is_ipv6: bool, is_raw: bool) {
            prop_assert_eq!(form(is_ipv6, is_raw, 64).answered(&message), None);
            prop_assert_eq!(ethernet(64).answered(&message), None);
        }

        #[test]
        fn ethernet_frame_returns_with_its_number(
            number: u64,
            payload in LEAST_PAYLOAD..=MOST_PAYLOAD,
            swapped: bool,
        ) {
            let form = ethernet(payload);
            let mut frame = form.frame();
            form.renumber(&mut frame, number);
            prop_assert_eq!(frame.len(), 14 + payload);
            prop_assert_eq!(&frame[..14], b"\x02aaaaa\x02bbbbb\x88\xb5");
            if swapped {
                frame[..12].rotate_left(6);
            }
            prop_assert_eq!(form.answered(&frame), Some(number));
            let other = Form { token: 1, ..form };
            prop_assert_eq!(other.answered(&frame), None);
        }
    }

    #[test]
    fn checksum_is_that_of_the_rfc() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
        assert_eq!(checksum(&[0xff, 0xff, 0x01]), !0x0100);
    }
}
