//! Settings by name, and their values on this machine.

use punctual_host::Host;
use punctual_model::{SETTINGS, Setting};

use crate::TuneError;
use crate::accessors::access;
use crate::fs::Files;
use crate::target::Target;

/// Returns the setting with that name.
///
/// # Errors
/// Returns [`TuneError::NoSuchSetting`] with the nearest existing name.
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

/// Returns the name that the user probably meant.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let alike = |known: &str| strsim::jaro_winkler(&name.replace('_', "-"), known);
    names
        .iter()
        .copied()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))
        .filter(|near| alike(near) > ALIKE)
}

/// Reads a setting that has a single instance. The value is returned as the kernel formats it.
///
/// # Errors
/// Returns [`TuneError::Read`] if the setting cannot be read.
pub fn value(setting: &Setting, host: &Host) -> Result<String, TuneError> {
    access(setting).read(&Target::plain(&Files, host), "")
}

/// Returns the values that a setting accepts, in the kernel's order, or `None` if the kernel does
/// not list them.
///
/// # Errors
/// Returns [`TuneError::Read`] if the list cannot be read.
pub fn offered(setting: &Setting, host: &Host) -> Result<Option<Vec<String>>, TuneError> {
    access(setting).offered(&Target::plain(&Files, host), "")
}

/// Returns an error if this process may not change a setting. This changes nothing.
///
/// # Errors
/// Returns [`TuneError::Write`], which explains how to get the permission.
pub fn may_change(setting: &Setting, host: &Host) -> Result<(), TuneError> {
    access(setting).may_write(&Target::plain(&Files, host), "")
}

/// Formats a value for users: CPUs instead of a mask.
pub fn readable(setting: &Setting, value: &str) -> String {
    access(setting).readable(value)
}

/// Returns `name`, or `name@instance`, as a user writes it.
pub(crate) fn shown(setting: &Setting, instance: &str) -> String {
    setting.named(&access(setting).shown(instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_single_settings_are_those_of_the_machine() {
        let machine = crate::testing::Machine::controller(true);
        let row = |name: &str| setting(name).unwrap();
        let host = machine.host();
        assert_eq!(value(row("clocksource"), host).unwrap(), "tsc");
        assert_eq!(value(row("thp"), host).unwrap(), "madvise");
        let words = |name: &str| offered(row(name), host).unwrap();
        let texts = |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(words("clocksource"), texts(&["tsc", "hpet", "acpi_pm"]));
        assert_eq!(words("thp"), texts(&["always", "madvise", "never"]));
        assert_eq!(words("swappiness"), None);
        assert!(may_change(row("swappiness"), host).is_ok());
        machine.remove("proc/sys/vm/swappiness");
        machine.remove("sys/kernel/mm/transparent_hugepage");
        assert!(may_change(row("swappiness"), host).is_err());
        assert!(matches!(
            value(row("thp"), host),
            Err(TuneError::Read { .. })
        ));
        assert!(matches!(
            offered(row("thp"), host),
            Err(TuneError::Read { .. })
        ));
        // A setting with several instances has no single value.
        let error = value(row("governor"), host).unwrap_err();
        assert!(matches!(error, TuneError::NoInstance { .. }), "{error}");
        assert_eq!(shown(row("governor"), "policy0"), "governor@policy0");
        assert_eq!(shown(row("thp"), ""), "thp");
    }

    #[test]
    fn mistyped_name_suggests_the_nearest() {
        let answer = |name: &str| setting(name).unwrap_err().to_string();
        assert!(answer("goverment").contains("did you mean 'governor'"));
        assert!(answer("clock_source").contains("did you mean 'clocksource'"));
        assert!(answer("xyzzy").contains("one of "));
    }
}
