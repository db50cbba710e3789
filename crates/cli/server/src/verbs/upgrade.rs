//! `upgrade`: converts a store of an earlier version.

use anyhow::Result;
use clap::Parser;
use punctual_command::exit::Exit;
use punctual_command::{Context, Run, Verb, output, upgrade};
use punctual_postgres::PostgresCollection;

pub(super) const VERB: Verb = Verb::new::<Upgrade>("upgrade");

const LONG: &str = "Convert a store that an earlier version created. A file is copied before, and \
    the path of the copy is printed. A PostgreSQL database is converted in one transaction: make a \
    backup with pg_dump(1), and end all servers that use it. An interrupted conversion leaves the \
    store unchanged. punctual-server run converts a file by itself, but no database, because other \
    servers may use it.";

/// Convert a store of an earlier version
#[derive(Parser)]
#[command(long_about = LONG)]
struct Upgrade {
    /// Try the conversion and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Run for Upgrade {
    fn run(self, context: &Context) -> Result<Exit> {
        let Some(url) = context.database() else {
            return upgrade::run(context, self.dry_run);
        };
        let text = match PostgresCollection::upgrade(url, self.dry_run)? {
            None => "the database needs no conversion\n".to_owned(),
            Some((from, to)) if self.dry_run => {
                format!("the tables can be converted from version {from} to {to}\n")
            }
            Some((from, to)) => format!("converted the tables from version {from} to {to}\n"),
        };
        output::print(&text)?;
        Ok(Exit::Done)
    }
}
