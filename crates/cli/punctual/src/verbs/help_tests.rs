//! Help texts must be short and must not contain forbidden phrases.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::{OF_FLEET, command, parse, verbs};

/// Maximum number of words in a short help, not counting its default, choices or range.
const MOST_WORDS: usize = 12;

/// Phrases that must not occur in any help. `tests/sources/language.rs` reads the same list.
const FORBIDDEN: &str = include_str!("../../tests/sources/language/everywhere.txt");

/// Returns the part of a help text before its default, choices, range or remark.
fn head(help: &str) -> &str {
    help.split(['[', '(', ';', ':']).next().unwrap_or_default()
}

/// Calls `check` with each visible command and its words.
fn each(command: &Command, path: &[&str], check: &mut impl FnMut(&str, &Command)) {
    let path: Vec<&str> = path.iter().copied().chain([command.get_name()]).collect();
    check(&path.join(" "), command);
    for inner in command.get_subcommands().filter(is_shown) {
        each(inner, &path, check);
    }
}

/// Returns whether a command is visible and is not the `help` command.
fn is_shown(command: &&Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn all(check: &mut impl FnMut(&str, &Command)) {
    let mut whole = command();
    whole.build();
    each(&whole, &[], check);
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

/// Returns what is wrong with a short help, if anything.
fn fault(help: &str) -> Option<String> {
    let words = head(help).split_whitespace().count();
    if words > MOST_WORDS {
        return Some(format!("{words} words: {help}"));
    }
    help.ends_with('.')
        .then(|| format!("ends with a period: {help}"))
}

#[test]
fn help_is_asked_for_in_each_way() {
    let asked = |words: &str| {
        let words = words.split(' ').map(OsString::from);
        let words: Vec<OsString> = [OsString::from("punctual")]
            .into_iter()
            .chain(words)
            .collect();
        let error = parse(&words).unwrap_err();
        assert!(!error.use_stderr(), "{words:?}: {error}");
        error.to_string()
    };
    let of_help = asked("help help");
    assert!(of_help.contains("punctual help"), "{of_help}");
    for words in ["help --help", "help -h", "help --help -h"] {
        assert_eq!(asked(words), of_help, "{words}");
    }
    assert_eq!(asked("help list --help"), asked("help list"));
    assert_eq!(asked("help --help list"), asked("help list"));
    assert_eq!(asked("--help help"), asked("--help"));
}

#[test]
fn help_is_short_and_lacks_period() {
    let mut faults = Vec::new();
    all(&mut |path, command| {
        let about = command.get_about().map(ToString::to_string);
        if let Some(fault) = about.as_deref().and_then(fault) {
            faults.push(format!("{path}: {fault}"));
        }
        for arg in shown(command) {
            let help = arg.get_help().map(ToString::to_string);
            if let Some(fault) = help.as_deref().and_then(fault) {
                faults.push(format!("{path} {}: {fault}", arg.get_id()));
            }
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_option_and_verb_has_help() {
    all(&mut |path, command| {
        assert!(command.get_about().is_some(), "{path}");
        for arg in shown(command) {
            assert!(arg.get_help().is_some(), "{path} {}", arg.get_id());
        }
    });
}

#[test]
fn no_default_is_shown_twice() {
    all(&mut |path, command| {
        for arg in shown(command) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let generated = arg.get_action().takes_values()
                && !arg.get_default_values().is_empty()
                && !arg.is_hide_default_value_set();
            assert!(!generated || !help.contains("[default"), "{path}: {help}");
        }
    });
}

#[test]
fn no_help_has_a_forbidden_phrase() {
    all(&mut |path, command| {
        let mut command = command.clone();
        let help = command.render_long_help().to_string();
        let text: Vec<&str> = help.split_whitespace().collect();
        let text = text.join(" ").to_lowercase();
        for phrase in FORBIDDEN.lines() {
            assert!(!text.contains(phrase), "{path}: {phrase}");
        }
    });
}

#[test]
fn faults_are_seen() {
    assert_eq!(
        fault("Number of rows [default: 40, or as many as fit into this window here]"),
        None
    );
    assert!(fault("Print it.").is_some());
    assert!(
        fault("One two three four five six seven eight nine ten eleven twelve thirteen").is_some()
    );
}

/// A build with the feature has these verbs. Other builds report that the verbs are absent.
#[test]
fn fleet_verb_exists_or_reports_absence() {
    for verb in OF_FLEET {
        let is_there = verbs().any(|known| known.name == *verb);
        assert_eq!(is_there, cfg!(feature = "fleet"), "{verb}");
        let words = ["punctual", verb, "--no-such-option"].map(OsString::from);
        let said = parse(&words).unwrap_err().to_string();
        assert_eq!(said.contains("was built without"), !is_there, "{said}");
    }
}
