//! Requests of the generic netlink family `ethtool` for one network card, and the words that
//! ethtool(8) uses for their parameters (`Documentation/networking/ethtool-netlink.rst`).

use std::fmt;
use std::io;

use crate::netlink::{Attributes, Netlink, append_attribute, put_nest, text};

/// Name of the generic netlink family.
pub const ETHTOOL: &str = "ethtool";
/// Number of the attribute that identifies the device, for all commands (`ETHTOOL_A_…_HEADER`).
pub(crate) const HEADER: u16 = 1;
/// `ETHTOOL_A_HEADER_DEV_NAME`.
pub(crate) const DEVICE: u16 = 2;
/// `ETHTOOL_A_HEADER_FLAGS`.
const FLAGS: u16 = 3;
/// `ETHTOOL_FLAG_COMPACT_BITSETS`: the kernel answers with bits instead of names.
const COMPACT: u32 = 1;
/// Longer than the name of any device (`IFNAMSIZ`).
const NAME: usize = 16;

/// `ETHTOOL_A_BITSET_NOMASK`: the value replaces all bits.
const NO_MASK: u16 = 1;
/// `ETHTOOL_A_BITSET_SIZE`: number of bits.
const SIZE: u16 = 2;
/// `ETHTOOL_A_BITSET_VALUE`.
const VALUE: u16 = 4;
/// `ETHTOOL_A_BITSET_MASK`.
pub(crate) const MASK: u16 = 5;

/// Type of a parameter in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// One byte, 0 or 1.
    Switch,
    /// Four bytes.
    Number,
    /// A set of link modes.
    Modes,
}

/// A parameter: its name in ethtool(8), its attribute, and its type.
pub(crate) type Parameter = (&'static str, u16, Width);

/// Returns the attributes that name `device`, and set the parameters whose value is not `None`.
///
/// # Errors
/// Returns an error if the name is not valid for a device.
pub(crate) fn request<const N: usize>(
    device: &str,
    parameters: [Parameter; N],
    values: [Option<u128>; N],
) -> io::Result<Vec<u8>> {
    if device.is_empty() || device.len() >= NAME || device.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut name = Vec::new();
    append_attribute(&mut name, DEVICE, &text(device));
    append_attribute(&mut name, FLAGS, &COMPACT.to_ne_bytes());
    let mut bytes = Vec::new();
    put_nest(&mut bytes, HEADER, &name);
    for ((_, number, width), value) in parameters.into_iter().zip(values) {
        let Some(value) = value else { continue };
        match width {
            Width::Switch => append_attribute(&mut bytes, number, &[u8::from(value != 0)]),
            Width::Number => {
                let value = u32::try_from(value).unwrap_or(u32::MAX);
                append_attribute(&mut bytes, number, &value.to_ne_bytes());
            }
            Width::Modes => put_nest(&mut bytes, number, &bits(value)),
        }
    }
    Ok(bytes)
}

/// Asks for the parameters of `device`, and returns the attributes of the answer.
///
/// # Errors
/// Returns the kernel's error: `Unsupported` if the driver has no such parameters, `ENODEV` if this
/// network namespace has no such device.
pub(crate) fn ask(device: &str, command: u8) -> io::Result<Vec<u8>> {
    let link = Netlink::open(ETHTOOL)?;
    link.ask(command, &request(device, [], [])?)
}

/// Returns a set of bits as the content of an attribute. Its size is a multiple of 32 bits, and as
/// small as possible: a kernel refuses bits that it does not know.
fn bits(value: u128) -> Vec<u8> {
    let words = (128 - value.leading_zeros()).div_ceil(32).max(1);
    let mut bytes = Vec::new();
    append_attribute(&mut bytes, NO_MASK, &[]);
    append_attribute(&mut bytes, SIZE, &(32 * words).to_ne_bytes());
    let words = (0..words).flat_map(|word| ((value >> (32 * word)) as u32).to_ne_bytes());
    append_attribute(&mut bytes, VALUE, &words.collect::<Vec<u8>>());
    bytes
}

/// Returns a part of a set of bits: its value, or its [`MASK`]. `None` if the content has another
/// form, or bits that do not fit.
pub(crate) fn part_of_bits(content: &[u8], part: u16) -> Option<u128> {
    let (_, bytes) = Attributes(content).find(|(number, _)| *number == part)?;
    let mut value = 0;
    for (place, word) in bytes.chunks(4).enumerate() {
        let word = u128::from(u32::from_ne_bytes(word.try_into().ok()?));
        match u32::try_from(32 * place) {
            Ok(shift @ 0..=96) => value |= word << shift,
            _ if word == 0 => {}
            _ => return None,
        }
    }
    Some(value)
}

/// Returns the parameters in an answer. A parameter that the driver does not report is `None`.
pub(crate) fn parameters_in<const N: usize>(
    answer: &[u8],
    parameters: [Parameter; N],
) -> [Option<u128>; N] {
    parameters.map(|(_, wanted, width)| {
        let (_, content) = Attributes(answer).find(|(number, _)| *number == wanted)?;
        match width {
            Width::Switch => content.first().map(|byte| u128::from(*byte)),
            Width::Number => Some(u32::from_ne_bytes(content.try_into().ok()?).into()),
            Width::Modes => part_of_bits(content, VALUE),
        }
    })
}

/// Writes the parameters that are not `None`, such as `adaptive-rx off, rx-usecs 3`.
pub(crate) fn show<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    parameters: [Parameter; N],
    values: [Option<u128>; N],
) -> fmt::Result {
    let mut before = "";
    for ((name, _, width), value) in parameters.into_iter().zip(values) {
        match (value, width) {
            (None, _) => continue,
            (Some(value), Width::Number) => write!(f, "{before}{name} {value}")?,
            (Some(value), Width::Modes) => write!(f, "{before}{name} {value:#x}")?,
            (Some(0), Width::Switch) => write!(f, "{before}{name} off")?,
            (Some(_), Width::Switch) => write!(f, "{before}{name} on")?,
        }
        before = ", ";
    }
    Ok(())
}

