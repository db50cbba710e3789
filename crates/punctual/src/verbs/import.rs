//! `import`: other tools' files as recordings.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_formats::{CountSamples, IMPORTS, Import, SampleSink, Source, recognise};
use punctual_host::Host;
use punctual_model::{Recording, Sample, SamplesKept, grouped};
use punctual_store::{Lease, Store, StoreError, Writer};
use serde_json::{Value, json};

use super::Verb;
use crate::context::Context;
use crate::exit::{Exit, report};
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    let list: Vec<String> = IMPORTS
        .iter()
        .map(|import| format!("  {:<22} {}", import.name, import.summary))
        .collect();
    Command::new("import")
        .about("Make recordings of other tools' files")
        .after_help(format!("Formats:\n{}", list.join("\n")))
        .after_long_help(format!("Formats:\n\n{}", long_help()))
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .num_args(1..)
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Files; - for the standard input. Each becomes one recording"),
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("FORMAT")
                .value_parser(IMPORTS.iter().map(|import| import.name).collect::<Vec<_>>())
                .hide_possible_values(true)
                .help("What they are, see below [default: told from their content]"),
        )
        .arg(
            Arg::new("label")
                .long("label")
                .value_name("TEXT")
                .help("A name for the recordings"),
        )
        .arg(
            Arg::new("no-samples")
                .long("no-samples")
                .action(ArgAction::SetTrue)
                .help("Keep the histograms only, where a file holds every sample"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Read and check the files, store nothing"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("What came in as JSON"),
        )
}

/// Each format with its documentation.
fn long_help() -> String {
    let each = IMPORTS.iter().map(|import| {
        let paragraphs: Vec<String> = (import.documentation.split("\n\n"))
            .map(|paragraph| format!("  {}", paragraph.replace('\n', " ")))
            .collect();
        format!(
            "{}: {}\n\n{}",
            import.name,
            import.summary,
            paragraphs.join("\n\n")
        )
    });
    each.collect::<Vec<_>>().join("\n\n")
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let from = matches
        .get_one::<String>("from")
        .map(|name| punctual_formats::import(name))
        .transpose()?;
    let job = Job {
        from,
        label: matches.get_one::<String>("label"),
        samples: !matches.get_flag("no-samples"),
        store: match matches.get_flag("dry-run") {
            true => None,
            false => Some(context.store()?),
        },
    };
    let mut exit = Exit::Done;
    let mut results = Vec::new();
    for path in matches.get_many::<PathBuf>("files").into_iter().flatten() {
        match job.import(path) {
            Ok(imported) => match matches.get_flag("json") {
                true => results.push(as_json(&job, path, &imported)),
                false => output::print(&sentence(&job, path, &imported))?,
            },
            Err(error) => {
                // The good ones come in all the same.
                exit = report(&error);
                let file = path.display().to_string();
                results.push(json!({"file": file, "error": format!("{error:#}")}));
            }
        }
    }
    if matches.get_flag("json") {
        let text = serde_json::to_string_pretty(&results)?;
        output::print(&format!("{text}\n"))?;
    }
    Ok(exit)
}

/// What is asked for all files.
struct Job<'a> {
    from: Option<&'static Import>,
    label: Option<&'a String>,
    samples: bool,
    /// `None`: nothing is stored.
    store: Option<Store>,
}

/// What came in.
struct Imported {
    import: &'static Import,
    recording: Recording,
}

impl Job<'_> {
    /// Reads a file, and again into the store where it holds samples.
    fn import(&self, path: &Path) -> Result<Imported> {
        let name = path.display().to_string();
        let mut file = self.open(path)?;
        let mut sink = CountSamples::default();
        let mut source = Source::new(name.as_str(), &mut file);
        let import = match self.from {
            Some(import) => import,
            None => recognise(&name, &source.head()?)?,
        };
        let mut recording = (import.read)(&mut source, &mut sink)?;
        drop(source);
        if let Some(label) = self.label {
            recording.label = Some(label.clone());
        }
        let kept = import.has_samples && self.samples;
        if import.has_samples {
            recording.samples = kept.then_some(SamplesKept {
                count: sink.0,
                ..SamplesKept::default()
            });
        }
        if let Some(store) = &self.store {
            let samples = kept.then_some((import, &mut file));
            recording = keep(store, recording, samples)?;
        }
        Ok(Imported { import, recording })
    }

    /// A file that can be read twice: what cannot is copied first, into a file
    /// without a name beside the store.
    fn open(&self, path: &Path) -> Result<File> {
        let cannot = || format!("{}: cannot be read", path.display());
        let mut input: Box<dyn Read> = match path == Path::new("-") {
            true => Box::new(io::stdin().lock()),
            false => {
                let file = File::open(path).with_context(cannot)?;
                let metadata = file.metadata().with_context(cannot)?;
                if metadata.is_dir() {
                    return Err(io::Error::from(io::ErrorKind::IsADirectory)).with_context(cannot);
                }
                if metadata.is_file() {
                    return Ok(file);
                }
                Box::new(file)
            }
        };
        let folder = self.store.as_ref().and_then(|store| store.path().parent());
        let mut copy = match folder {
            Some(folder) => tempfile::tempfile_in(folder),
            None => tempfile::tempfile(),
        }
        .context("cannot make a temporary file for the input")?;
        io::copy(&mut input, &mut copy).with_context(cannot)?;
        copy.rewind().with_context(cannot)?;
        Ok(copy)
    }
}

