//! `import`: reads recordings from files of other tools.

mod given;
mod help;
mod in_name;
mod repeated;
mod series;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use given::Given;
use punctual_culprit::Wanted;
use punctual_formats::{CountSamples, IMPORTS, Import, ImportError, SampleSink, Source, recognise};
use punctual_host::Host;
use punctual_model::{
    Nanos, Recording, RecordingId, Sample, SamplesKept, Unknown, counted, grouped,
};
use punctual_report::wrap;
use punctual_session::{TraceRequest, explain_trace};
use punctual_store::{Store, StoreError, Writer};
use punctual_tracefile::{Input, TraceFileError, TraceReader};
use repeated::Repeated;
use serde::Serialize;

use crate::context::Context;
use crate::exit::{Exit, UsageError, report, with_causes};
use crate::output;
use crate::verb::{Run, Verb, command_line, named};

pub(super) const VERB: Verb = Verb::new::<ImportFiles>("import");

/// Import files of other tools as recordings
#[derive(Parser)]
#[command(after_help = help::formats(), after_long_help = help::long_help())]
struct ImportFiles {
    /// Files, - for stdin; each becomes one recording
    #[arg(value_name = "FILE", num_args = 1.., required = true)]
    files: Vec<PathBuf>,
    /// Format, see below [default: detected from the content]
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(value_parser = named(IMPORTS.iter().map(|import| (import.name, import)).collect()))]
    format: Option<&'static Import>,
    /// Unit of the figures, if the file does not state it: ns, us, ms
    #[arg(long, value_name = "UNIT")]
    #[arg(value_parser = named(vec![
        ("ns", Nanos(1)),
        ("us", Nanos::from_micros(1)),
        ("ms", Nanos::from_micros(1_000)),
    ]))]
    unit: Option<Nanos>,
    /// Label of the recordings
    #[arg(long, value_name = "TEXT", value_parser = crate::options::select::label)]
    label: Option<String>,
    /// Join the recordings to this series
    #[arg(long, value_name = "SERIES", value_parser = series::name)]
    series: Option<String>,
    #[command(flatten)]
    given: Given,
    /// Store only the histograms of files that contain every sample
    #[arg(long)]
    no_samples: bool,
    /// Read and check the files, store nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Heap memory to keep instead of returning it to the system, in bytes. It is more than is needed
/// to compress a chunk of samples.
const KEPT_BYTES: usize = 8 << 20;

impl Run for ImportFiles {
    fn run(self, context: &Context) -> Result<Exit> {
        punctual_rt::keep_heap(KEPT_BYTES);
        let job = Job {
            format: self.format,
            unit: self.unit,
            label: self.label,
            series: self.series,
            given: self.given,
            samples: !self.no_samples,
            store: if self.dry_run {
                None
            } else {
                context.store_to_record()?
            },
        };
        let mut exit = Exit::Done;
        let mut results = Vec::new();
        // All files are imported even if the output cannot be written.
        let mut printed = Ok(());
        let mut before = Repeated::default();
        for path in &self.files {
            match job.import(path) {
                Ok(imported) => {
                    if self.json {
                        results.push(as_json(&job, path, imported))
                    } else {
                        let mut sentence = sentence(&job, path, &imported);
                        sentence.push_str(&before.unknown(&imported.recording));
                        before.count(&imported.recording);
                        // Lines after the first are indented.
                        let width = context.list_style().width.saturating_sub(2);
                        let lines = wrap(&sentence, width);
                        let text = format!("{}\n", lines.join("\n  "));
                        printed = printed.and_then(|()| output::print(&text));
                        for warning in before.new_warnings(&imported.recording) {
                            output::note(&format!("{}: {warning}", path.display()));
                        }
                    }
                }
                Err(error) => {
                    // The other files are still imported if they are valid.
                    exit = report(&error);
                    let file = path.display().to_string();
                    results.push(ImportJson::Failed {
                        file,
                        error: with_causes(&error),
                    });
                }
            }
        }
        if before.hidden > 0 {
            let hidden = counted(before.hidden, "warning", "warnings");
            output::note(&format!(
                "{hidden} not repeated; each recording has its own"
            ));
        }
        if job.store.is_some() {
            if let Some(sum) = before.sum(self.files.len()).filter(|_| !self.json) {
                output::note(&sum);
            }
            context.done(exit, "the import is complete");
        }
        if self.json {
            printed = output::print(&output::json(&results));
        }
        printed?;
        Ok(exit)
    }
}

