//! Finds the interrupts of network cards.

use std::collections::BTreeSet;

use crate::Role;
use crate::fact_reader::FactReader;

/// The message-signalled interrupts of each card, by number.
const MESSAGES: &str = "/sys/class/net/*/device/msi_irqs/#";
/// The message-signalled interrupts of the device above each card. With virtio, the card itself
/// has none.
const MESSAGES_ABOVE: &str = "/sys/class/net/*/device/../msi_irqs/#";
/// The driver and, on boards, the place in the device tree of each card.
const DEVICES: &str = "/sys/class/net/*/device/uevent";
/// The names of the handlers of each interrupt.
pub(super) const ACTIONS: &str = "/sys/kernel/irq/#/actions";

/// All files that [`CardInterrupts`] reads.
pub(super) const CARD_FILES: [&str; 4] = [ACTIONS, DEVICES, MESSAGES, MESSAGES_ABOVE];

/// The interrupts of all network cards.
#[derive(Debug, Default)]
pub(super) struct CardInterrupts {
    numbers: BTreeSet<String>,
}

impl CardInterrupts {
    /// Returns the interrupts that belong on the measured CPUs: those of the network cards if the
    /// machine has the role network, otherwise none.
    pub(super) fn expected(reader: &FactReader) -> Self {
        if reader.role == Role::Network {
            Self::find(reader)
        } else {
            Self::default()
        }
    }

    fn find(reader: &FactReader) -> Self {
        let files = |pattern| reader.files(pattern).unwrap_or_default();
        let mut numbers = BTreeSet::new();
        let mut names = BTreeSet::new();
        let mut virtio = BTreeSet::new();
        for (file, text) in files(DEVICES) {
            let card = card_of(file);
            names.insert(card.to_owned());
            for line in text.lines() {
                match line.split_once('=') {
                    Some(("DRIVER", "virtio_net")) => drop(virtio.insert(card)),
                    Some(("OF_FULLNAME", path)) => names.extend(platform_name(path)),
                    _ => {}
                }
            }
        }
        let last = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
        numbers.extend(files(MESSAGES).iter().map(|(file, _)| last(file)));
        let above = files(MESSAGES_ABOVE).into_iter();
        let above = above.filter(|(file, _)| virtio.contains(card_of(file)));
        numbers.extend(above.map(|(file, _)| last(file)));
        for (file, actions) in files(ACTIONS) {
            let all = |action: &str| names.iter().any(|name| is_of(action, name));
            if !actions.is_empty() && actions.split(',').all(all) {
                numbers.extend(file.rsplit('/').nth(1).map(str::to_owned));
            }
        }
        Self { numbers }
    }

    /// Returns whether an interrupt, given by its number, belongs to a network card alone.
    pub(super) fn has(&self, number: &str) -> bool {
        self.numbers.contains(number)
    }
}

/// Returns the card of a path below /sys/class/net.
fn card_of(file: &str) -> &str {
    file.split('/').nth(4).unwrap_or_default()
}

/// Returns the kernel's name of a platform device, such as `30be0000.ethernet`, from its place in
/// the device tree: `/soc@0/bus@30800000/ethernet@30be0000`.
fn platform_name(path: &str) -> Option<String> {
    let (kind, address) = path.rsplit('/').next()?.split_once('@')?;
    Some(format!("{address}.{kind}"))
}

/// Returns whether the handler of an interrupt has the name of a card, or the name of one of its
/// queues: `eth0`, `eth0-rx-1`.
fn is_of(action: &str, card: &str) -> bool {
    let rest = action.trim().strip_prefix(card);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_matched_with_cards() {
        assert!(is_of("eth0", "eth0") && is_of("eth0-TxRx-3", "eth0") && is_of("eth0:tx", "eth0"));
        assert!(!is_of("eth01", "eth0") && !is_of("nvme0q1", "eth0"));
        let name = platform_name("/soc@0/bus@30800000/ethernet@30be0000").unwrap();
        assert!(is_of("30be0000.ethernet", &name));
        assert_eq!(platform_name("/soc"), None);
    }
}
