//! `retire`: takes a machine out of service, and back into service.

use anyhow::Result;
use clap::Parser;
use jiff::Timestamp;
use punctual_command::exit::{Exit, UsageError};
use punctual_command::{Context, Run, Verb, output};

use super::access::log;
use super::rename::no_machine;
use crate::collection;

pub(super) const VERB: Verb = Verb::new::<Retire>("retire");

const LONG: &str = "Take a machine out of service. Its recordings stay, but the list of machines, \
    the metrics and the alerts leave it out. /?state=retired shows the retired machines. The token \
    stays valid, and further recordings are stored; punctual-server revoke refuses them.";

/// Leave a machine out of overview, metrics and alerts
#[derive(Parser)]
#[command(long_about = LONG)]
struct Retire {
    /// Name of the machine
    #[arg(value_name = "NAME")]
    name: String,
    /// Take the machine back into service
    #[arg(long)]
    undo: bool,
}

impl Run for Retire {
    fn run(self, context: &Context) -> Result<Exit> {
        let collection = collection::open_existing(context)?;
        let machines = collection.machines()?;
        let machine = machines.iter().find(|one| one.name == self.name);
        let machine =
            machine.ok_or_else(|| UsageError(no_machine(&self.name, &collection.name())))?;
        match (machine.retired, self.undo) {
            (Some(since), false) => {
                let since = since.strftime("%Y-%m-%d %H:%M UTC");
                output::note(&format!("'{}' is retired since {since}", self.name));
                return Ok(Exit::Done);
            }
            (None, true) => {
                output::note(&format!("'{}' is in service", self.name));
                return Ok(Exit::Done);
            }
            (None, false) => collection.set_retired(&self.name, Some(Timestamp::now()))?,
            (Some(_), true) => collection.set_retired(&self.name, None)?,
        }
        let (action, done) = if self.undo {
            ("undo retire", "is in service again")
        } else {
            ("retire", "is retired; --undo takes it back into service")
        };
        output::note(&format!("'{}' {done}", self.name));
        log(collection.as_ref(), action, self.name)?;
        Ok(Exit::Done)
    }
}