/// The options for all files.
struct Job {
    format: Option<&'static Import>,
    /// Unit of the figures in files that do not state a unit.
    unit: Option<Nanos>,
    label: Option<String>,
    /// Series that the recordings join.
    series: Option<String>,
    given: Given,
    samples: bool,
    /// `None`: nothing is stored.
    store: Option<Store>,
}

/// An imported file.
struct Imported {
    /// The name of its format.
    format: &'static str,
    recording: Recording,
}

impl Job {
    /// Reads a file, and stores it if requested.
    fn import(&self, path: &Path) -> Result<Imported> {
        if path.is_dir() {
            return self.import_folder(path);
        }
        let name = path.display().to_string();
        let mut source = Source::new(name.as_str(), open(path)?).with_unit(self.unit);
        let import = match self
            .format
            .map_or_else(|| recognise(&name, &source.head()?), Ok)
        {
            Ok(import) => import,
            Err(error) => {
                return match self.import_trace(path, source) {
                    // The importers know what the file is.
                    Some(Err(failed)) if is_foreign(&error) && uses_nothing(&failed) => {
                        Err(error.into())
                    }
                    Some(read) => read,
                    None => Err(error.into()),
                };
            }
        };
        if self.unit.is_some() && import.unit_known {
            let text = format!(
                "{name}: {} files state their unit: omit --unit",
                import.name
            );
            return Err(UsageError(text).into());
        }
        let recording = match &self.store {
            Some(store) if import.has_samples && self.samples => {
                self.keep_samples(store, import, &mut source, path)?
            }
            store => {
                let mut sink = CountSamples::default();
                let mut recording = self.named((import.read)(&mut source, &mut sink)?, path)?;
                if import.has_samples {
                    recording.samples = self.samples.then_some(SamplesKept {
                        count: sink.0,
                        ..SamplesKept::default()
                    });
                }
                if let Some(store) = store {
                    store
                        .begin(&recording, &Host::live().lease())?
                        .finish(&recording)?;
                }
                recording
            }
        };
        if let (Some(name), Some(store)) = (&self.series, &self.store) {
            series::join(store, name, &recording, path)?;
        }
        Ok(Imported {
            format: import.name,
            recording,
        })
    }

    /// Reads the trace in a folder, and stores its late reactions.
    fn import_folder(&self, path: &Path) -> Result<Imported> {
        if self.unit.is_some() || self.format.is_some() {
            let text = format!(
                "{}: a folder can only be a CTF trace: omit --unit and --format",
                path.display()
            );
            return Err(UsageError(text).into());
        }
        let mut reader = Input::path(path)
            .and_then(punctual_tracefile::open)
            .with_context(|| path.display().to_string())?;
        self.keep_trace(reader.as_mut(), path)
    }

    /// Reads a trace, and stores its late reactions. Returns `None` if the file is not a trace.
    fn import_trace(&self, path: &Path, source: Source<'static>) -> Option<Result<Imported>> {
        if self.unit.is_some() {
            return None;
        }
        let input = if path == Path::new("-") {
            Ok(Input::stream(source.into_input()))
        } else {
            Input::path(path)
        };
        match input.and_then(punctual_tracefile::open) {
            Ok(mut reader) => Some(self.keep_trace(reader.as_mut(), path)),
            // The file may be in another format. Then the importers report its errors.
            Err(
                TraceFileError::Io(_)
                | TraceFileError::Open { .. }
                | TraceFileError::NotATrace { .. }
                | TraceFileError::NoEvent { .. },
            ) => None,
            Err(error) => Some(Err(error).with_context(|| path.display().to_string())),
        }
    }

