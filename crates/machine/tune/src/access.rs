//! How a setting is found, read and changed: one trait for all of them.

use std::path::PathBuf;

use punctual_model::Setting;

use crate::TuneError;
use crate::context::Context;
use crate::target::Target;

/// How a setting is found, read and changed.
///
/// What `read` gives can be written back: it goes to the journal as the old
/// value. `write` may be ended anywhere; writing the old value after that must
/// lead back.
pub(crate) trait Access: Sync {
    /// The instances there are, in the order of their numbers, one without a name
    /// where there is one only; empty where this machine does not have the setting.
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError>;
    /// Why there is none.
    fn absence(&self, setting: &Setting, _: &Target<'_>) -> String {
        format!("{} is not there", setting.paths().join(", "))
    }
    /// Other names of an instance.
    fn aliases(&self, _: &Target<'_>, _: &str) -> Vec<String> {
        Vec::new()
    }
    /// An instance as a person names it.
    fn shown(&self, instance: &str) -> String {
        instance.to_owned()
    }
    /// The file of an instance, where each has one of its own.
    fn file(&self, _: &Target<'_>, _: &str) -> Option<PathBuf> {
        None
    }
    /// Its value.
    fn read(&self, target: &Target<'_>, instance: &str) -> Result<String, TuneError>;
    /// Changes it; whether that had an effect is for the caller to read.
    fn write(&self, target: &Target<'_>, instance: &str, value: &str) -> Result<(), TuneError>;
    /// Whether this process may.
    fn may_write(&self, target: &Target<'_>, instance: &str) -> Result<(), TuneError>;
    /// Why nobody may, whatever their rights.
    fn refusal(&self, _: &Target<'_>, _: &str) -> Option<String> {
        None
    }
    /// The values it takes, where the kernel lists them.
    fn offered(&self, _: &Target<'_>, _: &str) -> Result<Option<Vec<String>>, TuneError> {
        Ok(None)
    }
    /// Whether `read` can have given this text for this instance: what a journal
    /// says is only written where it can.
    fn holds(&self, instance: &str, value: &str) -> bool;
    /// Whether two texts are the same value.
    fn same(&self, found: &str, wanted: &str) -> bool {
        found == wanted
    }
    /// A value as a person reads it.
    fn readable(&self, value: &str) -> String {
        value.to_owned()
    }
    /// What is to be written for what a person asked; nothing where this
    /// instance is not concerned.
    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError>;
    /// Whether the instance has ended permanently, so that there is nothing left
    /// to put back.
    fn is_gone(&self, _: &Target<'_>, _: &str) -> bool {
        false
    }
    /// Whether a write failed because its file went: a device was unplugged, a CPU
    /// went offline.
    fn has_vanished(&self, _: &TuneError) -> bool {
        false
    }
    /// What the reader must know of a value that is in force, or will be.
    fn remark(&self, _: &Target<'_>, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// What a person asked for one instance of a setting.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) target: &'a Target<'a>,
    pub(crate) instance: &'a str,
    pub(crate) asked: &'a str,
    pub(crate) context: &'a Context,
}

/// Reads a file that must be there.
pub(crate) fn read(target: &Target<'_>, file: &str) -> Result<String, TuneError> {
    let path = target.below(file);
    match target.files.read(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(TuneError::Read { path, source }),
    }
}

/// Writes a file that must be there.
pub(crate) fn write(target: &Target<'_>, file: &str, value: &str) -> Result<(), TuneError> {
    let path = target.below(file);
    let set = target.files.set(&path, value);
    set.map_err(|source| target.not_written(path, source))
}

/// Whether a file may be written.
pub(crate) fn may_write(target: &Target<'_>, file: &str) -> Result<(), TuneError> {
    let path = target.below(file);
    let writable = target.files.writable(&path);
    writable.map_err(|source| target.not_written(path, source))
}

/// One of the words for on and off.
pub(crate) fn on_or_off(setting: &Setting, asked: &str) -> Result<String, TuneError> {
    match asked {
        "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
        "off" | "false" | "no" | "0" => Ok("off".to_owned()),
        _ => Err(invalid(setting, "", asked)),
    }
}

/// A value that it does not take.
pub(crate) fn invalid(setting: &Setting, instance: &str, asked: &str) -> TuneError {
    TuneError::Invalid {
        setting: setting.named(instance),
        value: asked.to_owned(),
        expected: format!("it takes {}", setting.values.takes()),
    }
}

/// Refuses a value that the kernel does not list, where it lists any.
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
