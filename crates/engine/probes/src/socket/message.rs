//! The message and its reply.

/// Size of a message in bytes, as in the example that the `socket` probe follows.
pub const MESSAGE_BYTES: usize = 30;

/// Number of bytes of the message in each small write.
pub(super) const PIECE_BYTES: usize = 2;

/// A message, or the reply to it.
pub(super) type Message = [u8; MESSAGE_BYTES];

/// The start of each message. It ensures that nothing else is answered.
const NAME: &[u8; 8] = b"punctual";
/// The position of the type, which distinguishes messages from replies.
const KIND: usize = NAME.len();
const REQUEST: u8 = b'?';
const REPLY: u8 = b'!';
/// The position of the number of the message, which is little-endian.
const NUMBER: std::ops::Range<usize> = KIND + 1..KIND + 9;

/// The end of each message, which is the same in all of them. A file can therefore hold it.
pub(super) const BODY: [u8; 12] = [b'.'; 12];

/// Returns the message with this number.
pub(super) fn request(number: u64) -> Message {
    let mut message = [b'.'; MESSAGE_BYTES];
    message[..KIND].copy_from_slice(NAME);
    message[KIND] = REQUEST;
    message[NUMBER].copy_from_slice(&number.to_le_bytes());
    message
}

/// Turns a message into its reply. Returns `false` if it is not a message. A reply is not answered,
/// because two servers could otherwise keep each other busy forever.
pub(super) fn answer(message: &mut Message) -> bool {
    let is_request = message.starts_with(NAME) && message[KIND] == REQUEST;
    if is_request {
        message[KIND] = REPLY;
    }
    is_request
}

/// Returns the number of the message that was answered; `None` if this is not a reply.
pub(super) fn number_of_reply(reply: &Message) -> Option<u64> {
    if !reply.starts_with(NAME) || reply[KIND] != REPLY {
        return None;
    }
    let mut number = [0; 8];
    number.copy_from_slice(&reply[NUMBER]);
    Some(u64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once() {
        for number in [0, 1, 0x0102_0304_0506_0708, u64::MAX] {
            let mut message = request(number);
            assert_eq!(number_of_reply(&message), None);
            assert!(answer(&mut message));
            assert_eq!(number_of_reply(&message), Some(number));
            assert!(!answer(&mut message), "a reply is not answered");
        }
        assert!(!answer(&mut [b'x'; MESSAGE_BYTES]));
        assert_eq!(MESSAGE_BYTES % PIECE_BYTES, 0);
        assert!(request(u64::MAX).ends_with(&BODY));
    }
}
