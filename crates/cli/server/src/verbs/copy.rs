//! `copy`: copies the recordings of a collector from a file to PostgreSQL, or back.

use std::path::Path;

use anyhow::Result;
use clap::Parser;
use punctual_model::grouped;
use punctual_report::document::Field;
use punctual_store::{Store, is_database};

use punctual_command::exit::{Exit, UsageError};
use punctual_command::{Context, Run, Verb, left_out, output};

use crate::collection;

pub(super) const VERB: Verb = Verb::new::<Copy>("copy");

/// Copy a collector's store from a file to PostgreSQL, or back
#[derive(Parser)]
struct Copy {
    /// File or postgres://USER@HOST/NAME to read
    #[arg(value_name = "FROM")]
    from: String,
    /// File or postgres://USER@HOST/NAME to write
    #[arg(value_name = "TO")]
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Run for Copy {
    fn run(self, context: &Context) -> Result<Exit> {
        copy(&self.from, &self.to, self.json, context)
    }
}

fn copy(from: &str, to: &str, json: bool, context: &Context) -> Result<Exit> {
    if from == to {
        return Err(UsageError("FROM and TO are the same store".to_owned()).into());
    }
    if !is_database(from) && !is_database(to) {
        let text = "neither FROM nor TO is a database: use punctual store backup to copy a file, \
            or store merge to merge it";
        return Err(UsageError(text.to_owned()).into());
    }
    if !is_database(from) {
        // Without this check, a missing source file would be created.
        Store::open_read_only(Path::new(from))?;
    }
    let (from, to) = (collection::open_named(from)?, collection::open_named(to)?);
    let copied = punctual_store::copy(from.as_ref(), to.as_ref(), &mut |_| {})?;
    let exit = match copied.conflicts {
        0 => left_out::exit(&copied.refused),
        _ => Exit::Failed,
    };
    context.done(exit, "the copy is complete");
    if json {
        output::print(&output::json(&copied))?;
    } else {
        let field = |name: &str, count: u64| Field::new(name, grouped(count));
        let mut fields = vec![
            field("recordings", copied.recordings),
            field("already there", copied.known),
            field("windows", copied.windows),
            field("slots", copied.slots),
            field("notes", copied.annotations),
            field("tokens", copied.tokens),
        ];
        if copied.samples > 0 {
            fields.push(field("without their samples", copied.samples));
        }
        if copied.conflicts > 0 {
            fields.push(field("differ there, quarantined", copied.conflicts));
        }
        fields.extend(left_out::field(&copied.refused));
        context.show_fields(fields)?;
    }
    Ok(exit)
}
