//! `man`: writes the manual pages.

mod markup;
mod page;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Command, Parser};

use crate::exit::Exit;
use crate::output::{self, Output};
use crate::{Context, Program, Run, Verb};

/// The verb.
pub const VERB: Verb = Verb::new::<Man>("man");

/// Write the manual pages to a folder
#[derive(Parser)]
struct Man {
    /// Folder for the pages; created if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Run for Man {
    fn run(self, _: &Context) -> Result<Exit> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let pages = manual_pages(Program::current()?)?;
        for (name, page) in &pages {
            Output::open(&folder.join(format!("{name}.1")))?.put(page.as_bytes())?;
        }
        output::note(&format!(
            "{} pages written to {}",
            pages.len(),
            folder.display()
        ));
        Ok(Exit::Done)
    }
}

/// Number of examples on the main page.
const FIRST: usize = 6;

/// Returns the manual pages with their names, such as `punctual-measure-timer`.
///
/// # Errors
/// Returns an error if a page cannot be generated.
pub fn manual_pages(program: &Program) -> Result<Vec<(String, String)>> {
    let mut whole = program.command();
    whole.build();
    let mut pages = Vec::new();
    collect(program, &whole, &mut Vec::new(), &mut pages)?;
    Ok(pages)
}

/// Adds the page of a command and those of its subcommands, such as `punctual-measure-timer`.
fn collect(
    program: &Program,
    command: &Command,
    path: &mut Vec<String>,
    pages: &mut Vec<(String, String)>,
) -> Result<()> {
    path.push(command.get_name().to_owned());
    pages.push((path.join("-"), page::manual_page(program, command, path)?));
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for subcommand in command.get_subcommands().filter(shown) {
        collect(program, subcommand, path, pages)?;
    }
    path.pop();
    Ok(())
}
