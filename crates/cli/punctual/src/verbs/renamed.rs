//! Old names of verbs and options, with their replacements.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// An old verb and its replacement.
const VERBS: &[(&str, &str)] = &[
    ("record", "monitor"),
    ("deliver", "push"),
    ("changes", "trend changes"),
    ("note", "trend note"),
    ("probes", "measure --list"),
    ("echo", "measure socket --serve"),
    ("trace", "export --format trace-dat"),
    ("lake", "export --to"),
];

/// An old option of a verb and its replacement.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("check", "--time", "--duration"),
    ("experiment", "--time", "--duration"),
    ("improve", "--time", "--duration"),
    ("import", "--from", "--format"),
    ("list", "--number", "--limit"),
    ("threads", "--kind", "--type"),
    ("watch", "--worst", "--longest"),
];

/// If `error` is about an old verb or option, returns an error that names its replacement.
pub(super) fn explained(error: &Error, words: &[OsString], command: &mut Command) -> Option<Error> {
    let text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    let message = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let old = text(ContextKind::InvalidSubcommand)?;
            let (_, new) = VERBS.iter().find(|(known, _)| *known == old)?;
            format!("unknown command '{old}'; did you mean '{new}'?")
        }
        ErrorKind::UnknownArgument => {
            let old = text(ContextKind::InvalidArg)?;
            let (_, _, new) = OPTIONS.iter().find(|(verb, option, _)| {
                *option == old && words.iter().any(|word| word == OsStr::new(verb))
            })?;
            format!("unknown option '{old}'; did you mean '{new}'?")
        }
        _ => return None,
    };
    Some(command.error(error.kind(), message))
}

#[cfg(test)]
mod tests {
    use super::super::{command, parse};
    use super::*;

    fn refused(words: &[&str]) -> Error {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        parse(&words).unwrap_err()
    }

    /// Returns the command in these words, up to the first option.
    fn is_known(words: &str) -> bool {
        let mut known = command();
        known.build();
        let mut at = &known;
        for word in words.split_whitespace() {
            let option = word.strip_prefix("--");
            match option {
                Some(option) => {
                    return at.get_arguments().any(|arg| arg.get_long() == Some(option));
                }
                None => match at.find_subcommand(word) {
                    Some(inner) => at = inner,
                    None => return false,
                },
            }
        }
        true
    }

    #[test]
    fn old_verbs_name_the_new_ones() {
        for (old, new) in VERBS {
            for words in [
                &["punctual", old][..],
                &["punctual", "--store", "x.db", old, "last"],
                &["punctual", "help", old],
            ] {
                let error = refused(words);
                let expected = format!("unknown command '{old}'; did you mean '{new}'?");
                assert!(error.to_string().contains(&expected), "{words:?}: {error}");
                assert!(error.use_stderr() && error.exit_code() == 2, "{error}");
            }
            assert!(is_known(new), "{new}");
            assert!(!is_known(old), "{old}");
        }
    }

    #[test]
    fn old_options_name_the_new_ones() {
        for (verb, old, new) in OPTIONS {
            let words: Vec<&str> = ["punctual"]
                .into_iter()
                .chain(verb.split(' '))
                .chain([*old, "1"])
                .collect();
            let error = refused(&words);
            let expected = format!("unknown option '{old}'; did you mean '{new}'?");
            assert!(error.to_string().contains(&expected), "{words:?}: {error}");
            assert!(error.use_stderr() && error.exit_code() == 2, "{error}");
            assert!(is_known(&format!("{verb} {new}")), "{verb} {new}");
            assert!(!is_known(&format!("{verb} {old}")), "{verb} {old}");
        }
    }
}
