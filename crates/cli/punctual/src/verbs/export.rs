//! `export`: a recording in another tool's format.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_formats::{Export, ExportOptions, FORMATS, Format, SampleSource};
use punctual_model::{RecordingId, Sample};
use punctual_store::{Store, StoreError};

use super::select::OneRecording;
use super::{Run, Verb, named};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::Output;

pub(super) const VERB: Verb = Verb::of::<ExportFile>("export");

/// Write a recording in another tool's format
#[derive(Parser)]
#[command(after_help = formats())]
struct ExportFile {
    #[command(flatten)]
    selected: OneRecording,
    /// Format, see below
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(value_parser = named(FORMATS.iter().map(|format| (format.name, format)).collect()))]
    format: &'static Format,
    /// File [default: stdout]
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
    /// cyclictest-hist: omit rows without a sample, and `# Total:`
    #[arg(long)]
    sparse_rows: bool,
    /// cyclictest-json, rt-dataset: add the key `punctual`
    #[arg(long)]
    extra_key: bool,
    /// cyclictest formats, rt-dataset: number of 1 µs rows, as cyclictest -h [default: enough
    /// for all]
    #[arg(long, value_name = "US")]
    histogram: Option<usize>,
}

fn formats() -> String {
    let list: Vec<String> = FORMATS
        .iter()
        .map(|format| format!("  {:<16} {}", format.name, format.summary))
        .collect();
    format!("Formats:\n{}", list.join("\n"))
}

impl Run for ExportFile {
    fn run(self, context: &Context) -> Result<Exit> {
        let options = self.options()?;
        let store = context.store_to_read()?;
        let recording = self.selected.load(&store)?;
        let mut output = Output::open(&self.output)?;
        let export = Export {
            recording: &recording,
            samples: &Samples {
                store: &store,
                id: recording.id,
            },
            options,
        };
        let mut buffered = BufWriter::new(&mut output);
        (self.format.write)(&export, &mut buffered)?;
        buffered
            .flush()
            .with_context(|| format!("cannot write {}", self.output.display()))?;
        drop(buffered);
        output.finish()?;
        Ok(Exit::Done)
    }
}

impl ExportFile {
    fn options(&self) -> Result<ExportOptions> {
        let format = self.format;
        for (option, given, formats) in [
            ("--sparse-rows", self.sparse_rows, &["cyclictest-hist"][..]),
            (
                "--extra-key",
                self.extra_key,
                &["cyclictest-json", "rt-dataset"],
            ),
        ] {
            if given && !formats.contains(&format.name) {
                let (formats, name) = (formats.join(" and "), format.name);
                return Err(
                    UsageError(format!("{option} is for {formats}, not for {name}")).into(),
                );
            }
        }
        if self.histogram.is_some() && !format.micro_rows {
            return Err(UsageError(format!(
                "--histogram is for formats with rows of 1 µs (cyclictest-hist, cyclictest-json, rt-dataset), not for {}",
                format.name
            ))
            .into());
        }
        Ok(ExportOptions {
            sparse_rows: self.sparse_rows,
            extra_key: self.extra_key,
            histogram_us: self.histogram,
        })
    }
}

/// The samples in the store, for a format that writes them.
struct Samples<'a> {
    store: &'a Store,
    id: RecordingId,
}

impl SampleSource for Samples<'_> {
    fn for_each(
        &self,
        thread: u32,
        chunk: &mut dyn FnMut(&[Sample]) -> io::Result<()>,
    ) -> io::Result<()> {
        let taken = self.store.samples(self.id, thread, &mut |samples| {
            chunk(samples).map_err(Failure::Output)
        });
        match taken {
            Ok(_) => Ok(()),
            Err(Failure::Output(error)) => Err(error),
            Err(Failure::Store(error)) => Err(io::Error::other(error)),
        }
    }
}

/// Errors of writing a sample.
enum Failure {
    Store(StoreError),
    Output(io::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
