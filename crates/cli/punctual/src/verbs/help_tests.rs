//! The command line keeps the rules of all programs, and its help and pages have their content.

use std::ffi::OsString;

use punctual_command::manual_pages;
use punctual_command::testing::{
    fault_of_help, faults_of_helps, faults_of_letters, faults_of_overview, faults_of_pages,
};

use super::{NOT_LISTED, PROGRAM, parse};

/// Phrases that must not occur in any help. `tests/sources/language.rs` reads the same list.
const FORBIDDEN: &str = include_str!("../../tests/sources/language/everywhere.txt");

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
fn each_help_keeps_the_rules() {
    let faults = faults_of_helps(&PROGRAM, FORBIDDEN);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_letter_belongs_to_one_option() {
    let faults = faults_of_letters(&PROGRAM);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_verb_stands_under_one_heading() {
    let faults = faults_of_overview(&PROGRAM, NOT_LISTED);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_first_screen_stays_short() {
    let listed: usize = PROGRAM.groups.iter().map(|(_, names)| names.len()).sum();
    assert!(listed <= 22, "{listed} verbs: put related verbs under one");
}

#[test]
fn each_page_keeps_the_rules() {
    let faults = faults_of_pages(&PROGRAM);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let pages = manual_pages(&PROGRAM).unwrap();
    assert!(pages.len() > 50, "{}", pages.len());
    let (_, first) = &pages[0];
    assert!(
        first.contains("punctual \\- Real\\-time latency"),
        "{first}"
    );
    assert!(!first.contains('?'), "a name is no question");
    let internal = pages.iter().find(|(_, page)| page.contains("serve\\-load"));
    assert_eq!(internal, None);
}

#[test]
fn faults_are_seen() {
    assert_eq!(
        fault_of_help("Number of rows [default: 40, or as many as fit into this window here]"),
        None
    );
    assert!(fault_of_help("Print it.").is_some());
    assert!(
        fault_of_help("One two three four five six seven eight nine ten eleven twelve thirteen")
            .is_some()
    );
}

#[test]
fn options_have_their_values() {
    let pages = manual_pages(&PROGRAM).unwrap();
    let page = |name: &str| &pages.iter().find(|(found, _)| found == name).unwrap().1;
    let plot = page("punctual-plot");
    for value in [
        "latency",
        "percentiles",
        "timeline",
        "matrix",
        "bars",
        "log",
    ] {
        assert!(plot.contains(&format!("\n{value}\n")), "{value}: {plot}");
    }
    let doctor = page("punctual-doctor");
    assert!(
        doctor.contains(".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\n"),
        "{doctor}"
    );
}
