//! `store delete`: deletes recordings from the store.

use anyhow::Result;
use clap::Parser;

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::verb::Run;

/// Delete recordings from the store
#[derive(Parser)]
pub(super) struct Delete {
    /// Recordings: an ID, the start or end of an ID, a label, `last` or `last~N`
    #[arg(value_name = "ID", num_args = 1.., required = true)]
    recordings: Vec<String>,
}

impl Run for Delete {
    fn run(self, context: &Context) -> Result<Exit> {
        let store = context.store_to_delete()?;
        // Find all recordings before the first one is deleted. Then `last~1` has the same meaning
        // in all arguments, and nothing is deleted if an argument is invalid.
        let ids = (self.recordings.iter())
            .map(|selector| store.find(selector))
            .collect::<Result<Vec<_>, _>>()?;
        // A reader that closes the pipe must not keep the other recordings from being deleted.
        let mut printed = Ok(());
        for id in ids {
            store.delete(id)?;
            printed = printed.and_then(|()| output::print(&format!("deleted {id}\n")));
        }
        context.done(Exit::Done, "the recordings are deleted");
        printed?;
        Ok(Exit::Done)
    }
}
