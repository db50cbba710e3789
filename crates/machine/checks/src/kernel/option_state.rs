//! The state of an option in a configuration.

use std::collections::HashMap;
use std::fmt;

use super::KernelOption;

/// The state of an option in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionState<'a> {
    /// `CONFIG_X=…`, without quotes around the value.
    Set(&'a str),
    /// `# CONFIG_X is not set`.
    Off,
    /// The option is not mentioned: this kernel does not have it, or one of its dependencies is
    /// off.
    Unmentioned,
}

impl OptionState<'_> {
    /// Returns whether the option is built in or a module.
    pub fn is_on(self) -> bool {
        matches!(self, Self::Set("y" | "m"))
    }
}

impl fmt::Display for OptionState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(value) => f.write_str(value),
            Self::Off => f.write_str("not set"),
            Self::Unmentioned => f.write_str("not offered"),
        }
    }
}

/// Returns the state of `option`, which starts with `CONFIG_`, in the text of a configuration. If
/// there are several lines, the last one counts, as it does when the kernel is built.
pub fn option_state<'a>(text: &'a str, option: &str) -> OptionState<'a> {
    let of_line = |line: &'a str| {
        if let Some(rest) = line.strip_prefix(option) {
            let value = rest.strip_prefix('=')?.trim().trim_matches('"');
            return Some(match value {
                "n" => OptionState::Off,
                value => OptionState::Set(value),
            });
        }
        let rest = line.strip_prefix("# ")?.strip_prefix(option)?;
        (rest == " is not set").then_some(OptionState::Off)
    };
    let lines = text.lines().rev();
    lines
        .map(str::trim_end)
        .find_map(of_line)
        .unwrap_or(OptionState::Unmentioned)
}

/// Returns whether a configuration is complete, as the kernel's own tools write it. An option that
/// a complete configuration does not mention does not exist in this kernel. A defconfig has no
/// heading and contains only the differences from the defaults (scripts/kconfig/confdata.c,
/// `conf_write_defconfig`). The smallest kernel (`make tinyconfig`) has several hundred options.
pub fn is_whole(text: &str) -> bool {
    const LEAST: usize = 300;
    let named = |line: &&str| line.trim_start_matches("# ").starts_with("CONFIG_");
    built_as(text).is_some() && text.lines().filter(named).nth(LEAST - 1).is_some()
}

/// Returns the name and version in the heading of a configuration, such as `Linux/x86 6.1.0`.
pub(super) fn built_as(text: &str) -> Option<&str> {
    let mut head = text.lines().take(10);
    head.find_map(|line| {
        line.strip_prefix("# ")?
            .strip_suffix(" Kernel Configuration")
    })
}

/// All options of a configuration. The text, of about 300 kB, is parsed only once, whereas
/// [`option_state`] searches it for each option.
pub(super) struct Configuration<'a> {
    options: HashMap<&'a str, OptionState<'a>>,
    whole: bool,
}