    fn keep_trace(&self, reader: &mut dyn TraceReader, path: &Path) -> Result<Imported> {
        let name = path.display().to_string();
        let request = TraceRequest {
            file: name.clone(),
            wanted: Wanted::longest(),
            command_line: command_line(),
        };
        let mut explained = explain_trace(reader, request).with_context(|| name.clone())?;
        // An empty recording would become `last`, and look like a run without late samples.
        anyhow::ensure!(
            !explained.recording.threads.is_empty(),
            "{name}: no reaction of a thread is complete in this trace, so nothing was imported: punctual \
             explain --trace shows what it holds, and which events are missing"
        );
        explained.recording = self.named(explained.recording, path)?;
        explained.begin_at_start();
        if let Some(store) = &self.store {
            explained.store(store, &Host::live().lease())?;
        }
        let recording = explained.recording;
        if let (Some(series), Some(store)) = (&self.series, &self.store) {
            series::join(store, series, &recording, path)?;
        }
        Ok(Imported {
            format: "trace",
            recording,
        })
    }

    /// Adds the label and the facts that the user passed to the recording of the file at `path`.
    fn named(&self, mut recording: Recording, path: &Path) -> Result<Recording> {
        if let Some(label) = &self.label {
            recording.label = Some(label.clone());
        }
        self.given.complete(&mut recording, path)?;
        Ok(recording)
    }

    /// Reads a file and stores its samples. If the file turns out to be invalid, the stored part is
    /// deleted.
    fn keep_samples(
        &self,
        store: &Store,
        import: &Import,
        source: &mut Source<'_>,
        path: &Path,
    ) -> Result<Recording> {
        let mut sink = StoreSink {
            store,
            begun: self.named(import.begun(source), path)?,
            writer: None,
        };
        let read = (import.read)(source, &mut sink);
        let writer = sink.writer.take();
        match (read, writer) {
            (Ok(recording), Some(writer)) => finish(self.named(recording, path)?, writer),
            // This case should not occur, because files of these formats always have samples.
            (Ok(recording), None) => {
                let recording = self.named(recording, path)?;
                store
                    .begin(&recording, &Host::live().lease())?
                    .finish(&recording)?;
                Ok(recording)
            }
            (Err(error), writer) => {
                // Report only the first error, and delete the part that was stored.
                let _ = writer.map(Writer::abandon);
                Err(error.into())
            }
        }
    }
}

const fn is_foreign(error: &ImportError) -> bool {
    matches!(error, ImportError::Foreign { .. })
}

/// Returns whether no line of a trace could be used.
fn uses_nothing(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<TraceFileError>();
    matches!(error, Some(TraceFileError::NothingUsed { .. }))
}

/// Opens a file, or the standard input.
fn open(path: &Path) -> Result<Box<dyn Read>> {
    let cannot = || format!("{}: cannot be read", path.display());
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(cannot)?;
    if file.metadata().with_context(cannot)?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory)).with_context(cannot);
    }
    Ok(Box::new(file))
}

/// Finishes a recording whose samples `writer` stored while the file was read.
fn finish(mut recording: Recording, mut writer: Writer) -> Result<Recording> {
    recording.id = writer.id();
    match writer.seal() {
        Ok(sealed) => recording.samples = Some(sealed),
        Err(error) => {
            let _ = writer.abandon();
            return Err(error.into());
        }
    }
    writer.finish(&recording)?;
    Ok(recording)
}

/// A sink that stores samples; the first of them begins the
/// recording.
struct StoreSink<'a> {
    store: &'a Store,
    begun: Recording,
    writer: Option<Writer>,
}

