//! Interrupt coalescing of a network card, as shown by `ethtool -c`. No file contains it, so it is
//! read through the generic netlink family `ethtool`
//! (`Documentation/networking/ethtool-netlink.rst`, COALESCE_GET).

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::netlink::{Attributes, Netlink, append_attribute, put_nest, text};

/// Name of the generic netlink family.
pub const ETHTOOL: &str = "ethtool";
/// `ETHTOOL_MSG_COALESCE_GET`.
const GET: u8 = 19;
/// `ETHTOOL_A_COALESCE_HEADER`: identifies the device.
const HEADER: u16 = 1;
/// `ETHTOOL_A_HEADER_DEV_NAME`.
const DEVICE: u16 = 2;
/// Longer than the name of any device (`IFNAMSIZ`).
const NAME: usize = 16;

/// Type of a parameter in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// One byte, 0 or 1.
    Switch,
    /// Four bytes.
    Number,
}

/// Parameters for received packets, with their names in ethtool(8) (`ETHTOOL_A_COALESCE_…` in
/// `include/uapi/linux/ethtool_netlink.h`).
const PARAMETERS: [(&str, u16, Width); 3] = [
    ("adaptive-rx", 11, Width::Switch),
    ("rx-usecs", 2, Width::Number),
    ("rx-frames", 3, Width::Number),
];

/// Interrupt coalescing of received packets. A parameter that the driver does not report is `None`.
///
/// Displayed as, for example, `adaptive-rx off, rx-usecs 3, rx-frames 32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Whether the driver adapts the parameters to the traffic.
    pub adaptive: Option<bool>,
    /// Longest delay from a packet to its interrupt, in microseconds.
    pub micros: Option<u32>,
    /// Number of received packets that end the delay early.
    pub frames: Option<u32>,
}

impl Coalescing {
    /// Reads the coalescing of the card `device`.
    ///
    /// # Errors
    /// Returns the kernel's error: `Unsupported` if the driver has no coalescing, `ENODEV` if this
    /// network namespace has no such device.
    pub fn read(device: &str) -> io::Result<Self> {
        let link = Netlink::open(ETHTOOL)?;
        let answer = link.ask(GET, &header(device)?)?;
        Ok(Self::parse(&answer))
    }

    /// Returns the attributes that name `device` and set the parameters that are not `None`.
    ///
    /// # Errors
    /// Returns an error if the name is not valid for a device.
    pub fn request(&self, device: &str) -> io::Result<Vec<u8>> {
        let mut bytes = header(device)?;
        for ((_, number, width), value) in PARAMETERS.into_iter().zip(self.values()) {
            match (value, width) {
                (Some(value), Width::Switch) => {
                    append_attribute(&mut bytes, number, &[u8::from(value != 0)])
                }
                (Some(value), Width::Number) => {
                    append_attribute(&mut bytes, number, &value.to_ne_bytes())
                }
                (None, _) => {}
            }
        }
        Ok(bytes)
    }

    /// Returns the values in the order of [`PARAMETERS`].
    fn values(&self) -> [Option<u32>; 3] {
        [self.adaptive.map(u32::from), self.micros, self.frames]
    }

    fn of_values([adaptive, micros, frames]: [Option<u32>; 3]) -> Self {
        Self {
            adaptive: adaptive.map(|on| on != 0),
            micros,
            frames,
        }
    }

    fn parse(answer: &[u8]) -> Self {
        let value = |(_, wanted, width): (&str, u16, Width)| {
            let (_, bytes) = Attributes(answer).find(|(number, _)| *number == wanted)?;
            match width {
                Width::Switch => bytes.first().map(|byte| u32::from(*byte)),
                Width::Number => Some(u32::from_ne_bytes(bytes.try_into().ok()?)),
            }
        };
        Self::of_values(PARAMETERS.map(value))
    }
}

/// Returns the attribute that names the device.
fn header(device: &str) -> io::Result<Vec<u8>> {
    if device.is_empty() || device.len() >= NAME || device.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut name = Vec::new();
    append_attribute(&mut name, DEVICE, &text(device));
    let mut bytes = Vec::new();
    put_nest(&mut bytes, HEADER, &name);
    Ok(bytes)
}

impl fmt::Display for Coalescing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for ((name, _, width), value) in PARAMETERS.into_iter().zip(self.values()) {
            match (value, width) {
                (None, _) => continue,
                (Some(value), Width::Number) => write!(f, "{before}{name} {value}")?,
                (Some(0), Width::Switch) => write!(f, "{before}{name} off")?,
                (Some(_), Width::Switch) => write!(f, "{before}{name} on")?,
            }
            before = ", ";
        }
        Ok(())
    }
}

/// Error for a text that is not a [`Coalescing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not of the form 'adaptive-rx off, rx-usecs 3, rx-frames 32'")]
pub struct CoalescingError(String);

impl FromStr for Coalescing {
    type Err = CoalescingError;

    fn from_str(words: &str) -> Result<Self, CoalescingError> {
        let wrong = || CoalescingError(words.chars().take(80).collect());
        let mut values = [None; 3];
        for part in words.split(", ") {
            let (name, value) = part.split_once(' ').ok_or_else(wrong)?;
            let at = PARAMETERS.iter().position(|(known, ..)| *known == name);
            let at = at.ok_or_else(wrong)?;
            let value = match (PARAMETERS[at].2, value) {
                (Width::Switch, "off") => 0,
                (Width::Switch, "on") => 1,
                (Width::Number, number) => number.parse().map_err(|_| wrong())?,
                (Width::Switch, _) => return Err(wrong()),
            };
            if values[at].replace(value).is_some() {
                return Err(wrong());
            }
        }
        Ok(Self::of_values(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_read_as_an_answer() {
        let all = Coalescing {
            adaptive: Some(true),
            micros: Some(3),
            frames: None,
        };
        let request = all.request("eth0").unwrap();
        assert_eq!(Coalescing::parse(&request), all);
        // The device's name is first, in a nested attribute.
        let (number, nest) = Attributes(&request).next().unwrap();
        assert_eq!(number, HEADER);
        assert_eq!(Attributes(nest).next(), Some((DEVICE, &b"eth0\0"[..])));
        for name in ["", "a\0b", "sixteen-letters-"] {
            assert!(all.request(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_kernel_lists_its_devices() {
        // The loopback interface does not support coalescing and exists in every network namespace.
        let error = Coalescing::read("lo").unwrap_err();
        if error.kind() != io::ErrorKind::Unsupported {
            punctual_testing::skip_refused("the family ethtool is not to be had", &error);
            return;
        }
        let none = Coalescing::read("no-such-card").unwrap_err();
        assert_eq!(none.raw_os_error(), Some(19), "{none}");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "rx-usecs",
            "rx-usecs -1",
            "adaptive-rx 1",
            "tx-usecs 1",
            "rx-usecs 1, rx-usecs 1",
        ] {
            assert!(text.parse::<Coalescing>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn its_text_is_read_back(adaptive: Option<bool>, micros: Option<u32>, frames in 0_u32..) {
            let coalescing = Coalescing { adaptive, micros, frames: Some(frames) };
            prop_assert_eq!(coalescing.to_string().parse(), Ok(coalescing));
        }

        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,40}") {
            let _ = Coalescing::parse(&bytes);
            let _ = text.parse::<Coalescing>();
        }
    }
}
