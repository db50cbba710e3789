//! The overview of `--help`: the verbs grouped by purpose, and examples.

use std::fmt::Write;

use clap::Command;

/// Returns the template for the help of the whole command line, in the syntax of clap.
pub(crate) fn template(command: &Command, groups: &[(&str, &[&str])], examples: &str) -> String {
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in groups {
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
    let name = command.get_name();
    let help = format!("\n{name} help VERB prints the help of a verb.\n\n");
    text + &help + "Options:\n{options}{after-help}\n\n" + examples
}