/// Stores a recording, with its samples read again from its file.
fn keep(
    store: &Store,
    mut recording: Recording,
    samples: Option<(&'static Import, &mut File)>,
) -> Result<Recording> {
    let writer = store.begin(&recording, &lease())?;
    let mut sink = StoreSink { writer };
    if let Some((import, file)) = samples
        && let Err(error) = again(&recording, import, file, &mut sink)
    {
        sink.writer.abandon()?;
        return Err(error);
    }
    let sealed = match sink.writer.seal() {
        Ok(sealed) => sealed,
        Err(error) => {
            // The first error is told; what is left of it is swept.
            let _ = sink.writer.abandon();
            return Err(error.into());
        }
    };
    if recording.samples.is_some() {
        recording.samples = Some(sealed);
    }
    sink.writer.finish(&recording)?;
    Ok(recording)
}

/// Reads the file a second time, into the store.
fn again(
    recording: &Recording,
    import: &Import,
    file: &mut File,
    sink: &mut StoreSink,
) -> Result<()> {
    let origin = recording.origin.as_ref();
    let name = origin.map_or("-", |origin| origin.file.as_str());
    file.rewind()
        .with_context(|| format!("{name}: cannot be read twice"))?;
    let second = (import.read)(&mut Source::new(name, &mut *file), sink)?;
    // Its samples are to be those that were counted.
    anyhow::ensure!(
        second.threads == recording.threads,
        "{name}: it changed while it was read; nothing of it is kept: import it again when \
         nobody writes it"
    );
    Ok(())
}

/// Samples on their way into the store.
struct StoreSink {
    writer: Writer,
}

impl SampleSink for StoreSink {
    fn take(&mut self, thread: u32, samples: &[Sample]) -> io::Result<()> {
        let result = self.writer.samples(thread, samples);
        result.map_err(|error: StoreError| io::Error::other(error))
    }
}

fn lease() -> Lease {
    let host = Host::live();
    let pid = std::process::id();
    Lease {
        pid,
        process_start: host.process_start(pid).unwrap_or_default(),
        boot_id: host.boot_id().unwrap_or_default(),
    }
}

/// What came in, what of it is in no row, and what the file could not tell.
fn sentence(job: &Job<'_>, path: &Path, imported: &Imported) -> String {
    let Imported { import, recording } = imported;
    let unknown: Vec<&str> = (recording.origin.iter())
        .flat_map(|origin| origin.unknown.iter().map(|what| what.words()))
        .collect();
    let all = recording.all_latencies();
    let threads = recording.threads.len();
    let mut text = format!(
        "{}: {}, {threads} {}, {} samples",
        path.display(),
        import.name,
        if threads == 1 { "thread" } else { "threads" },
        grouped(all.recorded()),
    );
    if let Some(max) = all.max() {
        text.push_str(&format!(", max {max}"));
    }
    if all.unplaced() > 0 {
        let unplaced = grouped(all.unplaced());
        text.push_str(&format!(", {unplaced} of them of unknown latency"));
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
    if !unknown.is_empty() {
        text.push_str(&format!("; not told: {}", unknown.join(", ")));
    }
    text.push('\n');
    text
}

fn as_json(job: &Job<'_>, path: &Path, imported: &Imported) -> Value {
    let Imported { import, recording } = imported;
    let all = recording.all_latencies();
    let origin = recording.origin.as_ref();
    json!({
        "file": path.display().to_string(),
        "format": import.name,
        "tool": origin.map_or(&recording.probe.program, |origin| &origin.tool),
        "id": job.store.is_some().then_some(recording.id),
        "threads": recording.threads.len(),
        "recorded": all.recorded(),
        "unknown_latency": all.unplaced(),
        "max_ns": all.max(),
        "samples": recording.samples,
        "unknown": origin.map(|origin| &origin.unknown),
        "warnings": recording.warnings,
    })
}
