//! Filters remedies, so that a change that the machine would refuse is not offered.

use std::collections::BTreeMap;

use punctual_model::{Reading, Setting, Values, path_matches};

type Files = BTreeMap<String, Reading>;

/// Returns the files of a setting and the file that lists its possible values. Leaves out entries
/// that contain a space or `PID`, because they are not paths.
pub(crate) fn deciding(row: &'static Setting) -> Vec<&'static str> {
    let mut all = row.paths();
    if let Values::Offered(list) = row.values {
        all.push(list);
    }
    all.retain(|path| !path.contains(' ') && !path.contains("PID"));
    all
}

/// Returns whether a setting can have this value now. A file that was not read is no reason to
/// exclude the value.
pub(crate) fn can_be_set(row: &'static Setting, value: &str, files: &Files) -> bool {
    // Even if the mode of a file forbids reading it, root can set it. A locked-down kernel refuses
    // even root.
    let refuses = |reading: &Reading| match reading {
        Reading::Text(_) => false,
        Reading::Absent => true,
        Reading::Unreadable(why) => !why.starts_with("permission denied"),
    };
    let lacking = |path: &str| {
        let mut found = readings(path, files).peekable();
        found.peek().is_some() && found.all(refuses)
    };
    !row.paths().into_iter().any(lacking) && is_offered(row, value, files)
}

/// Returns whether the parameter or file that sets this value at each boot can have an effect.
pub(crate) fn can_be_booted(
    row: &'static Setting,
    value: &str,
    files: &Files,
    version: Option<&str>,
) -> bool {
    // Kernels without PREEMPT_DYNAMIC ignore `preempt=` (kernel/sched/core.c, setup_preempt_mode).
    let dynamic = |text: &str| text.split(' ').any(|word| word == "PREEMPT_DYNAMIC");
    let obeyed = row.name != "preempt" || version.is_none_or(dynamic);
    obeyed && is_offered(row, value, files)
}

/// Returns whether the value is in the machine's list of possible values.
fn is_offered(row: &'static Setting, value: &str, files: &Files) -> bool {
    let list = match row.values {
        Values::Offered(list) => list,
        Values::Marked => row.path(),
        _ => return true,
    };
    let mut texts = readings(list, files)
        .filter_map(|reading| match reading {
            Reading::Text(text) => Some(text),
            _ => None,
        })
        .peekable();
    let bare = |word: &str| word.trim_matches(['[', ']', '(', ')']) == value;
    texts.peek().is_none() || texts.any(|text| text.split_whitespace().any(bare))
}

/// Returns the readings of a file, or of the files of a pattern.
fn readings<'a>(pattern: &'a str, files: &'a Files) -> impl Iterator<Item = &'a Reading> {
    let start = pattern.find(['*', '#']).unwrap_or(pattern.len());
    let prefix = &pattern[..start];
    (files.range(prefix.to_owned()..))
        .take_while(move |(file, _)| file.starts_with(prefix))
        .filter(move |(file, _)| *file == pattern || path_matches(pattern, file))
        .map(|(_, reading)| reading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::setting;

    fn read(all: &[(&str, Reading)]) -> Files {
        let owned = |(file, reading): &(&str, Reading)| ((*file).to_owned(), reading.clone());
        all.iter().map(owned).collect()
    }

    fn text(text: &str) -> Reading {
        Reading::Text(text.to_owned())
    }

    #[test]
    fn root_unreadable_files_are_not_offered() {
        const FILE: &str = "/sys/kernel/debug/sched/preempt";
        let row = setting("preempt").unwrap();
        let refused = |why: &str| Reading::Unreadable(why.to_owned());
        for (reading, offered) in [
            (text("none voluntary (full) lazy"), true),
            (text("none (voluntary)"), false),
            (refused("permission denied"), true),
            (refused("lockdown (integrity)"), false),
            (Reading::Absent, false),
        ] {
            let files = read(&[(FILE, reading.clone())]);
            assert_eq!(can_be_set(row, "full", &files), offered, "{reading:?}");
        }
        assert!(can_be_set(row, "full", &Files::new()));
    }

    #[test]
    fn only_listed_values_are_offered() {
        let row = setting("clocksource").unwrap();
        let available = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
        let board = read(&[(available, text("arch_sys_counter"))]);
        assert!(!can_be_set(row, "tsc", &board));
        assert!(!can_be_booted(row, "tsc", &board, None));
        let x86 = read(&[(available, text("hpet tsc acpi_pm"))]);
        assert!(can_be_set(row, "tsc", &x86) && can_be_booted(row, "tsc", &x86, None));
        let row = setting("governor").unwrap();
        let list = "/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors";
        let without = read(&[(list, text("powersave schedutil"))]);
        assert!(!can_be_set(row, "performance", &without));
    }

    #[test]
    fn parameter_ignored_by_kernel_is_not_booted() {
        let row = setting("preempt").unwrap();
        let of = |version| can_be_booted(row, "full", &Files::new(), version);
        assert!(of(None) && of(Some("#1 SMP PREEMPT_DYNAMIC Debian")));
        assert!(!of(Some("#1 SMP PREEMPT Debian")));
    }
}
