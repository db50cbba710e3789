//! The overview of `punctual --help`: the verbs grouped by purpose, and examples.

use std::fmt::Write;

use clap::Command;

/// The verbs under their headings, in the order of the help. A test below checks that each verb is
/// listed exactly once.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["check", "measure", "watch", "explain", "app"]),
    ("Machine", &["doctor", "machine", "tune", "exec"]),
    ("Decide", &["compare", "experiment", "improve"]),
    (
        "Recordings",
        &[
            "list", "show", "plot", "report", "export", "import", "store",
        ],
    ),
    ("Years and fleets", &["monitor", "trend", "serve", "push"]),
];

/// Verbs that the overview omits, because few people need them: for scripts, packages, and those
/// who know an older tool. They have a help, a manual page and completions like the others.
#[cfg(test)]
const NOT_LISTED: &[&str] = &["compat", "completions", "man", "schema"];

const EXAMPLES: &str = "\
Examples:
  punctual check --period 1ms --budget 100us   Is this machine fit for my loop?
  punctual measure timer -D 60s --load farm    Measure latency under load
  punctual doctor                              What costs latency here, and why?
  punctual compat cyclictest -D 60s            Run as an older tool does";

/// Returns the template for the help of the whole command line, in the syntax of clap.
pub(super) fn template(command: &Command) -> String {
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        let _ = write!(text, "\n{heading}:\n");
        for verb in names
            .iter()
            .filter_map(|name| command.find_subcommand(name))
        {
            let about = verb.get_about().map(ToString::to_string);
            let _ = writeln!(
                text,
                "  {:<12} {}",
                verb.get_name(),
                about.unwrap_or_default()
            );
        }
    }
    text + "\npunctual help VERB prints the help of a verb.\n\nOptions:\n{options}{after-help}\n\n"
        + EXAMPLES
}

#[cfg(test)]
mod tests {
    use super::super::{OF_FLEET, command, verbs};
    use super::*;

    #[test]
    fn each_verb_stands_under_one_heading() {
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .chain(NOT_LISTED.iter().copied())
            .filter(|name| !OF_FLEET.contains(name) || cfg!(feature = "fleet"))
            .collect();
        listed.sort_unstable();
        let mut shown: Vec<&str> = verbs()
            .filter(|verb| !verb.is_internal())
            .map(|verb| verb.name)
            .collect();
        shown.sort_unstable();
        assert_eq!(listed, shown);
    }

    #[test]
    fn the_first_screen_stays_short() {
        let listed: usize = GROUPS.iter().map(|(_, names)| names.len()).sum();
        assert!(
            listed <= 22 + usize::from(verbs().any(|verb| verb.name == "serve")),
            "{listed} verbs: put related verbs under one"
        );
    }

    #[test]
    fn overview_lines_fit_80_columns() {
        for line in template(&command()).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
