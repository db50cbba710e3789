//! Longest time for which a network card delays received packets to save interrupts, as set by
//! `ethtool -C`. No file contains this value, so it is set through the generic netlink family
//! `ethtool` (`Documentation/networking/ethtool-netlink.rst`, COALESCE_SET).

use std::io;
use std::path::PathBuf;

use punctual_host::Coalescing;

use punctual_model::Setting;

use crate::TuneError;
use crate::access::{Access, Ask, invalid};
use crate::target::Target;

const CARDS: &str = "/sys/class/net";
/// `ENODEV` from errno(3): the device no longer exists.
const NO_DEVICE: i32 = 19;
/// Maximum value: one second. No card delays packets that long.
const MOST_US: u32 = 1_000_000;

pub(crate) struct RxCoalescing;

fn read_coalescing(target: &Target<'_>, card: &str) -> io::Result<Coalescing> {
    target.files.coalescing(target.host.root(), card)
}

fn set(target: &Target<'_>, card: &str, wanted: &Coalescing) -> Result<(), TuneError> {
    let set = target
        .files
        .set_coalescing(target.host.root(), card, wanted);
    set.map_err(|source| target.not_written(PathBuf::from(format!("ethtool -C {card}")), source))
}

fn now(target: &Target<'_>, card: &str) -> Result<Coalescing, TuneError> {
    read_coalescing(target, card).map_err(|source| TuneError::Read {
        path: PathBuf::from(format!("ethtool -c {card}")),
        source,
    })
}

/// Returns the parameters that limit the delay of a packet to `micros`, or `None` if the driver has
/// no such parameter.
fn limited(mut card: Coalescing, micros: u32) -> Option<Coalescing> {
    card.adaptive = card.adaptive.map(|_| false);
    if micros > 0 {
        card.micros?;
    }
    card.micros = card.micros.map(|_| micros);
    // A delay of 0 removes the time limit. A driver may then still wait for this number of packets.
    if micros == 0 {
        card.frames = card.frames.map(|frames| frames.min(1));
    }
    Some(card)
}

/// Returns the parameters of `wanted` that differ from `found`. Only these are sent, because some
/// parameters can be read but not set, and a driver refuses a message that contains such a
/// parameter.
fn difference(found: &Coalescing, wanted: &Coalescing) -> Coalescing {
    fn changed<T: PartialEq>(found: Option<T>, wanted: Option<T>) -> Option<T> {
        if found == wanted { None } else { wanted }
    }
    Coalescing {
        adaptive: changed(found.adaptive, wanted.adaptive),
        micros: changed(found.micros, wanted.micros),
        frames: changed(found.frames, wanted.frames),
    }
}

impl Access for RxCoalescing {
    /// The instances are the cards whose driver reports coalescing parameters.
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let mut names = target.files.names(&target.below(CARDS)).unwrap_or_default();
        let none = Coalescing::default();
        names.retain(|card| read_coalescing(target, card).is_ok_and(|found| found != none));
        Ok(names)
    }

    fn absence(&self, _: &Setting, _: &Target<'_>) -> String {
        "no driver of a network card has this setting".to_owned()
    }

    fn read(&self, target: &Target<'_>, card: &str) -> Result<String, TuneError> {
        now(target, card).map(|found| found.to_string())
    }

    fn write(&self, target: &Target<'_>, card: &str, value: &str) -> Result<(), TuneError> {
        let wanted: Coalescing = value.parse().map_err(|_| TuneError::Value {
            setting: "rx-coalescing-us",
            value: value.to_owned(),
        })?;
        let change = difference(&now(target, card)?, &wanted);
        if change == Coalescing::default() {
            Ok(())
        } else {
            set(target, card, &change)
        }
    }

    fn holds(&self, card: &str, value: &str) -> bool {
        let name = !card.is_empty() && !card.contains('/') && !card.contains(char::is_control);
        name && value.parse::<Coalescing>().is_ok()
    }

    /// Sends a request that changes nothing, because the kernel checks the permission first.
    fn may_write(&self, target: &Target<'_>, card: &str) -> Result<(), TuneError> {
        set(target, card, &Coalescing::default())
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            target,
            instance: card,
            asked,
            ..
        } = ask;
        let micros = asked.parse().ok().filter(|micros| *micros <= MOST_US);
        let micros: u32 = micros.ok_or_else(|| invalid(setting, card, asked))?;
        match limited(now(target, card)?, micros) {
            Some(wanted) => Ok(Some(wanted.to_string())),
            None => Err(TuneError::Refused {
                setting: setting.named(card),
                reason: "its driver accepts only a time of 0".to_owned(),
            }),
        }
    }

    fn is_gone(&self, target: &Target<'_>, card: &str) -> bool {
        read_coalescing(target, card).is_err_and(|error| error.raw_os_error() == Some(NO_DEVICE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(text: &str) -> Coalescing {
        text.parse().unwrap()
    }

    #[test]
    fn unsupported_driver_parameters_are_not_requested() {
        let to = |from: &str, micros| limited(card(from), micros).map(|card| card.to_string());
        let full = "adaptive-rx on, rx-usecs 50, rx-frames 64";
        let none = "adaptive-rx off, rx-usecs 0, rx-frames 1";
        assert_eq!(to(full, 0).unwrap(), none);
        assert_eq!(
            to(full, 20).unwrap(),
            "adaptive-rx off, rx-usecs 20, rx-frames 64"
        );
        assert_eq!(to("rx-frames 64", 0).unwrap(), "rx-frames 1");
        assert_eq!(to("rx-frames 64", 20), None);
        assert_eq!(
            to("rx-usecs 3, rx-frames 0", 0).unwrap(),
            "rx-usecs 0, rx-frames 0"
        );
    }

    #[test]
    fn only_what_differs_is_set() {
        let found = card("adaptive-rx on, rx-usecs 50, rx-frames 1");
        let wanted = card("adaptive-rx off, rx-usecs 50, rx-frames 1");
        assert_eq!(difference(&found, &wanted).to_string(), "adaptive-rx off");
        assert_eq!(difference(&found, &found), Coalescing::default());
    }
}
