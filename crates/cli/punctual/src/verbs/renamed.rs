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
    ("threads", "machine threads"),
    ("irqs", "machine irqs"),
    ("topology", "machine topology"),
    ("place", "machine place"),
    ("clocks", "machine clocks"),
    ("kernel", "machine kernel"),
    ("facts", "machine facts"),
    ("delete", "store delete"),
    ("bundle", "store bundle"),
    ("lint", "app lint"),
];

/// Words that moved to the other program: the command, the word, and the new command.
const OF_SERVER: &[(&str, &str, &str)] = &[
    ("serve", "enrol", "enrol"),
    ("serve", "revoke", "revoke"),
    ("serve", "moved", "moved"),
    ("serve", "tokens", "tokens"),
    ("serve", "install", "install"),
    ("", "serve", "run"),
    ("", "lake", "export"),
    ("store", "copy", "copy"),
    ("export", "--to", "export --to"),
    ("export", "--by", "export --by"),
    ("export", "--since", "export --since"),
];

/// An old option of a verb and its replacement.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("check", "--time", "--duration"),
    (
        "check",
        "--max-misses-per-day",
        "--max-late-seconds-per-day",
    ),
    ("check", "--episode-gap", "--max-late-seconds-per-day"),
    ("experiment", "--time", "--duration"),
    ("improve", "--time", "--duration"),
    ("import", "--from", "--format"),
    ("import", "--mtime", "--at mtime"),
    ("list", "--number", "--limit"),
    ("machine threads", "--kind", "--type"),
    ("watch", "--worst", "--longest"),
];

/// Options that moved to another command.
const MOVED: &[(&str, &str, &str)] = &[
    ("check", "--junit", "report last -o FILE.xml"),
    ("check", "--tap", "report last -o FILE.tap"),
    ("check", "--lava", "report last -o FILE.lava"),
    ("check", "--kcidb", "report last -o FILE.kcidb.json"),
    ("sign", "--public-key", "key"),
    // Only those who know an older tool need these.
    (
        "measure timer",
        "--distance",
        "compat cyclictest --distance",
    ),
    (
        "measure timer",
        "--priority-spread",
        "compat cyclictest --priospread",
    ),
    (
        "measure timer",
        "--full-second",
        "compat cyclictest --secaligned",
    ),
    (
        "measure timer",
        "--offset",
        "compat cyclictest --secaligned",
    ),
    ("measure timer", "--wakeups", "measure timer --loops"),
    (
        "measure wakeup",
        "--distance",
        "compat ptsematest --distance",
    ),
    (
        "measure wakeup",
        "--priority-spread",
        "compat ptsematest --priority",
    ),
    ("measure wakeup", "--wakeups", "compat ptsematest --loops"),
    ("measure signal", "--wakeups", "compat signaltest --loops"),
    (
        "measure deadline",
        "--distance",
        "compat cyclicdeadline --step",
    ),
];

/// New options whose value means something else than that of the old option, and the difference.
const DIFFERENCES: &[(&str, &str)] = &[(
    "--max-late-seconds-per-day",
    "it limits the seconds that contain a late period; the old option limited episodes, of which a \
     loop that is always late has one",
)];

/// If `error` is about an old verb or option, returns an error that names its replacement.
pub(super) fn explained(error: &Error, words: &[OsString], command: &mut Command) -> Option<Error> {
    let text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    let message =
        match error.kind() {
            ErrorKind::InvalidSubcommand => {
                let old = text(ContextKind::InvalidSubcommand)?;
                if let Some(new) = of_server(old, words) {
                    return Some(command.error(
                        error.kind(),
                        format!("unknown command '{old}': use 'punctual-server {new}'"),
                    ));
                }
                let known = VERBS.iter().find(|(known, _)| *known == old);
                let tools = punctual_compat::programs();
                let new = match known {
                    Some((_, new)) => (*new).to_owned(),
                    None if punctual_probes::probe(old).is_ok() => format!("measure {old}"),
                    None if tools.contains(&old) => format!("compat {old}"),
                    None => return None,
                };
                format!("unknown command '{old}'; did you mean '{new}'?")
            }
            ErrorKind::UnknownArgument => {
                let old = text(ContextKind::InvalidArg)?;
                if let Some(new) = of_server(old, words) {
                    return Some(command.error(
                        error.kind(),
                        format!("unknown option '{old}': use 'punctual-server {new}'"),
                    ));
                }
                let find = |table: &[(&str, &str, &'static str)]| {
                    let mut rows = table.iter();
                    let row =
                        rows.find(|(verb, option, _)| *option == old && is_called(verb, words));
                    row.map(|(_, _, new)| *new)
                };
                match (find(OPTIONS), find(MOVED)) {
                    (Some(new), _) => {
                        let difference = DIFFERENCES.iter().find(|(option, _)| *option == new);
                        let difference =
                            difference.map_or_else(String::new, |(_, text)| format!(" ({text})"));
                        format!("unknown option '{old}'; did you mean '{new}'?{difference}")
                    }
                    (None, new) => format!("unknown option '{old}': use 'punctual {}'", new?),
                }
            }
            ErrorKind::DisplayHelp => {
                let number = number_after_h(words)?;
                return Some(command.error(ErrorKind::UnknownArgument, format!(
                "-h prints the help and takes no number, but '{number}' was given: every run \
                 records a histogram of all latencies ('punctual plot last', 'punctual export'); \
                 for the table of cyclictest, use 'punctual compat cyclictest -h {number}'"
            )));
            }
            _ => return None,
        };
    Some(command.error(error.kind(), message))
}

/// Returns the number after `-h`, which older tools read as the size of a histogram.
fn number_after_h(words: &[OsString]) -> Option<&str> {
    let place = words.iter().position(|word| word == "-h")?;
    let number = words.get(place + 1)?.to_str()?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(number)
}

/// Returns the command of the other program that replaces an unknown word.
fn of_server(old: &str, words: &[OsString]) -> Option<&'static str> {
    let fits = |verb: &str, word: &str| match verb {
        // `serve` is unknown itself, so what follows it decides.
        "serve" => old == "serve" && is_called(&format!("serve {word}"), words),
        "" => old == word,
        _ => old == word && is_called(verb, words),
    };
    let found = OF_SERVER.iter().find(|(verb, word, _)| fits(verb, word));
    found.map(|(_, _, new)| *new)
}

