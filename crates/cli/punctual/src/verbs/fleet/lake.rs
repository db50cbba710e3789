//! `lake`: recordings of the store as Parquet, for distributed engines.

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use jiff::Timestamp;
use punctual_model::grouped;

use super::collection;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::verbs::list::since;
use crate::verbs::{Run, Verb};

pub(super) const VERB: Verb = Verb::of::<Lake>("lake");

const LONG: &str = "Export the recordings of the store as Parquet files for Spark, Trino, ClickHouse \
             or DuckDB: a folder for each table (runs, histograms, worst, facts, changes), \
             partitioned by date (UTC) and machine, or by date alone for a large fleet. Exported \
             again, a partition is replaced.\n\n\
             A bucket takes its keys, region and endpoint from AWS_ACCESS_KEY_ID, \
             AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL.";

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
        /// Folder or bucket as a URL: file:///FOLDER or s3://BUCKET/PREFIX
        #[arg(long, value_name = "URL")]
        to: String,
        /// One partition a day for each machine, or for all
        #[arg(long, value_enum, default_value = "machine")]
        by: Partition,
        /// Only days since: 2026-11-03, an RFC 3339 time, or 112d
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Option<Timestamp>,
    },
}

/// What a partition holds.
#[derive(Clone, Copy, ValueEnum)]
enum Partition {
    /// A day of a machine
    Machine,
    /// A day of all machines
    Day,
}

impl Run for Lake {
    fn run(self, context: &Context) -> Result<Exit> {
        let What::Export { to, by, since } = self.what;
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let place = punctual_lake::Place::of(&to, &variable)?;
        let all = collection::of_store(context)?;
        let by = match by {
            Partition::Machine => punctual_lake::By::Machine,
            Partition::Day => punctual_lake::By::Day,
        };
        let exported = punctual_lake::export(all.as_ref(), &place, by, since)?;
        output::print(&format!(
            "{} recordings in {} partitions, {} kB\n",
            grouped(exported.recordings),
            grouped(exported.partitions),
            grouped(exported.bytes.div_ceil(1 << 10))
        ))?;
        Ok(Exit::Done)
    }
}