impl<'a> Configuration<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let lines = text.lines().map(str::trim_end);
        Self {
            options: lines.filter_map(Self::of_line).collect(),
            whole: is_whole(text),
        }
    }

    fn of_line(line: &'a str) -> Option<(&'a str, OptionState<'a>)> {
        if let Some(off) = line.strip_prefix("# ") {
            return Some((off.strip_suffix(" is not set")?, OptionState::Off));
        }
        let (option, value) = line.split_once('=')?;
        let state = match value.trim().trim_matches('"') {
            "n" => OptionState::Off,
            value => OptionState::Set(value),
        };
        Some((option, state))
    }

    pub(super) fn get(&self, option: &str) -> OptionState<'a> {
        let found = self.options.get(option).copied();
        found.unwrap_or(OptionState::Unmentioned)
    }

    /// Returns the state of an option under its current or its former name.
    pub(super) fn state_of(&self, option: &KernelOption) -> OptionState<'a> {
        match self.get(option.formerly) {
            OptionState::Set(value) => OptionState::Set(value),
            _ => self.get(option.option),
        }
    }

    /// Returns whether the kernel is built without an option.
    pub(super) fn lacks(&self, option: &str) -> bool {
        match self.get(option) {
            OptionState::Unmentioned => self.whole,
            state => !state.is_on(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn last_line_counts_and_names_match_fully() {
        let text = "CONFIG_A=y\n# CONFIG_A is not set\nCONFIG_AB=y\nCONFIG_S=\"x\"\n";
        assert_eq!(option_state(text, "CONFIG_A"), OptionState::Off);
        assert_eq!(option_state(text, "CONFIG_AB"), OptionState::Set("y"));
        assert_eq!(option_state(text, "CONFIG_S"), OptionState::Set("x"));
        assert_eq!(option_state(text, "CONFIG_B"), OptionState::Unmentioned);
    }

    #[test]
    fn only_built_in_and_module_are_on() {
        for (state, on, word) in [
            (OptionState::Set("y"), true, "y"),
            (OptionState::Set("m"), true, "m"),
            (OptionState::Set("250"), false, "250"),
            (OptionState::Off, false, "not set"),
            (OptionState::Unmentioned, false, "not offered"),
        ] {
            assert_eq!((state.is_on(), state.to_string().as_str()), (on, word));
        }
    }

    #[test]
    fn whole_configuration_has_heading_and_300_options() {
        let with = |head: &str, on: usize, off: usize| {
            let on: String = (0..on).map(|n| format!("CONFIG_A{n}=y\n")).collect();
            let off: String = (0..off)
                .map(|n| format!("# CONFIG_B{n} is not set\n"))
                .collect();
            is_whole(&format!("{head}{on}{off}"))
        };
        let head = "#\n# Linux/x86 6.1.0 Kernel Configuration\n#\n";
        assert!(with(head, 150, 150) && with(head, 300, 0));
        assert!(!with(head, 150, 149) && !with("", 400, 0));
        // The heading is at the top.
        assert!(with(
            &format!(
                "{}# Linux/x86 6.1.0 Kernel Configuration\n",
                "#\n".repeat(9)
            ),
            300,
            0
        ));
        assert!(!with(
            &format!(
                "{}# Linux/x86 6.1.0 Kernel Configuration\n",
                "#\n".repeat(10)
            ),
            300,
            0
        ));
        assert_eq!(built_as(head), Some("Linux/x86 6.1.0"));
        assert_eq!(built_as("# Linux/x86 6.1.0 Configuration"), None);
    }

    #[test]
    fn former_name_counts_only_if_it_is_set() {
        let option = KernelOption {
            option: "CONFIG_NEW",
            formerly: "CONFIG_OLD",
            ..super::super::options::BASE
        };
        for (text, state) in [
            ("CONFIG_OLD=y\n", OptionState::Set("y")),
            (
                "CONFIG_OLD=y\n# CONFIG_NEW is not set\n",
                OptionState::Set("y"),
            ),
            (
                "# CONFIG_OLD is not set\nCONFIG_NEW=m\n",
                OptionState::Set("m"),
            ),
            ("# CONFIG_NEW is not set\n", OptionState::Off),
            ("", OptionState::Unmentioned),
        ] {
            assert_eq!(Configuration::read(text).state_of(&option), state, "{text}");
        }
    }

    #[test]
    fn kernel_lacks_what_it_is_built_without() {
        let part = Configuration::read("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=5\n");
        assert!(!part.lacks("CONFIG_A") && part.lacks("CONFIG_B") && part.lacks("CONFIG_C"));
        // A part of a configuration does not show what the kernel lacks.
        assert!(!part.lacks("CONFIG_D"));
        let all: String = (0..300).map(|n| format!("CONFIG_X{n}=y\n")).collect();
        let whole = format!("# Linux/x86 6.1.0 Kernel Configuration\n{all}");
        assert!(Configuration::read(&whole).lacks("CONFIG_D"));
    }

    proptest! {
        #[test]
        fn both_readers_report_same_option_state(text in "(CONFIG_PREEMPT_RT|CONFIG_DRM|# |=y|=\"n\"|=n| is not set|\n| ){0,40}") {
            let read = Configuration::read(&text);
            for option in ["CONFIG_PREEMPT_RT", "CONFIG_DRM", "CONFIG_PREEMPT"] {
                prop_assert_eq!(read.get(option), option_state(&text, option));
            }
        }
    }
}
