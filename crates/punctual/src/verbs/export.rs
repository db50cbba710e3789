//! `export`: a recording in another tool's format.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_formats::{Export, ExportOptions, FORMATS, Format, SampleSource};
use punctual_model::{RecordingId, Sample};
use punctual_store::{Store, StoreError};

use super::{Verb, output_option, recording_argument, select};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::Output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    let list: Vec<String> = FORMATS
        .iter()
        .map(|format| format!("  {:<16} {}", format.name, format.summary))
        .collect();
    Command::new("export")
        .about("Write a recording in another tool's format")
        .after_help(format!("Formats:\n{}", list.join("\n")))
        .arg(recording_argument())
        .arg(
            Arg::new("format")
                .short('f')
                .long("format")
                .value_name("FORMAT")
                .value_parser(FORMATS.iter().map(|format| format.name).collect::<Vec<_>>())
                .hide_possible_values(true)
                .required(true)
                .help("Format, see below"),
        )
        .arg(output_option("File [default: stdout]").default_value("-"))
        .arg(
            Arg::new("sparse-rows")
                .long("sparse-rows")
                .action(ArgAction::SetTrue)
                .help("cyclictest-hist: omit rows without a sample, and `# Total:`"),
        )
        .arg(
            Arg::new("extra-key")
                .long("extra-key")
                .action(ArgAction::SetTrue)
                .help("cyclictest-json, rt-dataset: add the key `punctual`"),
        )
        .arg(
            Arg::new("histogram")
                .long("histogram")
                .value_name("US")
                .value_parser(value_parser!(usize))
                .help("cyclictest formats, rt-dataset: number of 1 µs rows, as cyclictest -h [default: enough for all]"),
        )
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let name = matches
        .get_one::<String>("format")
        .map_or("json", String::as_str);
    let format = punctual_formats::format(name)?;
    let options = options(matches, format)?;
    let store = context.store_to_read()?;
    let recording = select::one(matches, &store)?;
    let path = matches
        .get_one::<PathBuf>("output")
        .map_or(Path::new("-"), PathBuf::as_path);
    let mut output = Output::open(path)?;
    let export = Export {
        recording: &recording,
        samples: &Samples {
            store: &store,
            id: recording.id,
        },
        options,
    };
    let mut buffered = BufWriter::new(&mut output);
    (format.write)(&export, &mut buffered)?;
    buffered
        .flush()
        .with_context(|| format!("cannot write {}", path.display()))?;
    drop(buffered);
    output.finish()?;
    Ok(Exit::Done)
}

fn options(matches: &ArgMatches, format: &Format) -> Result<ExportOptions> {
    let sparse_rows = matches.get_flag("sparse-rows");
    let extra_key = matches.get_flag("extra-key");
    let histogram_us = matches.get_one::<usize>("histogram").copied();
    for (option, given, formats) in [
        ("--sparse-rows", sparse_rows, &["cyclictest-hist"][..]),
        ("--extra-key", extra_key, &["cyclictest-json", "rt-dataset"]),
    ] {
        if given && !formats.contains(&format.name) {
            let (formats, name) = (formats.join(" and "), format.name);
            return Err(UsageError(format!("{option} is for {formats}, not for {name}")).into());
        }
    }
    if histogram_us.is_some() && !format.micro_rows {
        return Err(UsageError(format!(
            "--histogram is for formats with rows of 1 µs (cyclictest-hist, cyclictest-json, rt-dataset), not for {}",
            format.name
        ))
        .into());
    }
    Ok(ExportOptions {
        sparse_rows,
        extra_key,
        histogram_us,
    })
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
