//! ICMP echo requests and their replies (RFC 792, RFC 4443).

use std::ops::Range;

/// The smallest payload: token and number.
pub(super) const LEAST_PAYLOAD: usize = 16;
/// The largest payload that fits into one Ethernet frame, also with IPv6.
pub(super) const MOST_PAYLOAD: usize = 1_452;

const HEADER: usize = 8;
const CHECKSUM: Range<usize> = 2..4;
const IDENTIFIER: Range<usize> = 4..6;
const SEQUENCE: Range<usize> = 6..8;
const TOKEN: Range<usize> = 8..16;
const NUMBER: Range<usize> = 16..24;

/// How the frames of a run look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) is_ipv6: bool,
    /// Whether the socket is raw. With IPv4, its user computes the checksum and gets the IP header.
    pub(super) is_raw: bool,
    pub(super) identifier: u16,
    /// Tells the replies of this run from those of other programs.
    pub(super) token: u64,
    pub(super) payload: usize,
}

impl Form {
    /// Returns a frame with room for any number.
    pub(super) fn frame(self) -> Vec<u8> {
        let mut frame = vec![0xa5; HEADER + self.payload];
        frame[..2].copy_from_slice(&[if self.is_ipv6 { 128 } else { 8 }, 0]);
        frame[IDENTIFIER].copy_from_slice(&self.identifier.to_be_bytes());
        frame[TOKEN].copy_from_slice(&self.token.to_ne_bytes());
        frame
    }

    /// Changes the number of a frame.
    pub(super) fn renumber(self, frame: &mut [u8], number: u64) {
        frame[SEQUENCE].copy_from_slice(&(number as u16).to_be_bytes());
        frame[NUMBER].copy_from_slice(&number.to_ne_bytes());
        // In the other cases, the kernel computes it.
        if self.is_raw && !self.is_ipv6 {
            frame[CHECKSUM].fill(0);
            let sum = checksum(frame);
            frame[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Returns the number of the frame that this message answers; `None` if another program's frame
    /// was answered, or if it is not a reply.
    pub(super) fn answered(self, message: &[u8]) -> Option<u64> {
        let message = if self.is_raw && !self.is_ipv6 {
            let words = message.first()? & 0xf;
            message.get(usize::from(words) * 4..)?
        } else {
            message
        };
        let is_reply = message.first()? == &(if self.is_ipv6 { 129 } else { 0 });
        let is_own = message.get(TOKEN)? == self.token.to_ne_bytes();
        let number = message.get(NUMBER)?.try_into().ok()?;
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
            is_ipv6,
            is_raw,
            identifier: 77,
            token: 0x0102_0304_0506_0708,
            payload,
        }
    }

    /// Answers a frame like a host, with an IP header if the socket is raw.
    fn reply(form: Form, frame: &[u8]) -> Vec<u8> {
        let mut reply = frame.to_vec();
        reply[0] = if form.is_ipv6 { 129 } else { 0 };
        if form.is_raw && !form.is_ipv6 {
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
        }
    }

    #[test]
    fn checksum_is_that_of_the_rfc() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
        assert_eq!(checksum(&[0xff, 0xff, 0x01]), !0x0100);
    }
}
