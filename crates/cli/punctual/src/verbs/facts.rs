//! `facts`: saves the state of a machine to a file, so that another machine can audit it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::{Args, Parser};
use punctual_host::Host;
use punctual_model::{CpuSet, FactSet, Nanos};
use punctual_report::{document, text};
use punctual_session::InterruptionCounter;
use punctual_stats::trend;

use super::{Invalid, Run, Verb, extension};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb::new::<Facts>("facts");

/// Default time for counting interrupts.
pub(super) const SAMPLE: Nanos = Nanos::from_secs(1);
/// Interval at which the recorded events are read.
const POLL: Nanos = Nanos::from_millis(100);
/// Maximum time for counting interrupts.
const SAMPLE_MAX: Nanos = Nanos::from_secs(3_600);
/// Size limit of a file with facts. For a machine with 512 CPUs, such a file has a few megabytes.
const FACTS_LIMIT: u64 = 128 << 20;

/// Save this machine's state, or compare two recordings' states
#[derive(Parser)]
#[command(disable_help_subcommand = true)]
enum Facts {
    /// Write all inputs of punctual doctor to one JSON file
    Capture(Capture),
    /// Show the machine facts that differ between two recordings
    Diff(Diff),
}

#[derive(Args)]
struct Diff {
    /// First recording: an ID, the start or end of an ID, `last` or `last~N`
    #[arg(value_name = "A")]
    a: String,
    /// Second recording
    #[arg(value_name = "B")]
    b: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Capture {
    /// File; - for stdout [default: -]
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
    #[command(flatten)]
    counting: Counting,
}

// How long events are counted.
#[derive(Args)]
pub(super) struct Counting {
    /// Time for counting interrupts, softirqs and steal time [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = sample)]
    sample: Option<Nanos>,
    /// Do not count interrupts, softirqs and steal time
    #[arg(long, conflicts_with = "sample")]
    no_sample: bool,
}

impl Counting {
    /// Returns the time for counting; `None` if nothing is counted.
    pub(super) fn length(&self) -> Option<Nanos> {
        if self.no_sample {
            None
        } else {
            Some(self.sample.unwrap_or(SAMPLE))
        }
    }
}

fn sample(text: &str) -> Result<Nanos, Invalid> {
    let length: Nanos = text.parse()?;
    if length > SAMPLE_MAX || length < Nanos::from_millis(10) {
        Err(format!("{text} is not between 10 ms and an hour").into())
    } else {
        Ok(length)
    }
}

impl Run for Facts {
    fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Capture(capture) => capture.run(),
            Self::Diff(diff) => diff.run(context),
        }
    }
}

impl Diff {
    fn run(self, context: &Context) -> Result<Exit> {
        let store = context.store_to_read()?;
        let load = |name: &str| anyhow::Ok(store.load(store.find(name)?)?);
        let differ = trend::facts_differ(&load(&self.a)?, &load(&self.b)?);
        if self.json {
            output::print(&output::json(&differ)?)?
        } else {
            let page = document::facts_differ(&differ);
            output::print(&text::render(&page, &context.style()))?;
        }
        Ok(Exit::Done)
    }
}

impl Capture {
    fn run(self) -> Result<Exit> {
        let Self { output, counting } = self;
        extension::check(&output, &["json"])?;
        let out = Output::open(&output)?;
        let facts = here(counting.length(), |_| anyhow::Ok(CpuSet::new()))?;
        let files = facts.files.len();
        let json = serde_json::to_string(&facts)?;
        out.put(format!("{}\n", punctual_model::escape_json(&json)).as_bytes())?;
        if output != Path::new("-") {
            output::note(&format!(
                "{files} readings written to {}: audit them with punctual doctor --facts {}",
                output.display(),
                output.display()
            ));
        }
        Ok(Exit::Done)
    }
}

/// Returns the state of this machine, with counts over the time `length`. In the counts, the CPUs
/// that `measured` returns are marked.
pub(super) fn here<E>(
    length: Option<Nanos>,
    measured: impl FnOnce(&FactSet) -> Result<CpuSet, E>,
) -> Result<FactSet>
where
    anyhow::Error: From<E>,
{
    let host = Host::live();
    let mut facts = host.capture(&punctual_checks::patterns());
    let cpus = measured(&facts)?;
    if let Some(length) = length {
        // Start the recording before counting, because its start interrupts all CPUs.
        let nohz_full = facts.host.processor.nohz_full.get();
        let mut counter =
            InterruptionCounter::start(&host, &cpus, &nohz_full.cloned().unwrap_or_default());
        // Start counting after the capture, so that the overhead of the capture is not counted.
        let before = host.counters();
        let start = Instant::now();
        while let left @ 1.. = length.0.saturating_sub(elapsed(start).0) {
            std::thread::sleep(Nanos(left.min(POLL.0)).into());
            counter.poll();
        }
        let duration = elapsed(start);
        facts.sample = Some(host.counters().since(&before, &cpus, duration));
        facts.interruptions = Some(counter.finish());
    }
    Ok(facts)
}

fn elapsed(since: Instant) -> Nanos {
    Nanos(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Loads captured facts from a file, or from a folder with the same layout as the root folder of
/// the machine.
///
/// # Errors
/// Returns an error if the path is missing, too large or damaged, or is a folder with a different
/// layout.
pub(super) fn load(path: &Path) -> Result<FactSet> {
    let cannot = || format!("cannot read the facts in {}", path.display());
    let data = std::fs::metadata(path).with_context(cannot)?;
    if data.is_dir() {
        if !path.join("proc").is_dir() && !path.join("sys").is_dir() {
            return Err(UsageError(format!(
                "{} contains neither proc nor sys: pass a folder with the layout of the machine's \
                 root folder, or a file from punctual facts capture",
                path.display()
            ))
            .into());
        }
        return Ok(Host::new(path).capture(&punctual_checks::patterns()));
    }
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(FACTS_LIMIT + 1).read_to_string(&mut text))
        .with_context(cannot)?;
    if read as u64 > FACTS_LIMIT {
        return Err(UsageError(format!(
            "{} is too large for a file of facts: pass a file from punctual facts capture",
            path.display()
        ))
        .into());
    }
    FactSet::from_json(&text).with_context(cannot)
}
