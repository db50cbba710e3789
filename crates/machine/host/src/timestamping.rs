//! Time stamps that a network card can take, as shown by `ethtool -T`. No file contains them, so
//! they are read through the generic netlink family `ethtool`
//! (`Documentation/networking/ethtool-netlink.rst`, TSINFO_GET).

use std::io;

use crate::ethtool::{self, Parameter, Width};

/// `ETHTOOL_MSG_TSINFO_GET`.
const GET: u8 = 25;

/// `ETHTOOL_A_TSINFO_…` in `include/uapi/linux/ethtool_netlink.h`.
const PARAMETERS: [Parameter; 3] = [
    ("timestamping", 2, Width::Modes),
    ("rx-filters", 4, Width::Modes),
    ("phc-index", 5, Width::Number),
];

/// `SOF_TIMESTAMPING_TX_HARDWARE` and `SOF_TIMESTAMPING_RAW_HARDWARE` from
/// `include/uapi/linux/net_tstamp.h`.
const SENT: u128 = 1 | 1 << 6;
/// `SOF_TIMESTAMPING_RX_HARDWARE` and `SOF_TIMESTAMPING_RAW_HARDWARE`.
const RECEIVED: u128 = 1 << 2 | 1 << 6;
/// The bit of `HWTSTAMP_FILTER_ALL`.
const ALL: u128 = 1 << 1;

/// Time stamps that a card can take. They must be enabled first, see hwstamp_ctl(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimestampAbilities {
    /// Whether the card can stamp the frames that it sends.
    pub sent: bool,
    /// Whether the card can stamp every frame that it receives, and not only those of PTP.
    pub received: bool,
    /// Number of the card's clock, which is `/dev/ptpN`.
    pub clock: Option<u32>,
}

impl TimestampAbilities {
    /// Asks the card `device`.
    ///
    /// # Errors
    /// Returns the kernel's error: `Unsupported` before Linux 5.6, `ENODEV` if this network
    /// namespace has no such device.
    pub fn read(device: &str) -> io::Result<Self> {
        Ok(Self::parse(&ethtool::ask(device, GET)?))
    }

    fn parse(answer: &[u8]) -> Self {
        let [abilities, filters, clock] = ethtool::parameters_in(answer, PARAMETERS);
        let has = |bits: u128| abilities.is_some_and(|known| known & bits == bits);
        Self {
            sent: has(SENT),
            received: has(RECEIVED) && filters.is_some_and(|known| known & ALL != 0),
            clock: clock.and_then(|number| u32::try_from(number).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_are_read_from_the_bits() {
        let parse = |values: [Option<u128>; 3]| {
            let answer = ethtool::request("eth0", PARAMETERS, values).unwrap();
            TimestampAbilities::parse(&answer)
        };
        // An i210: all stamps, all filters, the first clock.
        let all = parse([Some(0x5f), Some(0b11), Some(0)]);
        let expected = TimestampAbilities {
            sent: true,
            received: true,
            clock: Some(0),
        };
        assert_eq!(all, expected);
        // A card that stamps only received frames of PTP.
        let only_ptp = parse([Some(0x5f), Some(1 | 1 << 12), Some(3)]);
        assert_eq!((only_ptp.sent, only_ptp.received), (true, false));
        // The software stamps of a virtual interface.
        let software = parse([Some(0x1a), None, None]);
        assert_eq!(software, TimestampAbilities::default());
        assert_eq!(parse([None; 3]), TimestampAbilities::default());
    }

    #[test]
    fn loopback_has_no_card() {
        match TimestampAbilities::read("lo") {
            Ok(abilities) => assert_eq!(abilities, TimestampAbilities::default()),
            Err(error) => punctual_testing::skip_refused("the stamps of lo", &error),
        }
    }
}
