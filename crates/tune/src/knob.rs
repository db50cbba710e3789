//! The settings that can be changed: one entry each.

use std::fs::OpenOptions;
use std::path::PathBuf;

use punctual_host::Host;

use crate::TuneError;
use crate::layer::{FileLayer, Files};

/// The longest value that is written: those of /proc and /sys are a word or a
/// CPU list.
const LONGEST: usize = 1_024;

/// One setting of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name: what the journal keeps, so that a journal can name no other
    /// file than those of this table.
    pub name: &'static str,
    /// What it sets, in half a sentence.
    pub summary: &'static str,
    /// The file that holds it, without the root path.
    pub path: &'static str,
    /// The file that lists the values it takes, where there is one.
    pub offered: Option<&'static str>,
}

/// All settings. A new one is an entry here.
pub const KNOBS: &[Knob] = &[
    // Documentation/ABI/testing/sysfs-devices-clocksource; the kernel takes any
    // word and ignores one it does not know (current_clocksource_store in
    // kernel/time/clocksource.c), so only reading back tells. A value once
    // written stays the kernel's choice, also where it would choose another
    // later by itself: that much of a change cannot be undone but by a reboot.
    Knob {
        name: "clocksource",
        summary: "the hardware clock that the kernel's clocks are made from",
        path: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        offered: Some("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
    },
];

/// The setting of that name.
///
/// # Errors
/// [`TuneError::NoSuchKnob`], with those there are.
pub fn knob(name: &str) -> Result<&'static Knob, TuneError> {
    KNOBS
        .iter()
        .find(|knob| knob.name == name)
        .ok_or_else(|| TuneError::NoSuchKnob {
            name: name.to_owned(),
            known: KNOBS.iter().map(|k| k.name).collect::<Vec<_>>().join(", "),
        })
}

impl Knob {
    /// Where its file is on this host.
    pub(crate) fn file(&self, host: &Host) -> PathBuf {
        below(host, self.path)
    }

    /// The value in force.
    ///
    /// # Errors
    /// [`TuneError::Read`].
    pub fn value(&self, host: &Host) -> Result<String, TuneError> {
        self.value_on(&Files, host)
    }

    pub(crate) fn value_on(&self, files: &dyn FileLayer, host: &Host) -> Result<String, TuneError> {
        let path = self.file(host);
        match files.read(&path) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(source) => Err(TuneError::Read { path, source }),
        }
    }

    /// The values it takes, in the kernel's order; `None` where the kernel does
    /// not list them.
    ///
    /// # Errors
    /// [`TuneError::Read`].
    pub fn offered(&self, host: &Host) -> Result<Option<Vec<String>>, TuneError> {
        self.offered_on(&Files, host)
    }

    fn offered_on(
        &self,
        files: &dyn FileLayer,
        host: &Host,
    ) -> Result<Option<Vec<String>>, TuneError> {
        let Some(file) = self.offered else {
            return Ok(None);
        };
        let path = below(host, file);
        match files.read(&path) {
            Ok(text) => Ok(Some(text.split_whitespace().map(str::to_owned).collect())),
            Err(source) => Err(TuneError::Read { path, source }),
        }
    }

    /// Whether this process may change it; nothing is changed.
    ///
    /// # Errors
    /// [`TuneError::Write`], which says how to get the right.
    pub fn may_change(&self, host: &Host) -> Result<(), TuneError> {
        let path = self.file(host);
        match OpenOptions::new().write(true).open(&path) {
            Ok(_) => Ok(()),
            Err(source) => Err(TuneError::Write { path, source }),
        }
    }

    /// Whether the kernel could take this value at all.
    pub(crate) fn check(
        &self,
        files: &dyn FileLayer,
        host: &Host,
        value: &str,
    ) -> Result<(), TuneError> {
        let sound = !value.is_empty()
            && value.len() <= LONGEST
            && value.trim() == value
            && !value.chars().any(char::is_control);
        if !sound {
            return Err(TuneError::Value {
                knob: self.name,
                value: value.to_owned(),
            });
        }
        match self.offered_on(files, host)? {
            Some(offered) if !offered.iter().any(|word| word == value) => {
                Err(TuneError::NotOffered {
                    knob: self.name,
                    value: value.to_owned(),
                    offered: offered.join(", "),
                })
            }
            _ => Ok(()),
        }
    }
}

fn below(host: &Host, file: &str) -> PathBuf {
    host.root().join(file.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    #[test]
    fn entries_are_sound() {
        for entry in KNOBS {
            assert_eq!(knob(entry.name).unwrap(), entry);
            for path in [Some(entry.path), entry.offered].into_iter().flatten() {
                assert!(path.starts_with("/proc/") || path.starts_with("/sys/"));
                assert!(!path.contains(".."));
            }
        }
        let error = knob("nmi_watchdog").unwrap_err().to_string();
        assert!(error.contains("clocksource"), "{error}");
    }

    #[test]
    fn a_value_that_no_kernel_takes_is_refused_before_anything_is_written() {
        let machine = Machine::new();
        let knob = knob("clocksource").unwrap();
        let check = |value: &str| knob.check(&Files, machine.host(), value);
        assert!(check("hpet").is_ok());
        for value in ["", " hpet", "hpet\n", "a\0b", &"x".repeat(2_000)] {
            assert!(matches!(check(value), Err(TuneError::Value { .. })));
        }
        let error = check("sundial").unwrap_err().to_string();
        assert!(error.contains("tsc, hpet, acpi_pm"), "{error}");
    }
}
