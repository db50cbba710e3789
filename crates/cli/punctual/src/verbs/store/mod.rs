//! `store`: shows, checks, backs up, converts and merges stores, and deletes or bundles recordings.

mod bundle;
mod delete;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};
use punctual_command::{left_out, upgrade};
use punctual_host::Host;
use punctual_model::grouped;
use punctual_report::document::Field;
use punctual_store::{Merged, Store, StoreStats};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Options>("store");

/// Check, back up, upgrade or merge stores; delete or bundle runs
#[derive(Parser)]
#[command(
    name = "store",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Bundle(bundle::BundleFile),
    Delete(delete::Delete),
    /// Show the contents and the size of the store
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare all data with its checksums; exit 3 if damaged
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the store to a new file, even during a run
    Backup {
        /// New file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Return free space to the file system
    Compact,
    /// Convert a store of an earlier version; keep a copy
    Upgrade {
        /// Try the conversion and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Add the recordings of another store
    Merge {
        /// The other store, which is only read
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Run for Options {
    fn run(self, context: &Context) -> Result<Exit> {
        match self.what {
            What::Bundle(bundle) => bundle.run(context),
            What::Delete(delete) => delete.run(context),
            What::Stats { json } => stats(&context.store_to_read()?.stats()?, json, context),
            What::Check { json } => check(&context.store_to_read()?, json, context),
            What::Backup { file } => {
                let store = context.store_to_read()?;
                let to = std::path::absolute(file)?;
                store.backup(&to)?;
                context.done(Exit::Done, "the copy is complete");
                output::print(&format!(
                    "{} is a copy of {}\n",
                    to.display(),
                    store.path().display()
                ))?;
                Ok(Exit::Done)
            }
            What::Compact => {
                // Not like a deletion, which may use the reserved space: compacting needs more.
                let freed = context.store_to_change()?.compact()?;
                context.done(Exit::Done, "the store is compacted");
                output::print(&format!("{} kB freed\n", grouped(freed >> 10)))?;
                Ok(Exit::Done)
            }
            What::Upgrade { dry_run } => upgrade::run(context, dry_run),
            What::Merge { file, json } => merge(&file, json, context),
        }
    }
}

/// Formats a size in bytes with a unit.
fn bytes(count: u64) -> String {
    match count {
        0 => "none".to_owned(),
        _ => punctual_report::bytes(count),
    }
}

/// Formats a count with the total size.
fn amount(count: u64, size: u64) -> String {
    match count {
        0 => "none".to_owned(),
        _ => format!("{}, {}", grouped(count), bytes(size)),
    }
}

fn stats(stats: &StoreStats, json: bool, context: &Context) -> Result<Exit> {
    if json {
        output::print(&output::json(stats))?;
        return Ok(Exit::Done);
    }
    let field = |name: &str, count: u64| Field::new(name, grouped(count));
    context.show_fields(vec![
        Field::new("schema", stats.schema.to_string()),
        Field::new(
            "file",
            format!(
                "{}, of which {} in use",
                bytes(stats.file_bytes),
                bytes(stats.used_bytes)
            ),
        ),
        Field::new(
            "recordings",
            format!(
                "{}, of which {} in series",
                grouped(stats.recordings),
                grouped(stats.runs)
            ),
        ),
        field("series epochs", stats.epochs),
        field("slots", stats.slots),
        Field::new("windows", amount(stats.windows, stats.window_bytes)),
        field("different facts", stats.facts),
        field("rows", stats.rows),
        Field::new("histograms", bytes(stats.packed_bytes)),
        Field::new("samples", bytes(stats.sample_bytes)),
        Field::new("trace events", bytes(stats.attachment_bytes)),
    ])?;
    Ok(Exit::Done)
}

fn check(store: &Store, json: bool, context: &Context) -> Result<Exit> {
    let wrong = store.check()?;
    let exit = if wrong.is_empty() {
        Exit::Done
    } else {
        Exit::Broken
    };
    context.ends_with(exit);
    if json {
        output::print(&output::json(&wrong))?;
    } else if wrong.is_empty() {
        output::print("no damage: all data match their checksums\n")?;
    } else {
        output::print(&format!("{}\n", wrong.join("\n")))?;
    }
    Ok(exit)
}

fn merge(file: &Path, json: bool, context: &Context) -> Result<Exit> {
    let store = context.store_to_change()?;
    let other = Store::open_read_only(file)?;
    if other.path() == store.path() {
        return Err(UsageError("the two stores are the same file".to_owned()).into());
    }
    let host = Host::live();
    other.sweep(&|lease| host.may_live(lease))?;
    let merged: Merged = store.merge(&other, &host.lease())?;
    let exit = left_out::exit(&merged.refused);
    context.done(exit, "the stores are merged");
    if json {
        output::print(&output::json(&merged))?;
        return Ok(exit);
    }
    let field = |name: &str, count: u64| Field::new(name, grouped(count));
    let mut fields = vec![
        field("recordings", merged.recordings),
        field("already here", merged.known),
    ];
    if merged.running > 0 {
        fields.push(field("still running, not copied", merged.running));
    }
    fields.extend([
        field("slots", merged.slots),
        field("windows", merged.windows),
        field("notes", merged.annotations),
        field("experiments", merged.experiments),
    ]);
    fields.extend(left_out::field(&merged.refused));
    context.show_fields(fields)?;
    Ok(exit)
}
