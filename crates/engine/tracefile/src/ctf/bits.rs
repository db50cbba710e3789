//! Reads the fields of packets and events.

use std::rc::Rc;

use super::types::{Choice, Enumeration, Form, Integer, Length, Ranges, Type, Variant};
use crate::dat::parser::Endian;

/// Maximum number of values in one event. The list of threads in a state dump has a few.
const MOST_VALUES: u32 = 1 << 20;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(i128),
    Text(Vec<u8>),
}

/// The fields of a packet or event in their order, without those that are skipped.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    values: Vec<(Rc<str>, Value)>,
    /// The fields with labels.
    labelled: Vec<(Rc<str>, Rc<Enumeration>, i128)>,
    /// The last field that is a time: its value, and its size in bits.
    pub(super) time: Option<(u64, u32)>,
}

impl Values {
    /// Returns the last value of a field. One underscore at the beginning of a name has no meaning.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let mut values = self.values.iter().rev();
        values
            .find(|(of, _)| plain(of) == plain(name))
            .map(|(_, value)| value)
    }

    /// Returns the last value of a field that is a number.
    pub(super) fn number(&self, name: &str) -> Option<i128> {
        match self.get(name)? {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// Returns the last value of a field that is not negative.
    pub(super) fn unsigned(&self, name: &str) -> Option<u64> {
        self.number(name)?.try_into().ok()
    }

    /// Returns all values in their order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.values.iter().map(|(_, value)| value)
    }
}

/// Returns a name without the underscore that distinguishes it from words of the language.
fn plain(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// A place in a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    /// Number of the next bit.
    pub(super) bit: u64,
    /// Number of the first bit after the contents.
    pub(super) end: u64,
    /// Byte order of the trace.
    pub(super) order: Endian,
}

impl Cursor<'_> {
    /// Reads a field with all its parts. Returns `None` if it does not fit into the contents, or
    /// has no valid value.
    pub(super) fn read(&mut self, name: &Rc<str>, of: &Type, values: &mut Values) -> Option<()> {
        self.part(name, of, values, &mut MOST_VALUES.clone())
    }

    fn part(
        &mut self,
        name: &Rc<str>,
        of: &Type,
        values: &mut Values,
        left: &mut u32,
    ) -> Option<()> {
        *left = left.checked_sub(1)?;
        self.align(of.alignment())?;
        match &of.form {
            Form::Integer(integer) => {
                let number = self.integer(integer, values)?;
                values.values.push((Rc::clone(name), Value::Number(number)));
            }
            Form::Leb128 { is_signed, is_time } => {
                let number = self.leb128(*is_signed)?;
                if *is_time {
                    values.time = Some((number as u64, 64));
                }
                values.values.push((Rc::clone(name), Value::Number(number)));
            }
            Form::Enumeration(of) => {
                let number = self.integer(&of.integer, values)?;
                values.values.push((Rc::clone(name), Value::Number(number)));
                let labelled = (Rc::clone(name), Rc::clone(of), number);
                values.labelled.push(labelled);
            }
            Form::Skipped { bits, .. } => self.skip(*bits)?,
            Form::Text => {
                let text = self.until_zero()?;
                values.values.push((Rc::clone(name), Value::Text(text)));
            }
            Form::Structure(structure) => {
                for field in &structure.fields {
                    self.part(&field.name, &field.of, values, left)?;
                    if let Some(role) = &field.role
                        && let Some((_, value)) = values.values.last()
                    {
                        let again = value.clone();
                        values.values.push((Rc::clone(role), again));
                    }
                }
            }
            Form::Variant(variant) => {
                let chosen = Rc::clone(choose(variant, values)?);
                self.part(name, &chosen, values, left)?;
            }
            Form::Optional { tag, ranges, field } => {
                if contains(ranges, values.number(tag)?) {
                    self.part(name, field, values, left)?;
                }
            }
            Form::Array { element, length } => self.array(name, element, length, values, left)?,
        }
        Some(())
    }

    fn array(
        &mut self,
        name: &Rc<str>,
        element: &Type,
        length: &Length,
        values: &mut Values,
        left: &mut u32,
    ) -> Option<()> {
        let length = match length {
            Length::Fixed(length) => *length,
            Length::Of(field) => values.unsigned(field)?,
        };
        if let Form::Integer(integer) = &element.form
            && integer.is_text
            && integer.size == 8
        {
            self.align(8)?;
            let text = self.take(length)?;
            let end = text.iter().position(|byte| *byte == 0);
            let text = text.get(..end.unwrap_or(text.len()))?.to_vec();
            values.values.push((Rc::clone(name), Value::Text(text)));
            return Some(());
        }
        for _ in 0..length {
            self.part(name, element, values, left)?;
        }
        Some(())
    }

    fn align(&mut self, alignment: u64) -> Option<()> {
        self.bit = self.bit.checked_next_multiple_of(alignment)?;
        (self.bit <= self.end).then_some(())
    }

    fn skip(&mut self, bits: u64) -> Option<()> {
        self.bit = self.bit.checked_add(bits)?;
        (self.bit <= self.end).then_some(())
    }

    /// Returns whole bytes.
    fn take(&mut self, bytes: u64) -> Option<&[u8]> {
        let begin = usize::try_from(self.bit / 8).ok()?;
        self.skip(bytes.checked_mul(8)?)?;
        self.bytes.get(begin..)?.get(..usize::try_from(bytes).ok()?)
    }

    fn until_zero(&mut self) -> Option<Vec<u8>> {
        let begin = usize::try_from(self.bit / 8).ok()?;
        let end = usize::try_from(self.end / 8).ok()?;
        let rest = self.bytes.get(begin..end)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        self.skip((length as u64 + 1) * 8)?;
        Some(rest.get(..length)?.to_vec())
    }

    fn integer(&mut self, integer: &Integer, values: &mut Values) -> Option<i128> {
        let bits = self.bits(integer.size, integer.order.unwrap_or(self.order))?;
        if integer.is_time {
            values.time = Some((bits, integer.size));
        }
        let sign = 1_u64 << (integer.size - 1);
        Some(if integer.is_signed && bits & sign != 0 {
            i128::from(bits) - (i128::from(sign) << 1)
        } else {
            i128::from(bits)
        })
    }

    /// Reads a number of 1 to 64 bits. In the byte order of x86, the first bit is the lowest one of
    /// its byte.
    fn bits(&mut self, size: u32, order: Endian) -> Option<u64> {
        let begin = self.bit;
        self.skip(u64::from(size))?;
        let first = usize::try_from(begin / 8).ok()?;
        let last = usize::try_from((self.bit - 1) / 8).ok()?;
        let bytes = self.bytes.get(first..=last)?;
        let before = (begin % 8) as u32;
        let joined = if order.is_big {
            let all = bytes
                .iter()
                .fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
            all >> (bytes.len() as u32 * 8 - before - size)
        } else {
            let bytes = bytes.iter().rev();
            bytes.fold(0_u128, |all, byte| all << 8 | u128::from(*byte)) >> before
        };
        Some((joined & ((1_u128 << size) - 1)) as u64)
    }

    fn leb128(&mut self, is_signed: bool) -> Option<i128> {
        let (mut number, mut shift) = (0_i128, 0);
        loop {
            let byte = *self.take(1)?.first()?;
            number |= i128::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                let is_negative = is_signed && byte & 0x40 != 0;
                return Some(if is_negative {
                    number - (1 << shift)
                } else {
                    number
                });
            }
            if shift > 63 {
                return None;
            }
        }
    }
}

