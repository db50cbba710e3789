//! Longest delay of the interrupts that a network card raises for received or sent packets, as set
//! by `ethtool -C`. No file contains this value, so it is set through the generic netlink family
//! `ethtool` (`Documentation/networking/ethtool-netlink.rst`, COALESCE_SET).

use std::io;

use punctual_host::{Coalescing, Delays, Direction};
use punctual_model::Setting;

use super::cards;
use crate::TuneError;
use crate::access::{Access, Ask, invalid};
use crate::target::Target;

/// Maximum value: one second. No card delays packets that long.
const MOST_US: u32 = 1_000_000;

/// The coalescing of one direction.
pub(crate) struct CardCoalescing {
    name: &'static str,
    direction: Direction,
}

pub(crate) const RECEIVE: CardCoalescing = CardCoalescing {
    name: "rx-coalescing-us",
    direction: Direction::Receive,
};

pub(crate) const TRANSMIT: CardCoalescing = CardCoalescing {
    name: "tx-coalescing-us",
    direction: Direction::Transmit,
};

impl CardCoalescing {
    fn ask(&self, target: &Target<'_>, card: &str) -> io::Result<Delays> {
        let found = target.files.coalescing(target.host.root(), card)?;
        Ok(found.of(self.direction))
    }

    fn now(&self, target: &Target<'_>, card: &str) -> Result<Delays, TuneError> {
        self.ask(target, card)
            .map_err(|source| cards::unread("-c", card, source))
    }

    fn set(&self, target: &Target<'_>, card: &str, wanted: Delays) -> Result<(), TuneError> {
        let wanted = self.whole(wanted);
        let set = target
            .files
            .set_coalescing(target.host.root(), card, &wanted);
        set.map_err(|source| cards::unwritten(target, "-C", card, source))
    }

    fn whole(&self, delays: Delays) -> Coalescing {
        Coalescing::only(self.direction, delays)
    }

    /// Parses a value of this setting, which has no parameter of the other direction.
    fn parse(&self, value: &str) -> Option<Delays> {
        let all: Coalescing = value.parse().ok()?;
        let own = all.of(self.direction);
        (self.whole(own) == all).then_some(own)
    }
}

/// Returns the parameters that limit the delay of a packet to `micros`, or `None` if the driver has
/// no such parameter.
fn limited(mut card: Delays, micros: u32) -> Option<Delays> {
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

/// Returns the parameters of `wanted` that differ from `found`.
fn difference(found: &Delays, wanted: &Delays) -> Delays {
    Delays {
        adaptive: cards::changed(found.adaptive, wanted.adaptive),
        micros: cards::changed(found.micros, wanted.micros),
        frames: cards::changed(found.frames, wanted.frames),
    }
}

impl Access for CardCoalescing {
    /// The instances are the cards whose driver reports parameters of this direction.
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let none = Delays::default();
        let has = |card: &str| self.ask(target, card).is_ok_and(|found| found != none);
        Ok(cards::names(target, has))
    }

    fn absence(&self, _: &Setting, _: &Target<'_>) -> String {
        cards::ABSENT.to_owned()
    }

    fn read(&self, target: &Target<'_>, card: &str) -> Result<String, TuneError> {
        let found = self.now(target, card)?;
        Ok(self.whole(found).to_string())
    }

    fn write(&self, target: &Target<'_>, card: &str, value: &str) -> Result<(), TuneError> {
        let wanted = self.parse(value).ok_or_else(|| TuneError::Value {
            setting: self.name,
            value: value.to_owned(),
        })?;
        let change = difference(&self.now(target, card)?, &wanted);
        if change == Delays::default() {
            Ok(())
        } else {
            self.set(target, card, change)
        }
    }

    fn holds(&self, card: &str, value: &str) -> bool {
        cards::is_name(card) && self.parse(value).is_some()
    }

    /// Sends a request that changes nothing, because the kernel checks the permission first.
    fn may_write(&self, target: &Target<'_>, card: &str) -> Result<(), TuneError> {
        self.set(target, card, Delays::default())
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
        match limited(self.now(target, card)?, micros) {
            Some(wanted) => Ok(Some(self.whole(wanted).to_string())),
            None => Err(TuneError::Refused {
                setting: setting.named(card),
                reason: "its driver accepts only a time of 0".to_owned(),
            }),
        }
    }

    fn is_gone(&self, target: &Target<'_>, card: &str) -> bool {
        cards::is_gone(&self.ask(target, card))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(text: &str) -> Delays {
        text.parse::<Coalescing>().unwrap().receive
    }

    fn shown(delays: Delays) -> String {
        RECEIVE.whole(delays).to_string()
    }

    #[test]
    fn unsupported_driver_parameters_are_not_requested() {
        let to = |from: &str, micros| limited(card(from), micros).map(shown);
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
        assert_eq!(shown(difference(&found, &wanted)), "adaptive-rx off");
        assert_eq!(difference(&found, &found), Delays::default());
    }

    #[test]
    fn each_direction_has_its_own_values() {
        for (own, other, value) in [
            (RECEIVE, TRANSMIT, "rx-usecs 3"),
            (TRANSMIT, RECEIVE, "adaptive-tx off, tx-frames 1"),
        ] {
            assert!(own.holds("eth0", value) && !other.holds("eth0", value));
            assert!(!own.holds("../x", value) && !own.holds("", value));
        }
        assert!(!RECEIVE.holds("eth0", "rx-usecs 3, tx-usecs 3"));
    }
}
