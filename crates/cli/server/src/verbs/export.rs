//! `export`: writes the recordings of the store as Parquet, for distributed query engines.

use anyhow::Result;
use clap::{Parser, ValueEnum};
use jiff::Timestamp;
use punctual_command::exit::Exit;
use punctual_command::{Context, Run, Verb, output, since};
use punctual_model::{counted, grouped};

use crate::collection;

pub(super) const VERB: Verb = Verb::new::<Export>("export");

const LONG: &str = "Write all recordings of the store as Parquet files for Spark, Trino, ClickHouse or \
    DuckDB: one folder per table (runs, histograms, top_samples, facts, changes), partitioned by \
    date (UTC) and machine, or by date alone. An export replaces existing partitions. For a \
    bucket, set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and \
    AWS_ENDPOINT_URL.";

/// Write all recordings as Parquet
#[derive(Parser)]
#[command(long_about = LONG)]
struct Export {
    /// Folder or bucket: file:///FOLDER or s3://BUCKET/PREFIX
    #[arg(long, value_name = "URL")]
    to: String,
    /// One partition per day for each machine, or for all machines
    #[arg(long, value_enum, default_value = "machine")]
    by: Partition,
    /// Only days since this time: 2026-11-03, an RFC 3339 time, or 112d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
}

/// What a partition holds.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Partition {
    /// A day of a machine
    Machine,
    /// A day of all machines
    Day,
}

impl Run for Export {
    fn run(self, context: &Context) -> Result<Exit> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let place = punctual_lake::Target::from_url(&self.to, &variable)?;
        let all = collection::open_existing(context)?;
        let by = match self.by {
            Partition::Day => punctual_lake::By::Day,
            Partition::Machine => punctual_lake::By::Machine,
        };
        let exported = punctual_lake::export(all.as_ref(), &place, by, self.since)?;
        context.done(Exit::Done, "the export is complete");
        output::print(&format!(
            "{} in {}, {} kB\n",
            counted(exported.recordings, "recording", "recordings"),
            counted(exported.partitions, "partition", "partitions"),
            grouped(exported.bytes.div_ceil(1 << 10))
        ))?;
        Ok(Exit::Done)
    }
}
