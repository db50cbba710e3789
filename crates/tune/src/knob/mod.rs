//! A setting: what it is, where it stands, what it takes.

mod kept;
mod pattern;
mod table;
mod values;

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

use punctual_host::Host;
use schemars::JsonSchema;
use serde::Serialize;

use crate::TuneError;
use crate::layer::Files;
use crate::site::Site;
use crate::special::Special;

pub(crate) use pattern::{Pattern, by_number, matches};
pub use table::KNOBS;
pub(crate) use values::{Context, Values};

/// The longest value that is written: those of /proc and /sys are a word, a
/// number or a CPU list.
const LONGEST: usize = 1_024;

/// What could go wrong with a setting, for somebody who does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Costs power or throughput at most.
    Low,
    /// Can slow other work down noticeably, or take a safety net away that one
    /// seldom needs.
    Medium,
    /// Can make the machine hang or throttle where the application misbehaves.
    High,
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// Which of its instances a list of CPUs selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// It belongs to no CPU: `--cpus` does not select.
    Machine,
    /// The first number of the instance is the CPU.
    Cpu,
    /// A frequency policy, which serves the CPUs of its `related_cpus`.
    Policy,
}

/// Where a setting stands.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// One file.
    File(&'static str),
    /// A file for each device or CPU: `#` stands for a number, `*` for a name.
    Each(&'static str),
    /// Files with a name each.
    Parts(&'static [(&'static str, &'static str)]),
    /// More than the writing of a file.
    Special(&'static dyn Special),
}

/// One setting of the machine.
#[derive(Clone, Copy)]
pub struct Knob {
    /// Its name: what the journal keeps, so that a journal can name no other
    /// file than those of this table.
    pub name: &'static str,
    /// What it sets, in half a sentence.
    pub summary: &'static str,
    /// What changing it can cost or break.
    pub caution: &'static str,
    /// How bad that is.
    pub risk: Risk,
    /// Where this is documented: a page of the kernel's documentation, or its
    /// source file where there is none.
    pub source: &'static str,
    pub(crate) place: Place,
    pub(crate) values: Values,
    pub(crate) scope: Scope,
    /// Why a kernel refuses it to root (EPERM), where that is known; else empty.
    pub(crate) refusal: &'static str,
}

impl PartialEq for Knob {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Knob {}

impl fmt::Debug for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Knob").field(&self.name).finish()
    }
}

/// The setting of that name.
///
/// # Errors
/// [`TuneError::NoSuchKnob`], with the nearest there is.
pub fn knob(name: &str) -> Result<&'static Knob, TuneError> {
    KNOBS.iter().find(|knob| knob.name == name).ok_or_else(|| {
        let names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
        TuneError::NoSuchKnob {
            name: name.to_owned(),
            known: match nearest(name, &names) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("one of {}", names.join(", ")),
            },
        }
    })
}

/// The name that was probably meant.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let alike = |known: &str| strsim::jaro_winkler(&name.replace('_', "-"), known);
    names
        .iter()
        .copied()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))
        .filter(|near| alike(near) > ALIKE)
}

