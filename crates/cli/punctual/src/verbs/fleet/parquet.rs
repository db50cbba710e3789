//! `export --to`: writes the recordings of the store as Parquet, for distributed query engines.

use anyhow::Result;
use jiff::Timestamp;
use punctual_model::{counted, grouped};

use super::collection;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

/// Writes the recordings of the store as Parquet below `to`. There is one partition for each day
/// (`daily`), or for each day and machine.
pub(in crate::verbs) fn to_parquet(
    to: &str,
    daily: bool,
    since: Option<Timestamp>,
    context: &Context,
) -> Result<Exit> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let place = punctual_lake::Target::from_url(to, &variable)?;
    let all = collection::of_store(context)?;
    let by = if daily {
        punctual_lake::By::Day
    } else {
        punctual_lake::By::Machine
    };
    let exported = punctual_lake::export(all.as_ref(), &place, by, since)?;
    output::print(&format!(
        "{} in {}, {} kB\n",
        counted(exported.recordings, "recording", "recordings"),
        counted(exported.partitions, "partition", "partitions"),
        grouped(exported.bytes.div_ceil(1 << 10))
    ))?;
    Ok(Exit::Done)
}
