//! Facts of this machine or of a file, as the input of an audit.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use punctual_files::{Budget, FileError};
use punctual_host::Host;
use punctual_model::{CpuSet, FactSet, Nanos};
use punctual_session::InterruptionCounter;

use crate::exit::UsageError;
use crate::verb::Invalid;

/// Default time for counting interrupts.
pub(crate) const SAMPLE: Nanos = Nanos::from_secs(1);
/// Interval at which the recorded events are read.
const POLL: Nanos = Nanos::from_millis(100);
/// Maximum time for counting interrupts.
const SAMPLE_MAX: Nanos = Nanos::from_secs(3_600);
/// Size limit of a file with facts. For a machine with 512 CPUs, such a file has a few megabytes.
const FACTS_LIMIT: u64 = 128 << 20;

// How long events are counted.
#[derive(Args)]
pub(crate) struct Counting {
    /// Time for counting interrupts, softirqs and steal time [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = sample)]
    sample: Option<Nanos>,
    /// Do not count interrupts, softirqs and steal time
    #[arg(long, conflicts_with = "sample")]
    no_sample: bool,
}

impl Counting {
    /// Returns the time for counting; `None` if nothing is counted.
    pub(crate) fn length(&self) -> Option<Nanos> {
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

/// Returns the state of this machine, with counts over the time `length`. In the counts, the CPUs
/// that `measured` returns are marked.
pub(crate) fn facts<E>(
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
pub(crate) fn load(path: &Path) -> Result<FactSet> {
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
    let text = match Budget::bytes(FACTS_LIMIT).read_text(path) {
        Err(FileError::TooLarge { .. }) => {
            return Err(UsageError(format!(
                "{} is too large for a file of facts: pass a file from punctual facts capture",
                path.display()
            ))
            .into());
        }
        text => text.with_context(cannot)?,
    };
    FactSet::from_json(&text).with_context(cannot)
}
