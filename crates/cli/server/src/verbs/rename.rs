//! `rename`: gives a machine another name.

use anyhow::Result;
use clap::Parser;
use punctual_command::exit::{Exit, UsageError};
use punctual_command::{Context, Run, Verb, output};
use punctual_serve::ServeError;
use punctual_store::{RenameRefusal, StoreError};

use crate::collection;

pub(super) const VERB: Verb = Verb::new::<Rename>("rename");

const LONG: &str = "Give a machine another name. Its recordings, notes and alerts get the new name, and \
    its token stays valid. Recordings that still arrive under the old name are stored under the new \
    one. To undo it, rename the machine back.";

/// Give a machine another name; its token stays valid
#[derive(Parser)]
#[command(long_about = LONG)]
struct Rename {
    /// Name of the machine
    #[arg(value_name = "OLD")]
    old: String,
    /// New name, which no machine or user has
    #[arg(value_name = "NEW")]
    new: String,
}

impl Run for Rename {
    fn run(self, context: &Context) -> Result<Exit> {
        let collection = collection::open_existing(context)?;
        match punctual_serve::rename(collection.as_ref(), &self.old, &self.new) {
            Ok(()) => {}
            Err(ServeError::Store(StoreError::NotRenamed { name, refusal })) => {
                return Err(refused(&name, &refusal).into());
            }
            Err(error @ ServeError::Name(_)) => return Err(UsageError(error.to_string()).into()),
            Err(error) => return Err(error.into()),
        }
        output::note(&format!("'{}' is now named '{}'", self.old, self.new));
        Ok(Exit::Done)
    }
}

/// Returns the reason and what to do.
fn refused(collection: &str, refusal: &RenameRefusal) -> UsageError {
    UsageError(match refusal {
        RenameRefusal::NoMachine(name) => no_machine(name, collection),
        RenameRefusal::Taken(_) | RenameRefusal::TakenEarlier { .. } => {
            format!("{refusal}: choose another name")
        }
        RenameRefusal::Renamed { .. } | RenameRefusal::Local(_) => refusal.to_string(),
    })
}

/// Returns the message for a machine that does not exist.
pub(super) fn no_machine(name: &str, collection: &str) -> String {
    format!(
        "no machine '{name}' in {collection}: see the list of machines on the first page of the server"
    )
}
