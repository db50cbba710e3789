//! `export`: writes a recording in the format of another tool.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Parser, value_parser};
use punctual_formats::{Export, ExportOptions, FORMATS, Format};
use punctual_model::{Nanos, Recording, grouped};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::extension;
use crate::options::select::OneRecording;
use crate::output::{Output, note};
use crate::recordings::explained::Explained;
use crate::recordings::exported::Samples;
use crate::recordings::perfetto;
use crate::verb::{Run, Verb, named};

pub(super) const VERB: Verb = Verb::new::<ExportFile>("export");

/// The name of the format in which stored trace events are written.
const TRACE: &str = "trace-dat";

/// The extension of its files.
const TRACE_EXTENSION: &str = "dat";

/// The default file name of trace-cmd(1), which this format also uses.
const TRACE_FILE: &str = "trace.dat";

/// The name of the format of the Firefox Profiler.
const FIREFOX: &str = "firefox";

/// The name of Perfetto's format.
const PERFETTO: &str = "perfetto";

/// The default file of Perfetto's format.
const PERFETTO_FILE: &str = "trace.pftrace";

const LONG: &str = "Write a recording in a format that other tools read.\n\n\
    trace-dat contains the pages of the kernel's ring buffer around the explained outliers of a \
    recording (measure --threshold 100us --explain), unchanged, with the events of --event merged \
    into them. Events between two outliers are not kept, and the file marks them as missing. Times \
    are those of CLOCK_MONOTONIC, if the kernel offers this clock for tracing. trace-cmd and \
    KernelShark read the file.\n\n\
    perfetto contains the events around the explained outliers of any recording, with the causes \
    of each outlier on a separate track, for https://ui.perfetto.dev and trace_processor. During \
    times without kept events, a thread '(not recorded)' occupies the CPU. To convert a whole \
    trace of another tool, use explain --trace FILE -o trace.pftrace.";

/// Write a recording for another tool
#[derive(Parser)]
#[command(long_about = LONG, after_help = formats())]
struct ExportFile {
    #[command(flatten)]
    selected: OneRecording,
    /// Format, see below [default: from the file extension, if only one format uses it]
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(required_unless_present = "output", value_parser = named(forms()))]
    format: Option<Form>,
    /// File [default: stdout; for trace-dat, trace.dat; for perfetto, trace.pftrace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// cyclictest-hist: omit rows without a sample, and `# Total:`
    #[arg(long)]
    sparse_rows: bool,
    /// cyclictest-json, rt-dataset: add the key `punctual`
    #[arg(long)]
    extra_key: bool,
    /// cyclictest formats, rt-dataset: number of 1 µs rows, like cyclictest -h [default: enough for
    /// all samples]
    #[arg(long, value_name = "US")]
    histogram: Option<usize>,
    /// trace-dat, perfetto: only the events around this outlier [default: all]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    outlier: Option<u64>,
}

/// Returns a sentence about the samples that a file of every sample lacks, and one about the digits
/// that they lack.
fn incomplete(recording: &Recording) -> impl Iterator<Item = String> {
    let dropped = (recording.samples).filter(|kept| kept.dropped > 0);
    let dropped = dropped.map(|kept| {
        format!(
            "{} of {} samples are missing: the machine was too busy to store them; the histograms \
             and limits contain them",
            grouped(kept.dropped),
            grouped(kept.count + kept.dropped)
        )
    });
    let step = recording.sample_resolution();
    let step = step.filter(|step| *step > Nanos(1));
    let rounded = step.map(|step| format!("latencies are rounded down to a multiple of {step}"));
    dropped.into_iter().chain(rounded)
}

/// A format of `--format`.
#[derive(Clone, Copy)]
enum Form {
    /// A format that is generated from the recording.
    Made(&'static Format),
    /// The trace events that are stored with the recording.
    Trace,
    /// Trace events with the causes of outliers, for Perfetto.
    Perfetto,
}

fn forms() -> Vec<(&'static str, Form)> {
    let made = FORMATS
        .iter()
        .map(|format| (format.name, Form::Made(format)));
    made.chain([(TRACE, Form::Trace), (PERFETTO, Form::Perfetto)])
        .collect()
}

fn formats() -> String {
    let made = FORMATS.iter().map(|format| (format.name, format.summary));
    let trace = "trace events around outliers, for trace-cmd and KernelShark";
    let perfetto = "causes of outliers and the events around them, for ui.perfetto.dev";
    let list: Vec<String> = made
        .chain([(TRACE, trace), (PERFETTO, perfetto)])
        .map(|(name, summary)| format!("  {name:<16} {summary}"))
        .collect();
    format!("Formats:\n{}", list.join("\n"))
}

impl Run for ExportFile {
    fn run(self, context: &Context) -> Result<Exit> {
        match self.format.map_or_else(|| self.form_of_extension(), Ok)? {
            Form::Made(format) => self.write(format, context),
            Form::Trace => self.write_trace(context),
            Form::Perfetto => self.write_perfetto(context),
        }
    }
}

impl ExportFile {
    /// Returns the format that uses the extension of the output file, if it is the only one.
    fn form_of_extension(&self) -> Result<Form, UsageError> {
        let path = self.output.as_deref().unwrap_or(Path::new("-"));
        let extension = extension::extension_of(path);
        let fits = |form: &Form| match form {
            Form::Made(format) => format.extension == extension,
            Form::Trace => extension == TRACE_EXTENSION,
            Form::Perfetto => perfetto::EXTENSIONS.contains(&extension.as_str()),
        };
        let all: Vec<_> = (forms().into_iter())
            .filter(|(_, form)| fits(form))
            .collect();
        match all.as_slice() {
            [(_, form)] => Ok(*form),
            [] => Err(UsageError(format!(
                "{}: the extension matches no format: pass --format",
                path.display()
            ))),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
                Err(UsageError(format!(
                    "{}: the extension belongs to {}: pass --format",
                    path.display(),
                    names.join(", ")
                )))
            }
        }
    }

