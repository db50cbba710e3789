//! `man`: the manual pages.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command, value_parser};

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("man")
        .about("Write the manual pages into a folder")
        .arg(
            Arg::new("folder")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .required(true)
                .help("The folder; it is made where it is not there"),
        )
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let Some(folder) = matches.get_one::<PathBuf>("folder") else {
        return Ok(Exit::Usage);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut pages = Vec::new();
    collect(super::command(), "", &mut pages);
    for (name, page) in &pages {
        Output::open(&folder.join(format!("{name}.1")))?.put(page)?;
    }
    output::note(&format!(
        "{} pages written to {}",
        pages.len(),
        folder.display()
    ));
    Ok(Exit::Done)
}

/// The page of a command and those of its subcommands: `punctual-measure-timer`.
fn collect(command: Command, prefix: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = format!("{prefix}{}", command.get_name());
    let subcommands: Vec<Command> = command.get_subcommands().cloned().collect();
    let command = command.name(name.clone()).bin_name(name.replace('-', " "));
    let mut page = Vec::new();
    // Writing to memory does not fail.
    if clap_mangen::Man::new(command).render(&mut page).is_ok() {
        pages.push((name.clone(), page));
    }
    for subcommand in subcommands.into_iter().filter(|c| !c.is_hide_set()) {
        collect(subcommand, &format!("{name}-"), pages);
    }
}