impl Knob {
    /// The file that holds it, as it is on the machine; `#` stands for a number
    /// and `*` for a name where there are several. Empty for a setting that is
    /// no file.
    pub fn path(&self) -> &'static str {
        match self.place {
            Place::File(path) | Place::Each(path) => path,
            Place::Parts(parts) => parts.first().map_or("", |(_, path)| path),
            Place::Special(special) => special.path(),
        }
    }

    /// All its files, for documentation.
    pub fn paths(&self) -> Vec<&'static str> {
        match self.place {
            Place::Parts(parts) => parts.iter().map(|(_, path)| *path).collect(),
            _ => vec![self.path()],
        }
    }

    /// The values it takes, as a person reads it.
    pub fn takes(&self) -> String {
        self.values.takes()
    }

    /// How one of several is named: `CPU`, `interrupt`, …; `None` where there
    /// is one only.
    pub fn instance_form(&self) -> Option<String> {
        match self.place {
            Place::File(_) => None,
            Place::Each(pattern) => Some(Pattern(pattern).form()),
            Place::Parts(parts) => {
                let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
                Some(names.join(" or "))
            }
            Place::Special(special) => special.instance_form().map(str::to_owned),
        }
    }

    /// Whether a reboot leaves it as it was set: a file on disk.
    pub fn outlives_reboot(&self) -> bool {
        matches!(self.place, Place::Special(special) if special.outlives_reboot())
    }

    /// Its value now, as the kernel words it.
    ///
    /// # Errors
    /// [`TuneError::Read`].
    pub fn value(&self, host: &Host) -> Result<String, TuneError> {
        self.read(&Site::plain(&Files, host), "")
    }

    /// The values it takes, in the kernel's order; `None` where the kernel does
    /// not list them.
    ///
    /// # Errors
    /// [`TuneError::Read`].
    pub fn offered(&self, host: &Host) -> Result<Option<Vec<String>>, TuneError> {
        self.values.offered(&Site::plain(&Files, host), self, "")
    }

    /// Whether this process may change it; nothing is changed.
    ///
    /// # Errors
    /// [`TuneError::Write`], which says how to get the right.
    pub fn may_change(&self, host: &Host) -> Result<(), TuneError> {
        self.may_write(&Site::plain(&Files, host), "")
    }

    /// Those there are here, in the order of their numbers; one without a name
    /// where there is one only.
    pub(crate) fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError> {
        match self.place {
            Place::File(_) => Ok(vec![String::new()]),
            Place::Each(pattern) => Ok(Pattern(pattern).instances(site)),
            Place::Parts(parts) => Ok(parts
                .iter()
                .filter(|(_, path)| site.files.read(&site.below(path)).is_ok())
                .map(|(name, _)| (*name).to_owned())
                .collect()),
            Place::Special(special) => special.instances(site),
        }
    }

    /// Why there is none of it here.
    pub(crate) fn absence(&self, site: &Site<'_>) -> String {
        match self.place {
            Place::Special(special) => special.absence(site),
            _ => format!("{} is not there", self.paths().join(", ")),
        }
    }

    /// Other names of an instance: those of an interrupt's devices.
    pub(crate) fn aliases(&self, site: &Site<'_>, instance: &str) -> Vec<String> {
        match self.place {
            Place::Special(special) => special.aliases(site, instance),
            _ => Vec::new(),
        }
    }

    /// The file of an instance.
    pub(crate) fn file(&self, site: &Site<'_>, instance: &str) -> Result<PathBuf, TuneError> {
        let path = match self.place {
            Place::File(path) if instance.is_empty() => Some(path.to_owned()),
            Place::Each(pattern) => Pattern(pattern).path(instance),
            Place::Parts(parts) => parts
                .iter()
                .find(|(name, _)| *name == instance)
                .map(|(_, path)| (*path).to_owned()),
            Place::Special(special) => Some(special.path().to_owned()),
            Place::File(_) => None,
        };
        path.map(|path| site.below(&path))
            .ok_or_else(|| TuneError::NoInstance {
                setting: self.setting(instance),
                there: "no such name is possible".to_owned(),
            })
    }

    pub(crate) fn read(&self, site: &Site<'_>, instance: &str) -> Result<String, TuneError> {
        if let Place::Special(special) = self.place {
            return special.read(site, instance);
        }
        let path = self.file(site, instance)?;
        match site.files.read(&path) {
            Ok(text) => Ok(self.values.normal(text.trim())),
            Err(source) => Err(TuneError::Read { path, source }),
        }
    }

    /// Writes it; whether that had an effect is for the caller to read.
    pub(crate) fn write(
        &self,
        site: &Site<'_>,
        instance: &str,
        value: &str,
    ) -> Result<(), TuneError> {
        if let Place::Special(special) = self.place {
            return special.write(site, instance, value);
        }
        let path = self.file(site, instance)?;
        site.files
            .set(&path, value)
            .map_err(|source| site.refused(path, source, self.refusal))
    }

    /// Whether a setting of one file could not be written because there was no
    /// such file any more: a device that was unplugged, a CPU that went offline.
    /// sysfs answers ENODEV while it takes a file away (fs/kernfs/file.c).
    pub(crate) fn has_vanished(&self, error: &TuneError) -> bool {
        const ENODEV: i32 = 19;
        let TuneError::Write { source, .. } = error else {
            return false;
        };
        let gone = source.kind() == ErrorKind::NotFound || source.raw_os_error() == Some(ENODEV);
        gone && !matches!(self.place, Place::Special(_))
    }

    pub(crate) fn may_write(&self, site: &Site<'_>, instance: &str) -> Result<(), TuneError> {
        if let Place::Special(special) = self.place {
            return special.may_write(site, instance);
        }
        let path = self.file(site, instance)?;
        site.files
            .writable(&path)
            .map_err(|source| site.not_written(path, source))
    }

    /// Whether two texts are the same value: `f` and `000f` are.
    pub(crate) fn same(&self, found: &str, wanted: &str) -> bool {
        match self.place {
            Place::Special(special) => special.same(found, wanted),
            _ => self.values.same(found, wanted),
        }
    }

    /// A value as a person reads it: CPUs instead of a mask.
    pub fn readable(&self, value: &str) -> String {
        match self.place {
            Place::Special(special) => special.readable(value),
            _ => self.values.readable(value),
        }
    }

    /// What `asked` means for one instance: the text to be written, or nothing
    /// where it does not concern it.
    pub(crate) fn resolve(
        &self,
        site: &Site<'_>,
        instance: &str,
        asked: &str,
        context: &Context,
    ) -> Result<Option<String>, TuneError> {
        sound(self, asked)?;
        let target = match self.place {
            Place::Special(special) => {
                return special.resolve(self, site, instance, asked, context);
            }
            _ => self.values.resolve(self, site, instance, asked, context)?,
        };
        Ok(Some(target))
    }

    /// Whether the kernel could take this value at all, checked once more
    /// before it is written.
    pub(crate) fn check(
        &self,
        site: &Site<'_>,
        instance: &str,
        value: &str,
    ) -> Result<(), TuneError> {
        sound(self, value)?;
        match self.values.offered(site, self, instance)? {
            Some(offered) if !offered.iter().any(|word| word == value) => {
                Err(TuneError::NotOffered {
                    knob: self.setting(instance),
                    value: value.to_owned(),
                    offered: offered.join(", "),
                })
            }
            _ => Ok(()),
        }
    }

    /// Why nobody may change it, whatever their rights.
    pub(crate) fn refusal(&self, site: &Site<'_>, instance: &str) -> Option<String> {
        if let Place::Special(special) = self.place {
            return special.refusal(site, instance);
        }
        let path = self.file(site, instance).ok()?;
        let writable = site.files.has_write_bit(&path).unwrap_or(true);
        (!writable).then(|| format!("{} is for reading only on this machine", path.display()))
    }

    /// Whether the instance has ended for good.
    pub(crate) fn is_gone(&self, site: &Site<'_>, instance: &str) -> bool {
        matches!(self.place, Place::Special(special) if special.is_gone(site, instance))
    }

    /// Whether one must say which of several.
    pub(crate) fn needs_selector(&self) -> bool {
        matches!(self.place, Place::Special(special) if special.needs_selector())
    }

    /// An instance as a person names it.
    pub(crate) fn shown(&self, instance: &str) -> String {
        match self.place {
            Place::Special(special) => special.shown(instance),
            _ => instance.to_owned(),
        }
    }

    /// What the reader must know of a value that is in force.
    pub(crate) fn remark(&self, site: &Site<'_>, instance: &str, value: &str) -> Option<String> {
        match self.place {
            Place::Special(special) => special.remark(site, instance, value),
            _ => None,
        }
    }

    /// `name`, or `name@instance`.
    pub(crate) fn setting(&self, instance: &str) -> String {
        match instance {
            "" => self.name.to_owned(),
            _ => format!("{}@{instance}", self.name),
        }
    }
}

