//! Energy-Efficient Ethernet (IEEE 802.3az) of a network card, as shown by `ethtool --show-eee`. No
//! file contains it, so it is read through the generic netlink family `ethtool`
//! (`Documentation/networking/ethtool-netlink.rst`, EEE_GET).

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::ethtool::{self, MASK, Parameter, Width};
use crate::netlink::Attributes;

/// `ETHTOOL_MSG_EEE_GET`.
const GET: u8 = 23;
/// `ETHTOOL_A_EEE_MODES_OURS`: the link modes that the card advertises. Its mask has those that the
/// card supports.
const MODES: u16 = 2;

/// The parameters, with their names in `ethtool --set-eee`. `active` cannot be set
/// (`ETHTOOL_A_EEE_…` in `include/uapi/linux/ethtool_netlink.h`).
const PARAMETERS: [Parameter; 5] = [
    ("eee", 5, Width::Switch),
    ("active", 4, Width::Switch),
    ("tx-lpi", 6, Width::Switch),
    ("tx-timer", 7, Width::Number),
    ("advertise", MODES, Width::Modes),
];

/// Energy-Efficient Ethernet of a card. A parameter that the driver does not report is `None`.
///
/// Displayed as, for example, `eee on, active off, tx-lpi on, tx-timer 17, advertise 0x28`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eee {
    /// Whether it is switched on.
    pub enabled: Option<bool>,
    /// Whether the link uses it now. The partner must also support it.
    pub active: Option<bool>,
    /// Whether the sending direction of the link sleeps (low-power idle).
    pub sleeps: Option<bool>,
    /// Time without a packet until the sending direction sleeps, in microseconds.
    pub timer_micros: Option<u32>,
    /// Link modes that the card advertises for it, as bits (`ETHTOOL_LINK_MODE_…`).
    pub advertised: Option<u128>,
}

impl Eee {
    /// Reads the parameters of the card `device`.
    ///
    /// # Errors
    /// Returns the kernel's error: `Unsupported` if the driver or all link modes of the card lack
    /// this feature, `ENODEV` if this network namespace has no such device.
    pub fn read(device: &str) -> io::Result<Self> {
        Self::parse(&ethtool::ask(device, GET)?)
    }

    /// Returns the attributes that name `device` and set the parameters that are not `None`.
    ///
    /// # Errors
    /// Returns an error if the name is not valid for a device.
    pub fn request(&self, device: &str) -> io::Result<Vec<u8>> {
        ethtool::request(device, PARAMETERS, self.settable().values())
    }

    /// Returns the parameters that can be set.
    #[must_use]
    pub fn settable(&self) -> Self {
        Self {
            active: None,
            ..*self
        }
    }

    /// Returns the values in the order of [`PARAMETERS`].
    fn values(&self) -> [Option<u128>; 5] {
        [
            self.enabled.map(u128::from),
            self.active.map(u128::from),
            self.sleeps.map(u128::from),
            self.timer_micros.map(u128::from),
            self.advertised,
        ]
    }

    fn of_values([enabled, active, sleeps, timer, advertised]: [Option<u128>; 5]) -> Self {
        let switch = |value: Option<u128>| value.map(|on| on != 0);
        Self {
            enabled: switch(enabled),
            active: switch(active),
            sleeps: switch(sleeps),
            timer_micros: timer.and_then(|micros| u32::try_from(micros).ok()),
            advertised,
        }
    }

    fn parse(answer: &[u8]) -> io::Result<Self> {
        let found = Self::of_values(ethtool::parameters_in(answer, PARAMETERS));
        let modes = Attributes(answer).find(|(number, _)| *number == MODES);
        let supported = modes.and_then(|(_, content)| ethtool::part_of_bits(content, MASK));
        // Some drivers answer even if the hardware cannot do it.
        if supported == Some(0) && found.enabled != Some(true) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(found)
    }
}

impl fmt::Display for Eee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ethtool::show(f, PARAMETERS, self.values())
    }
}

/// Error for a text that is not an [`Eee`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not of the form 'eee on, tx-lpi on, tx-timer 17, advertise 0x28'")]
pub struct EeeError(String);

impl FromStr for Eee {
    type Err = EeeError;

    fn from_str(words: &str) -> Result<Self, EeeError> {
        let values = ethtool::parse(words, PARAMETERS);
        let wrong = || EeeError(words.chars().take(80).collect());
        values.map(Self::of_values).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{append_attribute, put_nest};
    use proptest::prelude::*;

    const ON: &str = "eee on, active on, tx-lpi on, tx-timer 17, advertise 0x28";

    fn answer(enabled: u8, supported: u32) -> Vec<u8> {
        let mut modes = Vec::new();
        append_attribute(&mut modes, 2, &32_u32.to_ne_bytes());
        append_attribute(&mut modes, 4, &0x28_u32.to_ne_bytes());
        append_attribute(&mut modes, MASK, &supported.to_ne_bytes());
        let mut bytes = Vec::new();
        put_nest(&mut bytes, MODES, &modes);
        for (number, value) in [(4, 1), (5, enabled), (6, 1)] {
            append_attribute(&mut bytes, number, &[value]);
        }
        append_attribute(&mut bytes, 7, &17_u32.to_ne_bytes());
        bytes
    }

    #[test]
    fn an_answer_is_shown_as_by_ethtool() {
        assert_eq!(Eee::parse(&answer(1, 0x28)).unwrap().to_string(), ON);
        // A card without a link mode for it does not support it, even if the driver answers.
        let error = Eee::parse(&answer(0, 0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(Eee::parse(&answer(1, 0)).is_ok());
        assert_eq!(Eee::parse(&[]).unwrap(), Eee::default());
    }

    #[test]
    fn state_of_the_link_is_never_set() {
        let found: Eee = ON.parse().unwrap();
        assert_eq!(found.active, Some(true));
        let request = Eee::parse(&found.request("eth0").unwrap()).unwrap();
        assert_eq!(request, found.settable());
        assert_eq!(
            request.to_string(),
            "eee on, tx-lpi on, tx-timer 17, advertise 0x28"
        );
    }

    #[test]
    fn the_kernel_answers_for_each_device() {
        // The loopback interface does not support it and exists in every network namespace.
        let error = Eee::read("lo").unwrap_err();
        if error.kind() != io::ErrorKind::Unsupported {
            punctual_testing::skip_refused("the family ethtool is not to be had", &error);
            return;
        }
        let none = Eee::read("no-such-card").unwrap_err();
        assert_eq!(none.raw_os_error(), Some(19), "{none}");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "eee",
            "eee maybe",
            "advertise 28",
            "advertise 0x+2",
            "advertise 0x",
            "tx-timer -1",
            "eee on, eee on",
        ] {
            assert!(text.parse::<Eee>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn its_text_is_read_back(
            enabled: bool, active: Option<bool>, timer: Option<u32>, modes: Option<u128>,
        ) {
            let eee = Eee {
                enabled: Some(enabled),
                active,
                sleeps: active,
                timer_micros: timer,
                advertised: modes,
            };
            prop_assert_eq!(eee.to_string().parse(), Ok(eee));
        }

        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,40}") {
            let _ = Eee::parse(&bytes);
            let _ = text.parse::<Eee>();
        }
    }
}
