//! A trait with which every setting can be found, read and changed.

use std::path::PathBuf;

use punctual_model::Setting;

use crate::TuneError;
use crate::context::Context;
use crate::target::Target;

/// Finds, reads and changes a setting.
///
/// The value that `read` returns can be written back, and the journal stores it as the old value.
/// If `write` is interrupted at any point, writing the old value must restore the state.
pub(crate) trait Access: Sync {
    /// Returns the instances in ascending order. A setting without instances has a single unnamed
    /// one; a setting that does not exist on this machine has none.
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError>;
    /// Returns the reason why this machine has no instance of the setting.
    fn absence(&self, setting: &Setting, _: &Target<'_>) -> String {
        format!("{} does not exist", setting.paths().join(", "))
    }
    /// Returns other names of an instance.
    fn aliases(&self, _: &Target<'_>, _: &str) -> Vec<String> {
        Vec::new()
    }
    /// Returns the name of an instance as a user writes it.
    fn shown(&self, instance: &str) -> String {
        instance.to_owned()
    }
    /// Returns the file of an instance, if each instance of the setting is one file.
    fn file(&self, _: &Target<'_>, _: &str) -> Option<PathBuf> {
        None
    }
    /// Returns the current value of an instance.
    fn read(&self, target: &Target<'_>, instance: &str) -> Result<String, TuneError>;
    /// Changes an instance. The caller must read it back to find out whether the change took
    /// effect.
    fn write(&self, target: &Target<'_>, instance: &str, value: &str) -> Result<(), TuneError>;
    /// Returns an error if this process may not change the instance.
    fn may_write(&self, target: &Target<'_>, instance: &str) -> Result<(), TuneError>;
    /// Returns the reason why the instance cannot be changed even with all rights, or `None` if it
    /// can be changed.
    fn refusal(&self, _: &Target<'_>, _: &str) -> Option<String> {
        None
    }
    /// Returns the possible values, if the kernel lists them.
    fn offered(&self, _: &Target<'_>, _: &str) -> Result<Option<Vec<String>>, TuneError> {
        Ok(None)
    }
    /// Returns whether `read` could have returned this value for this instance. A value from the
    /// journal is written only if it could.
    fn holds(&self, instance: &str, value: &str) -> bool;
    /// Returns whether two texts mean the same value.
    fn same(&self, found: &str, wanted: &str) -> bool {
        found == wanted
    }
    /// Formats a value for users.
    fn readable(&self, value: &str) -> String {
        value.to_owned()
    }
    /// Returns the value to write for a user's request, or `None` if the request does not apply to
    /// this instance.
    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError>;
    /// Returns whether the instance is permanently gone, so that there is nothing left to restore.
    fn is_gone(&self, _: &Target<'_>, _: &str) -> bool {
        false
    }
    /// Returns whether a write failed because its file disappeared, for example because a device
    /// was unplugged or a CPU went offline.
    fn has_vanished(&self, _: &TuneError) -> bool {
        false
    }
    /// Returns a note for the user about a value that is or will be in force.
    fn remark(&self, _: &Target<'_>, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// A user's request for one instance of a setting.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) target: &'a Target<'a>,
    pub(crate) instance: &'a str,
    pub(crate) asked: &'a str,
    pub(crate) context: &'a Context,
}

/// Reads a file; it is an error if the file does not exist.
pub(crate) fn read(target: &Target<'_>, file: &str) -> Result<String, TuneError> {
    let path = target.below(file);
    match target.files.read(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(TuneError::Read { path, source }),
    }
}

/// Writes a file; it is an error if the file does not exist.
pub(crate) fn write(target: &Target<'_>, file: &str, value: &str) -> Result<(), TuneError> {
    let path = target.below(file);
    let set = target.files.set(&path, value);
    set.map_err(|source| target.not_written(path, source))
}

/// Returns an error if this process may not write the file.
pub(crate) fn may_write(target: &Target<'_>, file: &str) -> Result<(), TuneError> {
    let path = target.below(file);
    let writable = target.files.writable(&path);
    writable.map_err(|source| target.not_written(path, source))
}

/// Converts the words with which a user can write on and off to `on` or `off`.
pub(crate) fn on_or_off(setting: &Setting, asked: &str) -> Result<String, TuneError> {
    match asked {
        "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
        "off" | "false" | "no" | "0" => Ok("off".to_owned()),
        _ => Err(invalid(setting, "", asked)),
    }
}

/// Creates the error for a value that the setting does not accept.
pub(crate) fn invalid(setting: &Setting, instance: &str, asked: &str) -> TuneError {
    TuneError::Invalid {
        setting: setting.named(instance),
        value: asked.to_owned(),
        expected: format!("it takes {}", setting.values.takes()),
    }
}

/// Refuses a value that is not in the kernel's list, if there is a list.
pub(crate) fn check_offered(
    access: &dyn Access,
    setting: &Setting,
    target: &Target<'_>,
    instance: &str,
    value: &str,
) -> Result<(), TuneError> {
    match access.offered(target, instance)? {
        Some(offered) if !offered.iter().any(|word| word == value) => Err(TuneError::NotOffered {
            setting: setting.named(instance),
            value: value.to_owned(),
            offered: offered.join(", "),
        }),
        _ => Ok(()),
    }
}