fn contains(ranges: &Ranges, number: i128) -> bool {
    let mut ranges = ranges.iter();
    ranges.any(|(first, last)| (*first..=*last).contains(&number))
}

/// Returns the type that the tag of a variant selects.
fn choose<'a>(variant: &'a Variant, values: &Values) -> Option<&'a Rc<Type>> {
    let by_label = |choice: &&Choice| {
        let mut labelled = values.labelled.iter().rev();
        let tag = labelled.find(|(name, ..)| plain(name) == plain(&variant.tag));
        tag.is_some_and(|(_, enumeration, number)| {
            let mut labels = enumeration.labels.iter();
            labels.any(|(label, ranges)| {
                plain(label) == plain(&choice.label) && contains(ranges, *number)
            })
        })
    };
    let by_value = |choice: &&Choice| {
        let number = values.number(&variant.tag);
        number.is_some_and(|number| contains(&choice.ranges, number))
    };
    let mut choices = variant.choices.iter();
    let chosen = choices.find(|choice| {
        if choice.ranges.is_empty() {
            by_label(choice)
        } else {
            by_value(choice)
        }
    })?;
    Some(&chosen.of)
}

#[cfg(test)]
mod tests {
    use super::super::types::Structure;
    use super::*;

    fn cursor(bytes: &[u8], is_big: bool) -> Cursor<'_> {
        Cursor {
            bytes,
            bit: 0,
            end: bytes.len() as u64 * 8,
            order: Endian { is_big },
        }
    }

    #[test]
    fn bits_follow_the_byte_order() {
        // The header of LTTng: 5 bits of ID, then 27 bits of time.
        let bytes = 0x1234_5678_u32.to_le_bytes();
        let mut little = cursor(&bytes, false);
        assert_eq!(little.bits(5, little.order), Some(0x1234_5678 & 0x1f));
        assert_eq!(little.bits(27, little.order), Some(0x1234_5678 >> 5));
        assert_eq!(little.bits(1, little.order), None);
        let bytes = 0x1234_5678_u32.to_be_bytes();
        let mut big = cursor(&bytes, true);
        assert_eq!(big.bits(5, big.order), Some(0x1234_5678 >> 27));
        assert_eq!(big.bits(27, big.order), Some(0x1234_5678 & 0x7ff_ffff));
        let bytes = [0xff; 9];
        let mut shifted = cursor(&bytes, false);
        assert_eq!(shifted.bits(3, shifted.order), Some(7));
        assert_eq!(shifted.bits(64, shifted.order), Some(u64::MAX));
    }

    #[test]
    fn variable_sizes_are_those_of_leb128() {
        let mut number = cursor(&[0xe5, 0x8e, 0x26, 0xc0, 0xbb, 0x78], false);
        assert_eq!(number.leb128(false), Some(624_485));
        assert_eq!(number.leb128(true), Some(-123_456));
        assert_eq!(cursor(&[0x80; 12], false).leb128(false), None);
    }

    #[test]
    fn endless_arrays_end() {
        let nothing = Form::Structure(Structure {
            alignment: 1,
            fields: Vec::new(),
        });
        let array = Form::Array {
            element: Type::new(nothing).unwrap(),
            length: Length::Fixed(u64::MAX),
        };
        let array = Type::new(array).unwrap();
        let mut values = Values::default();
        assert_eq!(
            cursor(&[], false).read(&"a".into(), &array, &mut values),
            None
        );
    }
}