/// Parses the text that [`show`] writes. Returns `None` for any other text.
pub(crate) fn parse<const N: usize>(
    words: &str,
    parameters: [Parameter; N],
) -> Option<[Option<u128>; N]> {
    let mut values = [None; N];
    for part in words.split(", ") {
        let (name, value) = part.split_once(' ')?;
        let place = parameters.iter().position(|(known, ..)| *known == name)?;
        let value = match (parameters[place].2, value) {
            (Width::Switch, "off") => 0,
            (Width::Switch, "on") => 1,
            (Width::Switch, _) => return None,
            (Width::Number, number) => number.parse::<u32>().ok()?.into(),
            (Width::Modes, number) => {
                let digits = number.strip_prefix("0x")?;
                let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                plain.then(|| u128::from_str_radix(digits, 16).ok())??
            }
        };
        if values[place].replace(value).is_some() {
            return None;
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODES: [Parameter; 1] = [("advertise", 2, Width::Modes)];

    #[test]
    fn device_is_named_before_parameters() {
        let request = request("eth0", MODES, [Some(0x28)]).unwrap();
        let (number, nest) = Attributes(&request).next().unwrap();
        assert_eq!(number, HEADER);
        assert_eq!(Attributes(nest).next(), Some((DEVICE, &b"eth0\0"[..])));
        for name in ["", "a\0b", "sixteen-letters-"] {
            assert!(super::request(name, MODES, [None]).is_err(), "{name}");
        }
    }

    #[test]
    fn few_modes_take_one_word() {
        for (value, words) in [(0, 1), (0x28, 1), (1 << 31, 1), (1 << 32, 2), (1 << 127, 4)] {
            let bits = bits(value);
            let size = Attributes(&bits).find(|(number, _)| *number == SIZE);
            let expected = 32_u32 * words;
            assert_eq!(size.unwrap().1, expected.to_ne_bytes(), "{value:#x}");
            assert_eq!(part_of_bits(&bits, VALUE), Some(value));
        }
    }

    #[test]
    fn modes_beyond_128_are_not_guessed() {
        let words = |last: u32| {
            let mut bytes = Vec::new();
            let value = [1_u32, 0, 0, 0, last].map(u32::to_ne_bytes).concat();
            append_attribute(&mut bytes, VALUE, &value);
            bytes
        };
        assert_eq!(part_of_bits(&words(0), VALUE), Some(1));
        assert_eq!(part_of_bits(&words(1), VALUE), None);
        assert_eq!(part_of_bits(&words(0), MASK), None);
    }

    proptest! {
        #[test]
        fn modes_are_read_as_they_were_written(modes: u128) {
            let request = request("eth0", MODES, [Some(modes)]).unwrap();
            prop_assert_eq!(parameters_in(&request, MODES), [Some(modes)]);
        }

        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,40}") {
            let _ = parameters_in(&bytes, MODES);
            let _ = part_of_bits(&bytes, VALUE);
            let _ = parse(&text, MODES);
        }
    }
}
