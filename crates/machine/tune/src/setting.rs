//! Settings by name, and their values on this machine.

use punctual_host::Host;
use punctual_model::{SETTINGS, Setting};

use crate::TuneError;
use crate::accessors::access;
use crate::fs::Files;
use crate::target::Target;

/// The setting of that name.
///
/// # Errors
/// [`TuneError::NoSuchSetting`], with the nearest name there is.
pub fn setting(name: &str) -> Result<&'static Setting, TuneError> {
    punctual_model::setting(name).ok_or_else(|| {
        let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        TuneError::NoSuchSetting {
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

/// The value of a setting that there is one of, as the kernel words it.
///
/// # Errors
/// [`TuneError::Read`].
pub fn value(setting: &Setting, host: &Host) -> Result<String, TuneError> {
    access(setting).read(&Target::plain(&Files, host), "")
}

/// The values that a setting takes, in the kernel's order; `None` where the
/// kernel does not list them.
///
/// # Errors
/// [`TuneError::Read`].
pub fn offered(setting: &Setting, host: &Host) -> Result<Option<Vec<String>>, TuneError> {
    access(setting).offered(&Target::plain(&Files, host), "")
}

/// Whether this process may change a setting; nothing is changed.
///
/// # Errors
/// [`TuneError::Write`], which says how to get the right.
pub fn may_change(setting: &Setting, host: &Host) -> Result<(), TuneError> {
    access(setting).may_write(&Target::plain(&Files, host), "")
}

/// A value as a person reads it: CPUs instead of a mask.
pub fn readable(setting: &Setting, value: &str) -> String {
    access(setting).readable(value)
}

/// `name`, or `name@instance` as a person names it.
pub(crate) fn shown(setting: &Setting, instance: &str) -> String {
    setting.named(&access(setting).shown(instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_typo_is_answered_with_the_nearest() {
        let answer = |name: &str| setting(name).unwrap_err().to_string();
        assert!(answer("goverment").contains("did you mean 'governor'"));
        assert!(answer("clock_source").contains("did you mean 'clocksource'"));
        assert!(answer("xyzzy").contains("one of "));
    }
}
