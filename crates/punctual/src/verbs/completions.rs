//! `completions`: for the shell.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("completions")
        .about("Print the completions for a shell")
        .arg(
            Arg::new("shell")
                .value_parser(value_parser!(Shell))
                .required(true)
                .help("The shell"),
        )
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let shell = *matches.get_one::<Shell>("shell").unwrap_or(&Shell::Bash);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "punctual", &mut script);
    output::Output::stdout().put(&script)?;
    Ok(Exit::Done)
}