    fn write(&self, format: &'static Format, context: &Context) -> Result<Exit> {
        let options = self.options(format.name, format.micro_rows)?;
        let store = context.store_to_read()?;
        let recording = self.selected.load(&store)?;
        let path = self.output.as_deref().unwrap_or(Path::new("-"));
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
        if path != Path::new("-") && format.name == FIREFOX {
            let place = path.display();
            note(&format!(
                "{place} is written; open it at https://profiler.firefox.com (Load a profile from file)"
            ));
        }
        if format.needs_samples {
            incomplete(&recording).for_each(|text| note(&text));
        }
        Ok(Exit::Done)
    }

    fn write_trace(&self, context: &Context) -> Result<Exit> {
        self.options(TRACE, false)?;
        let store = context.store_to_read()?;
        let recording = self.selected.load(&store)?;
        let bytes = punctual_session::export_trace(&store, recording.id, self.outlier)?;
        let path = self.output.as_deref().unwrap_or(Path::new(TRACE_FILE));
        Output::open(path)?.put(&bytes)?;
        if path != Path::new("-") {
            note(&format!(
                "{} bytes in {place}; read them with: trace-cmd report -i {place}",
                bytes.len(),
                place = path.display()
            ));
        }
        Ok(Exit::Done)
    }

    fn write_perfetto(&self, context: &Context) -> Result<Exit> {
        self.options(PERFETTO, false)?;
        let explained = Explained::stored(&self.selected, context)?;
        let bytes = explained.to_perfetto(self.outlier)?;
        let path = self.output.as_deref().unwrap_or(Path::new(PERFETTO_FILE));
        Output::open(path)?.put(&bytes)?;
        if path != Path::new("-") {
            note(&format!(
                "{} bytes in {place}; open it at https://ui.perfetto.dev",
                bytes.len(),
                place = path.display()
            ));
        }
        Ok(Exit::Done)
    }

    /// Returns the options for a format. Options that apply only to other formats are an error.
    fn options(&self, name: &str, micro_rows: bool) -> Result<ExportOptions> {
        for (option, given, formats) in [
            ("--sparse-rows", self.sparse_rows, &["cyclictest-hist"][..]),
            (
                "--extra-key",
                self.extra_key,
                &["cyclictest-json", "rt-dataset"],
            ),
            ("--outlier", self.outlier.is_some(), &[TRACE, PERFETTO]),
        ] {
            if given && !formats.contains(&name) {
                let formats = formats.join(" and ");
                return Err(
                    UsageError(format!("{option} applies to {formats}, not to {name}")).into(),
                );
            }
        }
        if self.histogram.is_some() && !micro_rows {
            return Err(UsageError(format!(
                "--histogram applies to formats with rows of 1 µs (cyclictest-hist, \
                 cyclictest-json, rt-dataset), not to {name}"
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

#[cfg(test)]
mod tests {
    use punctual_model::SamplesKept;

    use super::*;

    #[test]
    fn dropped_samples_and_digits_are_reported() {
        let mut recording = punctual_model::testing::recording(1, 1);
        recording.samples = Some(SamplesKept {
            count: 420,
            dropped: 10_370,
            bytes: 0,
        });
        let step = "sample_resolution_ns".to_owned();
        recording.probe.parameters.insert(step.clone(), 10.into());
        let said: Vec<String> = incomplete(&recording).collect();
        assert!(
            said[0].starts_with("10,370 of 10,790 samples are missing"),
            "{said:?}"
        );
        assert!(said[1].ends_with("a multiple of 10 ns"), "{said:?}");
        recording.samples = Some(SamplesKept::default());
        recording.probe.parameters.insert(step, 1.into());
        assert_eq!(incomplete(&recording).count(), 0);
    }
}
