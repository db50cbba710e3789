//! Whether a value may be written: asked before a change, and of what a journal
//! keeps.

use std::io::ErrorKind;

use punctual_model::Setting;

use crate::TuneError;
use crate::access::check_offered;
use crate::accessors::access;
use crate::target::Target;

/// The longest value that is written: those of /proc and /sys are a word, a
/// number or a CPU list.
const LONGEST: usize = 1_024;

/// One line of text without space around it.
pub(crate) fn sound(setting: &Setting, value: &str) -> Result<(), TuneError> {
    let sound = !value.is_empty()
        && value.len() <= LONGEST
        && value.trim() == value
        && !value.chars().any(char::is_control);
    if sound {
        return Ok(());
    }
    Err(TuneError::Value {
        setting: setting.name,
        value: value.chars().take(40).collect(),
    })
}

/// Whether the kernel could take this value at all, checked once more before it
/// is written.
pub(crate) fn check(
    setting: &Setting,
    target: &Target<'_>,
    instance: &str,
    value: &str,
) -> Result<(), TuneError> {
    sound(setting, value)?;
    check_offered(access(setting), setting, target, instance, value)
}

/// Whether a text that was read is a value of this setting, so that it can be
/// written back: asked before it goes to a journal, and again when it comes from
/// one.
pub(crate) fn check_kept(
    setting: &Setting,
    target: &Target<'_>,
    instance: &str,
    value: &str,
) -> Result<(), TuneError> {
    let access = access(setting);
    let sound = value.is_empty() || sound(setting, value).is_ok();
    let holds = sound && access.holds(instance, value);
    // Some words of intel_pstate's preference are short for numbers.
    let listed = || match access.offered(target, instance) {
        Ok(None) => Ok(true),
        Ok(Some(words)) => Ok(words.iter().any(|word| word == value)),
        // It went with what it belongs to: the write fails and says so.
        Err(TuneError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    };
    match holds && (value.parse::<u8>().is_ok() || listed()?) {
        true => Ok(()),
        false => Err(TuneError::Unsound {
            setting: setting.named(&access.shown(instance)),
            value: value.chars().take(40).collect(),
            takes: setting.values.takes(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Files;
    use crate::testing::Machine;

    #[test]
    fn a_value_that_no_kernel_takes_is_refused_before_anything_is_written() {
        let machine = Machine::new();
        let clock = crate::setting("clocksource").unwrap();
        let files = Files;
        let target = Target::plain(&files, machine.host());
        let check = |value: &str| check(clock, &target, "", value);
        assert!(check("hpet").is_ok());
        for value in ["", " hpet", "hpet\n", "a\0b", &"x".repeat(2_000)] {
            assert!(matches!(check(value), Err(TuneError::Value { .. })));
        }
        let error = check("sundial").unwrap_err().to_string();
        assert!(error.contains("tsc, hpet, acpi_pm"), "{error}");
    }
}
