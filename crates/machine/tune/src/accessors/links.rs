//! Sleep states of the PCI Express link of a device (the files in its folder `link`).
//!
//! The states of a link depend on each other: without L1, the kernel also switches its substates
//! off, and with a substate, it switches L1 on (`aspm_attr_store_common` in
//! drivers/pci/pcie/aspm.c). Therefore, the value of this setting is the list of all states that
//! are on.

use std::io;

use punctual_model::{Setting, path_of};

use crate::TuneError;
use crate::access::{Access, Ask, invalid, may_write, read, write};
use crate::pattern::{Pattern, by_number};
use crate::target::Target;

/// Name of this setting.
const NAME: &str = "pci-link-power";
const FILES: Pattern = Pattern(path_of(NAME));
/// The states, in the order of switching them on.
const STATES: [&str; 7] = [
    "l0s_aspm",
    "l1_aspm",
    "l1_1_aspm",
    "l1_2_aspm",
    "l1_1_pcipm",
    "l1_2_pcipm",
    "clkpm",
];
/// Value of a link that has no state on.
const OFF: &str = "off";

pub(crate) struct Links;

fn file(device: &str, state: &str) -> Result<String, TuneError> {
    FILES
        .path(&format!("{device}/{state}"))
        .ok_or_else(|| TuneError::NoInstance {
            setting: format!("{NAME}@{device}"),
            there: "the name is not valid".to_owned(),
        })
}

/// Returns the states that the link of a device has, in order, and whether each is on.
fn states(target: &Target<'_>, device: &str) -> Result<Vec<(&'static str, bool)>, TuneError> {
    let mut found = Vec::new();
    for state in STATES {
        let file = file(device, state)?;
        match read(target, &file) {
            Ok(text) if text == "0" || text == "1" => found.push((state, text == "1")),
            Ok(text) => {
                let text: String = text.chars().take(40).collect();
                return Err(TuneError::Refused {
                    setting: format!("{NAME}@{device}"),
                    reason: format!("{file} reads '{}' instead of 0 or 1", text.escape_debug()),
                });
            }
            Err(TuneError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    match found.as_slice() {
        [] => Err(TuneError::Read {
            path: target.below(&file(device, "l1_aspm")?),
            source: io::ErrorKind::NotFound.into(),
        }),
        _ => Ok(found),
    }
}

/// Parses a value. Returns `None` if a state is unknown or listed twice.
fn parse(value: &str) -> Option<Vec<&'static str>> {
    if value == OFF {
        return Some(Vec::new());
    }
    let mut wanted = Vec::new();
    for name in value.split(',') {
        let state = STATES.into_iter().find(|state| *state == name)?;
        if wanted.contains(&state) {
            return None;
        }
        wanted.push(state);
    }
    Some(wanted)
}

/// Returns the value for a list of states that are on.
fn value_of(on: impl Fn(&str) -> bool) -> String {
    let on: Vec<&str> = STATES.into_iter().filter(|state| on(state)).collect();
    match on.as_slice() {
        [] => OFF.to_owned(),
        some => some.join(","),
    }
}

impl Access for Links {
    /// The instances are the devices that have at least one of the files.
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let files = FILES.instances(target);
        let mut devices: Vec<String> = files
            .iter()
            .filter_map(|instance| instance.split_once('/'))
            .filter(|(_, state)| STATES.contains(state))
            .map(|(device, _)| device.to_owned())
            .collect();
        devices.sort_by(|a, b| by_number(a, b));
        devices.dedup();
        Ok(devices)
    }

    fn absence(&self, _: &Setting, _: &Target<'_>) -> String {
        "no PCI Express device offers its link states: none has them, or the firmware controls \
         them, or the kernel was booted with pcie_aspm=off"
            .to_owned()
    }

    fn read(&self, target: &Target<'_>, device: &str) -> Result<String, TuneError> {
        let states = states(target, device)?;
        Ok(value_of(|state| states.contains(&(state, true))))
    }

    /// First switches states off, substates before L1, and then switches states on, L1 before its
    /// substates. Each state is read again before it is written, because an earlier write can have
    /// changed it.
    fn write(&self, target: &Target<'_>, device: &str, value: &str) -> Result<(), TuneError> {
        let wanted = parse(value).ok_or_else(|| TuneError::Value {
            setting: NAME,
            value: value.to_owned(),
        })?;
        let there: Vec<&str> = (states(target, device)?.iter())
            .map(|(state, _)| *state)
            .collect();
        let off = there.iter().rev().map(|state| (*state, "0"));
        let on = there.iter().map(|state| (*state, "1"));
        for (state, digit) in off.chain(on) {
            let file = file(device, state)?;
            let concerned = wanted.contains(&state) == (digit == "1");
            if concerned && read(target, &file)? != digit {
                write(target, &file, digit)?;
            }
        }
        Ok(())
    }

    fn may_write(&self, target: &Target<'_>, device: &str) -> Result<(), TuneError> {
        for (state, _) in states(target, device)? {
            may_write(target, &file(device, state)?)?;
        }
        Ok(())
    }

    fn holds(&self, device: &str, value: &str) -> bool {
        file(device, STATES[0]).is_ok() && parse(value).is_some()
    }

    /// A device that was unplugged has no link to restore.
    fn is_gone(&self, target: &Target<'_>, device: &str) -> bool {
        let folder = format!("/sys/bus/pci/devices/{device}");
        !target.files.exists(&target.below(&folder))
    }

    fn same(&self, found: &str, wanted: &str) -> bool {
        let sorted = |value: &str| {
            parse(value).map(|mut states| {
                states.sort_unstable();
                states
            })
        };
        found == wanted || (sorted(found).is_some() && sorted(found) == sorted(wanted))
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            target,
            instance: device,
            asked,
            ..
        } = ask;
        let wanted = parse(asked).ok_or_else(|| invalid(setting, device, asked))?;
        let states = states(target, device)?;
        let there = |state: &str| states.iter().any(|(name, _)| *name == state);
        if let Some(lacking) = wanted.iter().find(|state| !there(state)) {
            let names: Vec<&str> = states.iter().map(|(name, _)| *name).collect();
            return Err(TuneError::Refused {
                setting: setting.named(device),
                reason: format!(
                    "its link has no state {lacking}; there are {}",
                    names.join(", ")
                ),
            });
        }
        Ok(Some(value_of(|state| wanted.contains(&state))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_one_order() {
        assert_eq!(value_of(|_| false), "off");
        assert_eq!(
            value_of(|state| ["clkpm", "l0s_aspm"].contains(&state)),
            "l0s_aspm,clkpm"
        );
        assert!(Links.same("clkpm,l1_aspm", "l1_aspm,clkpm"));
        assert!(!Links.same("clkpm", "off") && !Links.same("?", "!"));
        for value in ["", "on", "l1", "l1_aspm,l1_aspm", "l1_aspm, clkpm", "../x"] {
            assert_eq!(parse(value), None, "{value}");
        }
    }

    #[test]
    fn instance_stays_below_the_folder() {
        assert!(Links.holds("0000:01:00.0", "off"));
        for device in ["", "..", "a/b", ".hidden"] {
            assert!(!Links.holds(device, "off"), "{device}");
        }
    }
}
