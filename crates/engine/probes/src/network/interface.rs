//! Network interfaces.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

/// An Ethernet interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) address: [u8; 6],
}

impl Interface {
    /// Finds an interface by its name.
    ///
    /// # Errors
    /// Returns the reason if there is no such interface, if it has no Ethernet address, or if it is
    /// down.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let all = getifaddrs().map_err(|error| error.to_string())?;
        let mut names = Vec::new();
        let mut found = None;
        for one in all {
            if one.interface_name == name {
                let link = one
                    .address
                    .as_ref()
                    .and_then(|address| address.as_link_addr());
                let address = link.and_then(nix::sys::socket::LinkAddr::addr);
                found = Some((one.flags, address))
                    .filter(|(_, address)| address.is_some())
                    .or(found);
            } else if !names.contains(&one.interface_name) {
                names.push(one.interface_name);
            }
        }
        let index = if_nametoindex(name).ok().zip(found);
        let Some((index, (flags, address))) = index else {
            return Err(format!(
                "there is no such interface: choose one of {}",
                names.join(", ")
            ));
        };
        let loopback = flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let Some(address) = address.filter(|_| !loopback) else {
            return Err("it is not an Ethernet interface".to_owned());
        };
        for (flag, reason) in [
            (InterfaceFlags::IFF_UP, "it is down (ip link set NAME up)"),
            (
                InterfaceFlags::IFF_RUNNING,
                "it has no link: is the cable plugged in at both ends?",
            ),
        ] {
            if !flags.contains(flag) {
                return Err(reason.to_owned());
            }
        }
        Ok(Self { index, address })
    }
}

/// Parses an Ethernet address: `02:00:5e:00:53:01`.
pub(super) fn address(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split([':', '-']);
    let mut address = [0; 6];
    for byte in &mut address {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let known = [2, 0, 0x5e, 0, 0x53, 0xff];
        assert_eq!(address("02:00:5e:00:53:ff"), Some(known));
        assert_eq!(address("02-00-5E-00-53-FF"), Some(known));
        for text in [
            "",
            "02:00:5e:00:53",
            "02:00:5e:00:53:ff:01",
            "2:0:5e:0:53:ff",
            "host",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn other_interfaces_are_refused() {
        let error = Interface::named("no-such-interface").unwrap_err();
        assert!(error.starts_with("there is no such interface"), "{error}");
        assert_eq!(
            Interface::named("lo").unwrap_err(),
            "it is not an Ethernet interface"
        );
    }
}
