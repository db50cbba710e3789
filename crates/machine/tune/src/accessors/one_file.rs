//! Settings that consist of a single file: one for the whole machine, one per CPU or device, or one
//! per name.

use std::io::ErrorKind;
use std::path::PathBuf;

use punctual_model::{Location, Setting, Values, mask};

use crate::TuneError;
use crate::access::{Access, Ask, check_offered, invalid};
use crate::pattern::Pattern;
use crate::target::Target;

/// Access to a setting whose row in the table names a single file.
#[derive(Clone, Copy)]
pub(crate) struct OneFile(pub(crate) &'static Setting);

impl OneFile {
    /// Returns the path of `file` for an instance. `file` is the instance's own file or one next to
    /// it.
    fn path(self, target: &Target<'_>, file: &'static str, instance: &str) -> Option<PathBuf> {
        let path = match self.0.location {
            Location::Each(_) => Pattern(file).path(instance)?,
            _ => file.to_owned(),
        };
        Some(target.below(&path))
    }

    fn own(self, target: &Target<'_>, instance: &str) -> Result<PathBuf, TuneError> {
        self.file(target, instance)
            .ok_or_else(|| self.nowhere(instance))
    }

    fn nowhere(self, instance: &str) -> TuneError {
        TuneError::NoInstance {
            setting: self.0.named(instance),
            there: "the name is not valid".to_owned(),
        }
    }

    /// Reads a number from a file next to the instance's own file.
    fn limit(
        self,
        target: &Target<'_>,
        instance: &str,
        file: &'static str,
    ) -> Result<i64, TuneError> {
        let path = self.path(target, file, instance);
        let path = path.ok_or_else(|| self.nowhere(instance))?;
        let text = match target.files.read(&path) {
            Ok(text) => text,
            Err(source) => return Err(TuneError::Read { path, source }),
        };
        text.trim().parse().map_err(|_| TuneError::Invalid {
            setting: self.0.named(instance),
            value: text.trim().chars().take(40).collect(),
            expected: format!("{} should contain a number", path.display()),
        })
    }

    fn between(
        self,
        target: &Target<'_>,
        instance: &str,
        asked: &str,
        (least, most): (&'static str, &'static str),
    ) -> Result<String, TuneError> {
        let least = self.limit(target, instance, least)?;
        let most = self.limit(target, instance, most)?;
        match asked {
            "min" => Ok(least.to_string()),
            "max" => Ok(most.to_string()),
            _ => match asked.parse() {
                Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
                _ => Err(TuneError::Invalid {
                    setting: self.0.named(instance),
                    value: asked.to_owned(),
                    expected: format!("it takes a number from {least} to {most}, `min` or `max`"),
                }),
            },
        }
    }
}

impl Access for OneFile {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        Ok(match self.0.location {
            Location::Each(pattern) => Pattern(pattern).instances(target),
            Location::Parts(parts) => parts
                .iter()
                .filter(|(_, path)| target.files.read(&target.below(path)).is_ok())
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            _ => {
                let there = target.files.exists(&target.below(self.0.path()));
                there.then(String::new).into_iter().collect()
            }
        })
    }

    fn file(&self, target: &Target<'_>, instance: &str) -> Option<PathBuf> {
        match self.0.location {
            Location::Each(pattern) => self.path(target, pattern, instance),
            Location::Parts(parts) => {
                let part = parts.iter().find(|(name, _)| *name == instance);
                part.map(|(_, path)| target.below(path))
            }
            _ => instance.is_empty().then(|| target.below(self.0.path())),
        }
    }

    fn read(&self, target: &Target<'_>, instance: &str) -> Result<String, TuneError> {
        let path = self.own(target, instance)?;
        match target.files.read(&path) {
            Ok(text) => Ok(self.0.values.normal(text.trim())),
            Err(source) => Err(TuneError::Read { path, source }),
        }
    }

    fn write(&self, target: &Target<'_>, instance: &str, value: &str) -> Result<(), TuneError> {
        let path = self.own(target, instance)?;
        let set = target.files.set(&path, value);
        set.map_err(|source| target.refused(path, source, self.0.refusal))
    }

    fn may_write(&self, target: &Target<'_>, instance: &str) -> Result<(), TuneError> {
        let path = self.own(target, instance)?;
        let writable = target.files.writable(&path);
        writable.map_err(|source| target.not_written(path, source))
    }

    fn refusal(&self, target: &Target<'_>, instance: &str) -> Option<String> {
        let path = self.file(target, instance)?;
        let writable = target.files.has_write_bit(&path).unwrap_or(true);
        (!writable).then(|| format!("{} is read-only on this machine", path.display()))
    }

    fn offered(
        &self,
        target: &Target<'_>,
        instance: &str,
    ) -> Result<Option<Vec<String>>, TuneError> {
        let path = match self.0.values {
            Values::Marked => self.file(target, instance),
            Values::Offered(file) => self.path(target, file, instance),
            _ => return Ok(None),
        };
        let path = path.ok_or_else(|| self.nowhere(instance))?;
        match target.files.read(&path) {
            Ok(text) => Ok(Some(
                text.split_whitespace()
                    .map(|word| word.trim_matches(['[', ']', '(', ')']).to_owned())
                    .collect(),
            )),
            Err(source) => Err(TuneError::Read { path, source }),
        }
    }

    fn holds(&self, instance: &str, value: &str) -> bool {
        let possible = match self.0.location {
            Location::Each(pattern) => Pattern(pattern).path(instance).is_some(),
            Location::Parts(parts) => parts.iter().any(|(name, _)| *name == instance),
            _ => instance.is_empty(),
        };
        possible && self.0.values.holds(value)
    }

    fn same(&self, found: &str, wanted: &str) -> bool {
        self.0.values.same(found, wanted)
    }

    fn readable(&self, value: &str) -> String {
        self.0.values.readable(value)
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            target,
            instance,
            asked,
            context,
        } = ask;
        let cpus = || context.cpus(&setting.named(instance), asked);
        let value = match setting.values {
            Values::Offered(_) | Values::Marked => {
                check_offered(self, setting, target, instance, asked)?;
                asked.to_owned()
            }
            Values::Between { least, most } => {
                self.between(target, instance, asked, (least, most))?
            }
            Values::Mask => mask(&cpus()?),
            Values::List => cpus()?.to_string(),
            values => values
                .plain(asked)
                .ok_or_else(|| invalid(setting, instance, asked))?,
        };
        Ok(Some(value))
    }

    /// sysfs returns ENODEV while it removes a file (fs/kernfs/file.c).
    fn has_vanished(&self, error: &TuneError) -> bool {
        const ENODEV: i32 = 19;
        let TuneError::Write { source, .. } = error else {
            return false;
        };
        source.kind() == ErrorKind::NotFound || source.raw_os_error() == Some(ENODEV)
    }
}
