//! The state of an option in a configuration.

use std::collections::HashMap;
use std::fmt;

/// The state of an option in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionState<'a> {
    /// `CONFIG_X=…`, without quotes around the value.
    Set(&'a str),
    /// `# CONFIG_X is not set`.
    Off,
    /// Not mentioned: this kernel has no such option, or something it needs
    /// is off.
    Unmentioned,
}

impl OptionState<'_> {
    /// Built in or a module.
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

/// The state of `option`, which starts with `CONFIG_`, in the text of a
/// configuration. Of two lines the last counts, as for the kernel's make.
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

/// All options that a configuration mentions, read once: it has 300 kB, and
/// [`option_state`] goes through it for each option.
pub(super) struct Configuration<'a>(HashMap<&'a str, OptionState<'a>>);

impl<'a> Configuration<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let lines = text.lines().map(str::trim_end);
        Self(lines.filter_map(Self::of_line).collect())
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
        let found = self.0.get(option).copied();
        found.unwrap_or(OptionState::Unmentioned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_line_counts_and_names_are_whole() {
        let text = "CONFIG_A=y\n# CONFIG_A is not set\nCONFIG_AB=y\nCONFIG_S=\"x\"\n";
        assert_eq!(option_state(text, "CONFIG_A"), OptionState::Off);
        assert_eq!(option_state(text, "CONFIG_AB"), OptionState::Set("y"));
        assert_eq!(option_state(text, "CONFIG_S"), OptionState::Set("x"));
        assert_eq!(option_state(text, "CONFIG_B"), OptionState::Unmentioned);
    }

    proptest! {
        #[test]
        fn read_once_or_for_each_it_says_the_same(text in "(CONFIG_PREEMPT_RT|CONFIG_DRM|# |=y|=\"n\"|=n| is not set|\n| ){0,40}") {
            let read = Configuration::read(&text);
            for option in ["CONFIG_PREEMPT_RT", "CONFIG_DRM", "CONFIG_PREEMPT"] {
                prop_assert_eq!(read.get(option), option_state(&text, option));
            }
        }
    }
}
