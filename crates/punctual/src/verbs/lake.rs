//! `lake`: recordings of the store as Parquet, for distributed engines.

use anyhow::Result;
use clap::{Parser, Subcommand};
use jiff::Timestamp;
use punctual_model::grouped;

use super::list::since;
use super::{Run, Verb, collection};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb::of::<Lake>("lake");

const LONG: &str = "Export the recordings of the store as Parquet files for Spark, Trino, ClickHouse \
             or DuckDB: a folder for each table (runs, histograms, worst, facts, changes), \
             partitioned by date (UTC) and machine. Exported again, a partition is replaced.";

/// Export recordings as Parquet for distributed engines
#[derive(Parser)]
#[command(long_about = LONG, disable_help_subcommand = true, arg_required_else_help = true)]
struct Lake {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write partitions, in place of those of the same name
    Export {
        /// Folder as a URL: file:///FOLDER
        #[arg(long, value_name = "URL")]
        to: String,
        /// Only days since: 2026-11-03, an RFC 3339 time, or 112d
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Option<Timestamp>,
    },
}

impl Run for Lake {
    fn run(self, context: &Context) -> Result<Exit> {
        let What::Export { to, since } = self.what;
        let folder = punctual_lake::folder_of(&to)?;
        let all = collection::of_store(context)?;
        let exported = punctual_lake::export(all.as_ref(), &folder, since)?;
        output::print(&format!(
            "{} recordings in {} partitions, {} kB\n",
            grouped(exported.recordings),
            grouped(exported.partitions),
            grouped(exported.bytes.div_ceil(1 << 10))
        ))?;
        Ok(Exit::Done)
    }
}
