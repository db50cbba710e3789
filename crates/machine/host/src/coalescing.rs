//! Interrupt coalescing of a network card, as shown by `ethtool -c`. No file contains it, so it is
//! read through the generic netlink family `ethtool`
//! (`Documentation/networking/ethtool-netlink.rst`, COALESCE_GET).

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::ethtool::{self, Parameter, Width};

/// `ETHTOOL_MSG_COALESCE_GET`.
const GET: u8 = 19;

/// The parameters of both directions (`ETHTOOL_A_COALESCE_…` in
/// `include/uapi/linux/ethtool_netlink.h`).
const PARAMETERS: [Parameter; 6] = [
    ("adaptive-rx", 11, Width::Switch),
    ("rx-usecs", 2, Width::Number),
    ("rx-frames", 3, Width::Number),
    ("adaptive-tx", 12, Width::Switch),
    ("tx-usecs", 6, Width::Number),
    ("tx-frames", 7, Width::Number),
];

/// The direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The card receives them.
    Receive,
    /// The card sends them.
    Transmit,
}

/// Delays of the interrupts of one direction. A parameter that the driver does not report is
/// `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Whether the driver adapts the parameters to the traffic.
    pub adaptive: Option<bool>,
    /// Longest delay from a packet to its interrupt, in microseconds.
    pub micros: Option<u32>,
    /// Number of packets that end the delay early.
    pub frames: Option<u32>,
}

/// Interrupt coalescing of a card.
///
/// Displayed as, for example, `adaptive-rx off, rx-usecs 3, rx-frames 32, tx-usecs 50`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Interrupts for received packets.
    pub receive: Delays,
    /// Interrupts after packets were sent.
    pub transmit: Delays,
}

impl Coalescing {
    /// Reads the coalescing of the card `device`.
    ///
    /// # Errors
    /// Returns the kernel's error: `Unsupported` if the driver has no coalescing, `ENODEV` if this
    /// network namespace has no such device.
    pub fn read(device: &str) -> io::Result<Self> {
        Ok(Self::parse(&ethtool::ask(device, GET)?))
    }

    /// Returns the attributes that name `device` and set the parameters that are not `None`.
    ///
    /// # Errors
    /// Returns an error if the name is not valid for a device.
    pub fn request(&self, device: &str) -> io::Result<Vec<u8>> {
        ethtool::request(device, PARAMETERS, self.values())
    }

    /// Returns a coalescing with parameters of one direction only.
    pub fn only(direction: Direction, delays: Delays) -> Self {
        let none = Self::default();
        match direction {
            Direction::Receive => Self {
                receive: delays,
                ..none
            },
            Direction::Transmit => Self {
                transmit: delays,
                ..none
            },
        }
    }

    /// Returns the parameters of one direction.
    pub fn of(&self, direction: Direction) -> Delays {
        match direction {
            Direction::Receive => self.receive,
            Direction::Transmit => self.transmit,
        }
    }

    /// Returns the values in the order of [`PARAMETERS`].
    fn values(&self) -> [Option<u128>; 6] {
        let of = |delays: Delays| {
            [
                delays.adaptive.map(u128::from),
                delays.micros.map(u128::from),
                delays.frames.map(u128::from),
            ]
        };
        let ([a, b, c], [d, e, f]) = (of(self.receive), of(self.transmit));
        [a, b, c, d, e, f]
    }

    fn of_values([a, b, c, d, e, f]: [Option<u128>; 6]) -> Self {
        let number = |value: Option<u128>| value.and_then(|value| u32::try_from(value).ok());
        let delays = |adaptive: Option<u128>, micros, frames| Delays {
            adaptive: adaptive.map(|on| on != 0),
            micros: number(micros),
            frames: number(frames),
        };
        Self {
            receive: delays(a, b, c),
            transmit: delays(d, e, f),
        }
    }

    fn parse(answer: &[u8]) -> Self {
        Self::of_values(ethtool::parameters_in(answer, PARAMETERS))
    }
}

impl fmt::Display for Coalescing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ethtool::show(f, PARAMETERS, self.values())
    }
}

/// Error for a text that is not a [`Coalescing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not of the form 'adaptive-rx off, rx-usecs 3, rx-frames 32'")]
pub struct CoalescingError(String);

impl FromStr for Coalescing {
    type Err = CoalescingError;

    fn from_str(words: &str) -> Result<Self, CoalescingError> {
        let values = ethtool::parse(words, PARAMETERS);
        let wrong = || CoalescingError(words.chars().take(80).collect());
        values.map(Self::of_values).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_read_as_an_answer() {
        let receive = Delays {
            adaptive: Some(true),
            micros: Some(3),
            frames: None,
        };
        let transmit = Delays {
            adaptive: Some(false),
            micros: None,
            frames: Some(64),
        };
        let all = Coalescing { receive, transmit };
        let request = all.request("eth0").unwrap();
        assert_eq!(Coalescing::parse(&request), all);
        assert_eq!(
            all.to_string(),
            "adaptive-rx on, rx-usecs 3, adaptive-tx off, tx-frames 64"
        );
        for (direction, delays) in [
            (Direction::Receive, receive),
            (Direction::Transmit, transmit),
        ] {
            assert_eq!(all.of(direction), delays);
            assert_eq!(Coalescing::only(direction, delays).of(direction), delays);
        }
        let only = Coalescing::only(Direction::Transmit, transmit);
        assert_eq!(only.to_string(), "adaptive-tx off, tx-frames 64");
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
            "tx-usecs-irq 1",
            "rx-usecs 1, rx-usecs 1",
        ] {
            assert!(text.parse::<Coalescing>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn its_text_is_read_back(
            adaptive: Option<bool>,
            micros: Option<u32>,
            frames in 0_u32..,
            sent: Option<u32>,
        ) {
            let receive = Delays { adaptive, micros, frames: Some(frames) };
            let transmit = Delays { adaptive: None, micros: sent, frames: sent };
            let coalescing = Coalescing { receive, transmit };
            prop_assert_eq!(coalescing.to_string().parse(), Ok(coalescing));
        }

        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,40}") {
            let _ = Coalescing::parse(&bytes);
            let _ = text.parse::<Coalescing>();
        }
    }
}
