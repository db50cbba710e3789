//! `store copy`: copies the recordings of a collector from a file to PostgreSQL, or back.

use std::path::Path;

use anyhow::Result;
use punctual_model::grouped;
use punctual_report::document::Field;
use punctual_store::{Store, is_database};

use super::collection;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::recordings::not_taken;

/// Copies a store of recordings from a file to a database, or back.
pub(in crate::verbs) fn copy(from: &str, to: &str, json: bool, context: &Context) -> Result<Exit> {
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
    let (from, to) = (collection::named(from)?, collection::named(to)?);
    let copied = punctual_store::copy(from.as_ref(), to.as_ref(), &mut |_| {})?;
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
        fields.extend(not_taken::field(&copied.refused));
        context.show_fields(fields)?;
    }
    Ok(match copied.conflicts {
        0 => not_taken::exit(&copied.refused),
        _ => Exit::Failed,
    })
}
