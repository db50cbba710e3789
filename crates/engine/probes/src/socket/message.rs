//! The message that goes and comes back.

/// Bytes of a message: those of the example that the `socket` probe follows.
pub const MESSAGE_BYTES: usize = 30;

/// Bytes that one small write sends of it.
pub(super) const PIECE_BYTES: usize = 2;

/// A message, or the reply to it.
pub(super) type Message = [u8; MESSAGE_BYTES];

/// How each message begins, so that nothing else is answered.
const NAME: &[u8; 8] = b"punctual";
/// Where it says which of the two it is.
const KIND: usize = NAME.len();
const REQUEST: u8 = b'?';
const REPLY: u8 = b'!';
/// Where its number stands, lowest byte first.
const NUMBER: std::ops::Range<usize> = KIND + 1..KIND + 9;

/// The message of that number.
pub(super) fn request(number: u64) -> Message {
    let mut message = [b'.'; MESSAGE_BYTES];
    message[..KIND].copy_from_slice(NAME);
    message[KIND] = REQUEST;
    message[NUMBER].copy_from_slice(&number.to_le_bytes());
    message
}

/// Makes a message the reply to itself. `false` if it is none: a reply is not
/// answered, or two servers could keep each other busy for ever.
pub(super) fn answer(message: &mut Message) -> bool {
    let is_request = message.starts_with(NAME) && message[KIND] == REQUEST;
    if is_request {
        message[KIND] = REPLY;
    }
    is_request
}

/// Which message this is the reply to; `None` if it is no reply.
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
    }
}