/// One line of text without space around it.
fn sound(knob: &Knob, value: &str) -> Result<(), TuneError> {
    let sound = !value.is_empty()
        && value.len() <= LONGEST
        && value.trim() == value
        && !value.chars().any(char::is_control);
    if sound {
        return Ok(());
    }
    Err(TuneError::Value {
        knob: knob.name,
        value: value.chars().take(40).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    #[test]
    fn entries_are_sound() {
        let mut names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
        for entry in KNOBS {
            assert_eq!(knob(entry.name).unwrap(), entry);
            for path in entry.paths() {
                let known = ["/proc/", "/sys/", "/dev/", "/etc/"];
                assert!(known.iter().any(|start| path.starts_with(start)), "{path}");
                assert!(!path.contains(".."));
            }
            assert!(!entry.summary.ends_with('.') && !entry.caution.is_empty());
            assert!(entry.caution.ends_with('.'), "{}", entry.name);
            assert!(!entry.source.is_empty() && !entry.takes().is_empty());
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(entry.name.chars().all(plain), "{}", entry.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KNOBS.len(), "two of one name");
    }

    #[test]
    fn a_name_with_a_typo_is_answered_with_the_nearest() {
        let told = |name: &str| knob(name).unwrap_err().to_string();
        assert!(told("goverment").contains("did you mean 'governor'"));
        assert!(told("clock_source").contains("did you mean 'clocksource'"));
        assert!(told("xyzzy").contains("one of "));
    }

    #[test]
    fn a_value_that_no_kernel_takes_is_refused_before_anything_is_written() {
        let machine = Machine::new();
        let knob = knob("clocksource").unwrap();
        let files = Files;
        let site = Site::plain(&files, machine.host());
        let check = |value: &str| knob.check(&site, "", value);
        assert!(check("hpet").is_ok());
        for value in ["", " hpet", "hpet\n", "a\0b", &"x".repeat(2_000)] {
            assert!(matches!(check(value), Err(TuneError::Value { .. })));
        }
        let error = check("sundial").unwrap_err().to_string();
        assert!(error.contains("tsc, hpet, acpi_pm"), "{error}");
    }
}
