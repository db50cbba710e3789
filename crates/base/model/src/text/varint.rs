//! Numbers in the compact binary form of the store: unsigned LEB128.

/// Appends a number, seven bits per byte, the lowest first.
pub fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front of the bytes. `None` if the bytes end inside the number, or if it
/// does not fit into a `u64`.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        for (number, encoded) in [
            (0, vec![0]),
            (0x7f, vec![0x7f]),
            (0x80, vec![0x80, 1]),
            (300, vec![0xac, 2]),
            (0x3fff, vec![0xff, 0x7f]),
            (0x4000, vec![0x80, 0x80, 1]),
            (u64::MAX, [vec![0xff; 9], vec![1]].concat()),
        ] {
            let mut bytes = vec![7];
            push_varint(&mut bytes, number);
            assert_eq!(bytes[1..], encoded);
            bytes.push(9);
            let mut rest = &bytes[1..];
            assert_eq!(take_varint(&mut rest), Some(number));
            assert_eq!(rest, [9], "the next number stays");
        }
    }

    #[test]
    fn incomplete_number_is_none() {
        for bytes in [vec![], vec![0x80], vec![0xff; 9], vec![0x80; 11]] {
            assert_eq!(take_varint(&mut bytes.as_slice()), None, "{bytes:?}");
        }
    }
}
