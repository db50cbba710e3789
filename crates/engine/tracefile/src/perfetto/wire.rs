//! The encoding of Protocol Buffers (<https://protobuf.dev/programming-guides/encoding>).

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the number, or 0 for bytes.
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    /// Returns the bytes, which are empty for a number.
    pub(super) const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }
}

/// The fields of a message, up to the first damaged one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a>(pub(super) &'a [u8]);

impl<'a> Message<'a> {
    /// Returns the value of a field that is not repeated.
    pub(super) fn get(self, number: u64) -> Option<Value<'a>> {
        self.filter(|(of, _)| *of == number)
            .last()
            .map(|(_, value)| value)
    }

    /// Returns the first value of a repeated field.
    pub(super) fn get_first(mut self, number: u64) -> Option<Value<'a>> {
        self.find(|(of, _)| *of == number).map(|(_, value)| value)
    }

    /// Returns the number in a field, or 0 if it is absent.
    pub(super) fn number(self, number: u64) -> u64 {
        self.get(number).map_or(0, Value::number)
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let field = field(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        field
    }
}

/// Reads a number of up to 64 bits, and removes it from the bytes.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], size: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(size).ok()?)?;
    *bytes = rest;
    Some(taken)
}

fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = varint(bytes)?;
    let value = match key & 7 {
        0 => Value::Number(varint(bytes)?),
        1 => Value::Number(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?)),
        2 => {
            let size = varint(bytes)?;
            Value::Bytes(take(bytes, size)?)
        }
        5 => Value::Number(u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?).into()),
        _ => return None,
    };
    (key >> 3 != 0).then_some((key >> 3, value))
}

/// Returns the numbers of a repeated field, whether they are packed or not.
pub(super) fn numbers(message: Message<'_>, number: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for (_, value) in message.filter(|(of, _)| *of == number) {
        match value {
            Value::Number(number) => all.push(number),
            Value::Bytes(mut packed) => {
                while let Some(number) = varint(&mut packed) {
                    all.push(number);
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_at_the_first_damage() {
        // 1: 150, 2: "ab", 3: 5 as 32 bits, then a string that is too long.
        let bytes = [
            0x08, 0x96, 0x01, 0x12, 2, b'a', b'b', 0x1d, 5, 0, 0, 0, 0x12, 9, b'c',
        ];
        let fields: Vec<_> = Message(&bytes).collect();
        assert_eq!(
            fields,
            [
                (1, Value::Number(150)),
                (2, Value::Bytes(b"ab")),
                (3, Value::Number(5))
            ]
        );
        assert_eq!(varint(&mut &[0xff; 11][..]), None);
        // Packed and single numbers.
        assert_eq!(numbers(Message(&[0x0a, 2, 1, 2, 0x08, 3]), 1), [1, 2, 3]);
    }
}
