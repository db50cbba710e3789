//! Rules for the command line of every program. Only for tests.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Arg, Command};

use crate::{Program, manual_pages};

/// Maximum number of words in a short help, not counting its default, choices or range.
const MOST_WORDS: usize = 12;

/// Long options with a short form. The letter is the same in every verb, and belongs to no other
/// option.
const LETTERS: &[(&str, char)] = &[
    ("break", 'b'),
    ("cpus", 'a'),
    ("duration", 'D'),
    ("format", 'f'),
    ("help", 'h'),
    ("interval", 'i'),
    ("kind", 'k'),
    ("limit", 'n'),
    ("loops", 'l'),
    ("output", 'o'),
    ("priority", 'p'),
    ("quiet", 'q'),
    ("set", 's'),
    ("verbose", 'v'),
    ("version", 'V'),
    ("yes", 'y'),
];

/// Calls `check` with each visible command and its words, without the name of the program.
pub fn each_command(program: &Program, check: &mut dyn FnMut(&str, &Command)) {
    fn each(command: &Command, path: &str, check: &mut dyn FnMut(&str, &Command)) {
        check(path, command);
        for inner in command.get_subcommands() {
            if !inner.is_hide_set() && inner.get_name() != "help" {
                let path = format!("{path} {}", inner.get_name());
                each(inner, path.trim_start(), check);
            }
        }
    }
    let mut whole = program.command();
    whole.build();
    each(&whole, "", check);
}

/// Returns the visible options and arguments of a command.
fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

/// Returns what is wrong with a short help, if anything.
pub fn fault_of_help(help: &str) -> Option<String> {
    // The part before its default, choices, range or remark.
    let head = help.split(['[', '(', ';', ':']).next().unwrap_or_default();
    let words = head.split_whitespace().count();
    if words > MOST_WORDS {
        return Some(format!("{words} words: {help}"));
    }
    help.ends_with('.')
        .then(|| format!("ends with a period: {help}"))
}

/// Returns what is wrong with the help texts: each verb and option has a short one, no default is
/// shown twice, and no text has a forbidden phrase.
pub fn faults_of_helps(program: &Program, forbidden: &str) -> Vec<String> {
    let mut faults = Vec::new();
    each_command(program, &mut |path, command| {
        let mut check = |what: &str, help: Option<String>| match help {
            Some(help) => {
                faults.extend(fault_of_help(&help).map(|fault| format!("{what}: {fault}")))
            }
            None => faults.push(format!("{what}: no help")),
        };
        check(path, command.get_about().map(ToString::to_string));
        for arg in shown(command) {
            let what = format!("{path} {}", arg.get_id());
            check(&what, arg.get_help().map(ToString::to_string));
        }
        for arg in shown(command) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let generated = arg.get_action().takes_values()
                && !arg.get_default_values().is_empty()
                && !arg.is_hide_default_value_set();
            if generated && help.contains("[default") {
                faults.push(format!("{path}: two defaults: {help}"));
            }
        }
        let help = command.clone().render_long_help().to_string();
        let text = help.split_whitespace().collect::<Vec<_>>();
        let text = text.join(" ").to_lowercase();
        let found = forbidden.lines().filter(|phrase| text.contains(phrase));
        faults.extend(found.map(|phrase| format!("{path}: {phrase}")));
    });
    faults
}

/// Returns the short options that differ from the table of letters.
pub fn faults_of_letters(program: &Program) -> BTreeSet<String> {
    let mut faults = BTreeSet::new();
    each_command(program, &mut |path, command| {
        for arg in command.get_arguments() {
            let long = arg.get_long().unwrap_or_default();
            let wanted = LETTERS.iter().find(|(known, _)| *known == long);
            let found = arg.get_short();
            let fits = match wanted {
                Some((_, letter)) => found == Some(*letter),
                None => found.is_none(),
            };
            if !fits && !long.is_empty() {
                faults.insert(format!("{path} --{long}: {found:?}"));
            }
        }
    });
    faults
}

/// Returns what is wrong with the overview: each verb stands under one heading or in `not_listed`,
/// and each line fits 80 columns.
pub fn faults_of_overview(program: &Program, not_listed: &[&str]) -> Vec<String> {
    let grouped = program.groups.iter().flat_map(|(_, names)| names.iter());
    let mut listed: Vec<&str> = grouped.chain(not_listed).copied().collect();
    listed.sort_unstable();
    let visible = program.verbs().filter(|verb| !verb.is_internal());
    let mut visible: Vec<&str> = visible.map(|verb| verb.name).collect();
    visible.sort_unstable();
    let mut faults = Vec::new();
    if listed != visible {
        faults.push(format!("listed: {listed:?}; verbs: {visible:?}"));
    }
    let help = program.command().render_help().to_string();
    // clap wraps what follows.
    let overview = help.split("\nOptions:\n").next().unwrap_or_default();
    let long = overview.lines().filter(|line| line.chars().count() > 80);
    faults.extend(long.map(|line| format!("more than 80 columns: {line}")));
    faults
}

/// Returns what is wrong with the manual pages: each has its sections and no marks, each verb has an
/// example, and each example is a command line.
pub fn faults_of_pages(program: &Program) -> Vec<String> {
    const SECTIONS: [&str; 6] = [
        "NAME",
        "SYNOPSIS",
        "OPTIONS",
        "ENVIRONMENT",
        "FILES",
        "SEE ALSO",
    ];
    let pages = match manual_pages(program) {
        Ok(pages) => pages,
        Err(error) => return vec![error.to_string()],
    };
    let mut faults = Vec::new();
    let words_of_program = program.name.matches('-').count();
    for (name, page) in &pages {
        let has = |section: &str| {
            let quoted = format!("\n.SH \"{section}\"\n");
            page.contains(&quoted) || page.contains(&format!("\n.SH {section}\n"))
        };
        let lacking = SECTIONS.iter().filter(|section| !has(section));
        faults.extend(lacking.map(|section| format!("{name}: no {section}")));
        let marks = ["`", "**", "\n\\- "].into_iter();
        let marks = marks.filter(|mark| page.contains(mark));
        faults.extend(marks.map(|mark| format!("{name}: {mark}")));
        let is_of_verb = name.matches('-').count() == words_of_program + 1;
        if is_of_verb && !has("EXAMPLES") {
            faults.push(format!("{name}: no example"));
        }
    }
    for (line, _) in program.pages.examples {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        if let Err(error) = program.parse(&words) {
            faults.push(format!("{line}: {error}"));
        }
    }
    faults
}
