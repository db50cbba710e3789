//! Energy-Efficient Ethernet of a network card, as set by `ethtool --set-eee`. No file contains
//! this value, so it is set through the generic netlink family `ethtool`
//! (`Documentation/networking/ethtool-netlink.rst`, EEE_SET).

use std::io;

use punctual_host::Eee;
use punctual_model::Setting;

use super::cards;
use crate::TuneError;
use crate::access::{Access, Ask, on_or_off};
use crate::target::Target;

/// Values are those of `ethtool --set-eee`: `eee on, tx-lpi on, tx-timer 17, advertise 0x28`.
///
/// A change sets only `eee`. Before Linux 6.8, many drivers then also clear the link modes that the
/// card advertises, so the old value has all parameters.
pub(crate) struct EnergyEfficient;

fn ask(target: &Target<'_>, card: &str) -> io::Result<Eee> {
    let found = target.files.eee(target.host.root(), card)?;
    Ok(found.settable())
}

fn now(target: &Target<'_>, card: &str) -> Result<Eee, TuneError> {
    ask(target, card).map_err(|source| cards::unread("--show-eee", card, source))
}

fn set(target: &Target<'_>, card: &str, wanted: &Eee) -> Result<(), TuneError> {
    let set = target.files.set_eee(target.host.root(), card, wanted);
    set.map_err(|source| cards::unwritten(target, "--set-eee", card, source))
}

/// Returns the parameters of `wanted` that differ from `found`.
fn difference(found: &Eee, wanted: &Eee) -> Eee {
    Eee {
        enabled: cards::changed(found.enabled, wanted.enabled),
        active: None,
        sleeps: cards::changed(found.sleeps, wanted.sleeps),
        timer_micros: cards::changed(found.timer_micros, wanted.timer_micros),
        advertised: cards::changed(found.advertised, wanted.advertised),
    }
}

/// Parses a value, which says whether Energy-Efficient Ethernet is on.
fn parse(value: &str) -> Option<Eee> {
    let parsed: Eee = value.parse().ok()?;
    (parsed.enabled.is_some() && parsed.active.is_none()).then_some(parsed)
}

impl Access for EnergyEfficient {
    /// The instances are the cards whose driver reports whether it is on.
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let has = |card: &str| ask(target, card).is_ok_and(|found| found.enabled.is_some());
        Ok(cards::names(target, has))
    }

    fn absence(&self, _: &Setting, _: &Target<'_>) -> String {
        cards::ABSENT.to_owned()
    }

    fn read(&self, target: &Target<'_>, card: &str) -> Result<String, TuneError> {
        now(target, card).map(|found| found.to_string())
    }

    fn write(&self, target: &Target<'_>, card: &str, value: &str) -> Result<(), TuneError> {
        let wanted = parse(value).ok_or_else(|| TuneError::Value {
            setting: "eee",
            value: value.to_owned(),
        })?;
        let change = difference(&now(target, card)?, &wanted);
        if change == Eee::default() {
            Ok(())
        } else {
            set(target, card, &change)
        }
    }

    fn holds(&self, card: &str, value: &str) -> bool {
        cards::is_name(card) && parse(value).is_some()
    }

    /// Compares the parameters that `wanted` has.
    fn same(&self, found: &str, wanted: &str) -> bool {
        match (parse(found), parse(wanted)) {
            (Some(found), Some(wanted)) => difference(&found, &wanted) == Eee::default(),
            _ => false,
        }
    }

    /// Sends a request that changes nothing, because the kernel checks the permission first.
    fn may_write(&self, target: &Target<'_>, card: &str) -> Result<(), TuneError> {
        set(target, card, &Eee::default())
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        Ok(Some(format!("eee {}", on_or_off(ask.setting, ask.asked)?)))
    }

    fn is_gone(&self, target: &Target<'_>, card: &str) -> bool {
        cards::is_gone(&ask(target, card))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_set() {
        let of = |found: &str, wanted: &str| {
            difference(&found.parse().unwrap(), &wanted.parse().unwrap()).to_string()
        };
        let on = "eee on, tx-lpi on, tx-timer 17, advertise 0x28";
        assert_eq!(of(on, "eee off"), "eee off");
        assert_eq!(of(on, on), "");
        let off = "eee off, tx-lpi on, tx-timer 17, advertise 0x0";
        assert_eq!(of(off, on), "eee on, advertise 0x28");
    }

    #[test]
    fn value_with_fewer_parameters_ignores_the_others() {
        let same = |found, wanted| EnergyEfficient.same(found, wanted);
        let found = "eee off, tx-lpi on, tx-timer 17, advertise 0x0";
        assert!(same(found, "eee off"));
        assert!(!same(found, "eee on"));
        assert!(!same(
            found,
            "eee off, tx-lpi on, tx-timer 17, advertise 0x28"
        ));
        assert!(!same("?", "eee off"));
    }

    #[test]
    fn only_settable_values_are_kept() {
        let holds = |value| EnergyEfficient.holds("eth0", value);
        assert!(holds("eee on, tx-timer 17"));
        for value in ["", "tx-timer 17", "eee on, active on", "eee on; id"] {
            assert!(!holds(value), "{value}");
        }
        assert!(!EnergyEfficient.holds("a/b", "eee on"));
    }
}
