//! Decides whether a value may be written. This is checked before a change, and for values from a
//! journal.

use std::io::ErrorKind;

use punctual_model::Setting;

use crate::TuneError;
use crate::access::check_offered;
use crate::accessors::access;
use crate::target::Target;

/// Maximum length of a value. A value in /proc or /sys is a word, a number or a CPU list.
const LONGEST: usize = 1_024;

/// Checks that a value is one trimmed line of text.
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

/// Checks that the kernel can accept this value. This is repeated just before the value is written.
pub(crate) fn check(
    setting: &Setting,
    target: &Target<'_>,
    instance: &str,
    value: &str,
) -> Result<(), TuneError> {
    sound(setting, value)?;
    check_offered(access(setting), setting, target, instance, value)
}

/// Checks that a text can be written back as a value of this setting. This is done before the text
/// is written to a journal, and again when it is read from a journal.
pub(crate) fn check_kept(
    setting: &Setting,
    target: &Target<'_>,
    instance: &str,
    value: &str,
) -> Result<(), TuneError> {
    let access = access(setting);
    let sound = value.is_empty() || sound(setting, value).is_ok();
    let holds = sound && access.holds(instance, value);
    // A number is not checked against the list, because intel_pstate lists only the names of
    // preferences that can also be numbers.
    let listed = || match access.offered(target, instance) {
        Ok(None) => Ok(true),
        Ok(Some(words)) => Ok(words.iter().any(|word| word == value)),
        // The file disappeared with its device; the write that follows will report this.
        Err(TuneError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    };
    if holds && (value.parse::<u8>().is_ok() || listed()?) {
        Ok(())
    } else {
        Err(TuneError::Unsound {
            setting: setting.named(&access.shown(instance)),
            value: value.chars().take(40).collect(),
            takes: setting.values.takes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Files;
    use crate::testing::Machine;

    #[test]
    fn length_of_a_value_is_limited() {
        let clock = crate::setting("clocksource").unwrap();
        assert!(sound(clock, &"x".repeat(LONGEST)).is_ok());
        let error = sound(clock, &"x".repeat(LONGEST + 1)).unwrap_err();
        // The message shows only the beginning.
        let text = error.to_string();
        let begin = format!("\"{}\"", "x".repeat(40));
        assert!(text.contains(&begin), "{text}");
    }

    #[test]
    fn kept_value_is_checked_against_the_list_while_there_is_one() {
        let machine = Machine::controller(false);
        let target = Target::plain(&Files, machine.host());
        let list = |name: &str| format!("sys/devices/system/cpu/cpufreq/policy1/{name}");
        let check = |name: &str, value: &str| {
            check_kept(crate::setting(name).unwrap(), &target, "policy1", value)
        };
        assert!(check("governor", "powersave").is_ok());
        for value in ["ondemand", "", "a b", " powersave", &"x".repeat(2_000)] {
            let error = check("governor", value).unwrap_err();
            assert!(
                matches!(error, TuneError::Unsound { .. }),
                "{value}: {error}"
            );
        }
        // Only names of preferences are in the list, but the preference can be a number.
        assert!(check("energy-preference", "128").is_ok());
        assert!(check("energy-preference", "256").is_err());
        // If the device and its list disappeared, the write that follows reports that.
        machine.remove(&list("scaling_available_governors"));
        assert!(check("governor", "ondemand").is_ok());
        // A list that exists but cannot be read is an error.
        machine.write(&list("scaling_available_governors/file"), "");
        let error = check("governor", "powersave").unwrap_err();
        assert!(matches!(error, TuneError::Read { .. }), "{error}");
    }

    #[test]
    fn invalid_value_is_refused_before_writing() {
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
