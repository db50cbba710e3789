//! The overview of `punctual --help`: the verbs grouped by purpose, and examples.

use std::fmt::Write;

use clap::Command;

/// The verbs under their headings, in the order of the help. A test below checks that each verb is
/// listed exactly once.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Measure", &["check", "measure", "watch", "explain", "lint"]),
    (
        "Machine",
        &[
            "doctor", "tune", "exec", "threads", "irqs", "topology", "place", "clocks", "kernel",
            "facts",
        ],
    ),
    ("Decide", &["compare", "experiment", "improve"]),
    (
        "Recordings",
        &[
            "list", "show", "plot", "report", "export", "import", "bundle", "delete", "store",
        ],
    ),
    ("Years and fleets", &["monitor", "trend", "serve", "push"]),
    ("More", &["app", "compat", "schema", "completions", "man"]),
];

const EXAMPLES: &str = "\
Examples:
  punctual check --period 1ms --budget 100us   Is this machine fit for my loop?
  punctual measure timer -D 60s --load farm    Measure latency under load
  punctual doctor                              What costs latency here, and why?";

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
    text + "  help         Print this message, or the help of a verb\n\nOptions:\n{options}{after-help}\n\n"
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
    fn overview_lines_fit_80_columns() {
        for line in template(&command()).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
