//! What a journal keeps of a setting: values that can be written back.

use std::io::ErrorKind;

use super::{Knob, Place, sound};
use crate::TuneError;
use crate::site::Site;

impl Knob {
    /// Whether a text that was read is a value of this setting, so that it can be
    /// written back: asked before it goes to a journal, and again when it comes
    /// from one.
    pub(crate) fn check_kept(
        &self,
        site: &Site<'_>,
        instance: &str,
        value: &str,
    ) -> Result<(), TuneError> {
        let holds = value.is_empty() || sound(self, value).is_ok();
        let holds = holds
            && match self.place {
                Place::Special(special) => special.holds(instance, value),
                _ => {
                    self.file(site, instance)?;
                    self.values.holds(value)
                }
            };
        // Some words of intel_pstate's preference are short for numbers.
        let listed = value.parse::<u8>().is_ok() || self.lists(site, instance, value)?;
        match holds && listed {
            true => Ok(()),
            false => Err(TuneError::Unsound {
                setting: self.setting(&self.shown(instance)),
                value: value.chars().take(40).collect(),
                takes: self.takes(),
            }),
        }
    }

    /// Whether the kernel lists a value, or lists none.
    fn lists(&self, site: &Site<'_>, instance: &str, value: &str) -> Result<bool, TuneError> {
        match self.values.offered(site, self, instance) {
            Ok(None) => Ok(true),
            Ok(Some(words)) => Ok(words.iter().any(|word| word == value)),
            // It went with what it belongs to: the write tells.
            Err(TuneError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}