/// Returns whether these words call this verb.
fn is_called(verb: &str, words: &[OsString]) -> bool {
    let mut words = words.iter();
    (verb.split(' ')).all(|part| words.any(|word| word == OsStr::new(part)))
}

#[cfg(test)]
mod tests {
    use super::super::{PROGRAM, parse};
    use super::*;

    /// Asserts that a command line is refused as a usage error with this text.
    fn assert_refused(line: &str, expected: &str) {
        let words = ["punctual"].into_iter().chain(line.split(' '));
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let error = parse(&words).unwrap_err();
        assert!(error.to_string().contains(expected), "{line}: {error}");
        assert!(error.use_stderr() && error.exit_code() == 2, "{error}");
    }

    /// Returns the command in these words, up to the first option.
    fn is_known(words: &str) -> bool {
        let mut known = PROGRAM.command();
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

    /// Returns whether these words are a command line, without the value of its last option.
    fn is_command_line(words: &str) -> bool {
        let line = ["punctual"].into_iter().chain(words.split(' '));
        is_known(words) || PROGRAM.command().try_get_matches_from(line).is_ok()
    }

    #[test]
    fn old_verbs_name_the_new_ones() {
        for (old, new) in VERBS {
            let expected = format!("unknown command '{old}'; did you mean '{new}'?");
            assert_refused(old, &expected);
            assert_refused(&format!("--store x.db {old} last"), &expected);
            assert_refused(&format!("help {old}"), &expected);
            assert!(is_known(new), "{new}");
            assert!(!is_known(old), "{old}");
        }
    }

    #[test]
    fn moved_options_name_the_command() {
        for (verb, old, new) in MOVED {
            let expected = format!("unknown option '{old}': use 'punctual {new}'");
            assert_refused(&format!("{verb} {old} 1"), &expected);
            assert!(!is_known(&format!("{verb} {old}")), "{verb} {old}");
            match new.strip_prefix("compat ") {
                None => assert!(is_command_line(new), "{new}"),
                Some(line) => {
                    let (tool, option) = line.split_once(" --").unwrap();
                    let tool = punctual_compat::TOOLS
                        .iter()
                        .find(|known| known.name == tool);
                    let mut options = tool.unwrap().options.iter();
                    assert!(options.any(|known| known.long == option), "{new}");
                }
            }
        }
    }

    #[test]
    fn words_of_the_server_name_its_program() {
        for (line, new) in [
            ("serve", "run"),
            ("serve --listen 0.0.0.0:8090", "run"),
            ("--store x.db serve", "run"),
            ("help serve", "run"),
            ("serve enrol board-17", "enrol"),
            ("serve tokens", "tokens"),
            ("store copy a.db postgres://b", "copy"),
            ("export --to file:///lake --by day", "export --to"),
            ("lake", "export"),
        ] {
            assert_refused(line, &format!("use 'punctual-server {new}'"));
        }
    }

    #[test]
    fn names_of_older_tools_lead_to_compat() {
        for tool in ["cyclictest", "rtla"] {
            let expected = format!("did you mean 'compat {tool}'?");
            assert_refused(&format!("{tool} -q"), &expected);
        }
    }

    #[test]
    fn probes_lead_to_measure() {
        for probe in punctual_probes::PROBES {
            let expected = format!("did you mean 'measure {}'?", probe.name);
            assert_refused(&format!("{} -D 1s", probe.name), &expected);
        }
    }

    #[test]
    fn number_after_h_is_no_request_for_help() {
        for line in ["measure timer -h 200", "measure timer -D 1s -h 200 -q"] {
            assert_refused(line, "use 'punctual compat cyclictest -h 200'");
        }
        let help = parse(&["punctual", "measure", "timer", "-h"].map(OsString::from));
        assert_eq!(help.unwrap_err().kind(), ErrorKind::DisplayHelp);
    }

    #[test]
    fn old_options_name_the_new_ones() {
        for (verb, old, new) in OPTIONS {
            let expected = format!("unknown option '{old}'; did you mean '{new}'?");
            assert_refused(&format!("{verb} {old} 1"), &expected);
            assert!(is_known(&format!("{verb} {new}")), "{verb} {new}");
            assert!(!is_known(&format!("{verb} {old}")), "{verb} {old}");
        }
    }
}