impl StoreSink<'_> {
    fn keep(&mut self, thread: u32, samples: &[Sample]) -> Result<(), StoreError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            writer => writer.insert(self.store.begin(&self.begun, &Host::live().lease())?),
        };
        writer.grow(thread as usize + 1);
        writer.samples(thread, samples)
    }
}

impl SampleSink for StoreSink<'_> {
    fn take(&mut self, thread: u32, samples: &[Sample]) -> io::Result<()> {
        self.keep(thread, samples).map_err(io::Error::other)
    }
}

/// Returns a sentence about the imported data and the samples without latency.
fn sentence(job: &Job, path: &Path, imported: &Imported) -> String {
    let Imported { format, recording } = imported;
    let all = recording.all_latencies();
    let threads = recording.threads.len();
    // If the threads are of different kinds, several of them may have counted the same wake-up.
    let of_each = !recording.threads_are_alike() && threads > 1;
    let most = recording
        .threads
        .iter()
        .map(|thread| thread.histogram.recorded());
    let samples = match most.max().filter(|_| of_each) {
        Some(most) => format!("up to {} each", counted(most, "sample", "samples")),
        None => counted(all.recorded(), "sample", "samples"),
    };
    let mut text = format!(
        "{}: {}, {threads} {}, {samples}",
        path.display(),
        format,
        if threads == 1 { "thread" } else { "threads" },
    );
    if let Some(max) = all.max() {
        text.push_str(&format!(", max {max}"));
    }
    if all.unplaced() > 0 && all.unplaced() == all.recorded() {
        text.push_str(", all with unknown latency");
    } else if all.unplaced() > 0 && !of_each {
        let unplaced = grouped(all.unplaced());
        text.push_str(&format!(", {unplaced} of them with unknown latency"));
    }
    if let Some(kept) = recording.samples.filter(|_| job.store.is_some()) {
        text.push_str(&format!(
            ", every sample kept ({} bytes)",
            grouped(kept.bytes)
        ));
    }
    match &job.store {
        Some(_) => text.push_str(&format!("; recording {}", recording.id.short())),
        None => text.push_str("; not stored"),
    }
    text
}

/// The result of one file, as JSON.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ImportJson {
    /// The file was read successfully.
    Read(Box<ReadJson>),
    /// The file could not be read.
    Failed {
        /// The file.
        file: String,
        /// The reason.
        error: String,
    },
}

punctual_model::to_json!(ImportJson);

/// A file that was read, as JSON.
#[derive(Serialize)]
pub(super) struct ReadJson {
    /// The file.
    file: String,
    /// Its format.
    format: String,
    /// The program that measured.
    tool: String,
    /// The recording; null if it was not stored.
    id: Option<RecordingId>,
    /// Number of threads.
    threads: usize,
    /// Samples of all threads.
    recorded: u64,
    /// Samples whose latency is unknown.
    unknown_latency: u64,
    /// The largest latency; null if it is unknown.
    max_ns: Option<Nanos>,
    /// The stored samples; null if none are stored.
    samples: Option<SamplesKept>,
    /// Facts that the file does not contain.
    unknown: Option<BTreeSet<Unknown>>,
    /// Warnings for the reader.
    warnings: Vec<String>,
}

fn as_json(job: &Job, path: &Path, imported: Imported) -> ImportJson {
    let Imported { format, recording } = imported;
    let all = recording.all_latencies();
    let origin = recording.origin;
    ImportJson::Read(Box::new(ReadJson {
        file: path.display().to_string(),
        format: format.to_owned(),
        tool: match &origin {
            Some(origin) => origin.tool.clone(),
            None => recording.probe.program,
        },
        id: job.store.is_some().then_some(recording.id),
        threads: recording.threads.len(),
        recorded: all.recorded(),
        unknown_latency: all.unplaced(),
        max_ns: all.max(),
        samples: recording.samples,
        unknown: origin.map(|origin| origin.unknown),
        warnings: recording.warnings,
    }))
}
