//! `delete`: delete recordings from the store.

use anyhow::Result;
use clap::{ArgMatches, Command};

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("delete")
        .about("Delete recordings from the store")
        .arg(super::recordings_argument())
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let store = context.store_to_change()?;
    let selectors = matches.get_many::<String>("recordings");
    // All are found before the first is deleted: `last~1` means the same for
    // all of them, and a wrong one deletes nothing.
    let ids = selectors
        .into_iter()
        .flatten()
        .map(|selector| store.find(selector))
        .collect::<Result<Vec<_>, _>>()?;
    for id in ids {
        store.delete(id)?;
        output::print(&format!("deleted {id}\n"))?;
    }
    Ok(Exit::Done)
}
