//! `compare`: tests recordings for differences.

use anyhow::{Result, ensure};
use clap::Parser;
use punctual_model::{Metric, Nanos, Recording, RecordingId, counted};
use punctual_report::{document, text};
use punctual_stats::{Change, CompareError, Comparison, Options, compare_runs};
use punctual_store::Store;

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::recordings::pieces;
use crate::verb::{Invalid, Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Compare>("compare");

const LONG: &str = "Compare recordings of one probe: percentiles, missed periods, samples above a \
    limit, and the probability that a wake-up in one recording is later than a wake-up in the \
    other. Also lists runs that are too short, and settings of the measurement and the machine \
    that differ.\n\n\
    compare BASELINE CANDIDATE compares two runs;\n\
    compare A1 A2 A3 A4 --with B1 B2 B3 B4 compares several runs per side.";

const AFTER: &str = concat!(
    "Two runs: wake-ups within one second share the same disturbances, so they are not \
     independent. Confidence intervals are computed by resampling blocks of the runs: rows of the \
     time series, joined until adjacent blocks are not correlated. The result is inconclusive if \
     there are fewer than ten blocks, or no time series (a histogram of another tool), or if a \
     percentile drifts too slowly for the length of the run. In recordings with every sample \
     (measure --samples, cyclictest -v), the samples themselves are divided into blocks. With one \
     run per side, the result holds only for these two runs. It does not cover differences between \
     boots of the same machine: repeat both runs before you blame a setting.\n\n\
     Several runs per side (--with): the unit of comparison is the run. An exact rank test \
     considers all assignments of the runs to the two sides. The test needs at least four runs per \
     side; with three, the smallest possible p is 0.1. Alternate the runs of baseline and \
     candidate: otherwise a drift of the machine looks like a difference.\n\n\
     All reported changes hold together with 95% confidence. Maxima are shown with their bound, \
     but not compared.\n\n",
    "Exit codes with --fail-on-worse:\n  \
     0  nothing is significantly worse\n  \
     1  the recordings were measured differently: not comparable\n  \
     3  something is worse\n  \
     4  not proven: some figures are inconclusive, and none is worse",
);

/// Test whether recordings differ, and by how much
#[derive(Parser)]
#[command(long_about = LONG, after_long_help = AFTER)]
struct Compare {
    /// Baseline and candidate; with --with, the runs of the baseline
    #[arg(value_name = "ID", required = true, num_args = 1..)]
    recordings: Vec<String>,
    /// Runs of the candidate, if each side has several runs
    #[arg(long, value_name = "ID", num_args = 1..)]
    with: Vec<String>,
    /// Percentiles to compare [default: p50,p90,p99,p99.9,p99.99]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = percentile)]
    quantiles: Option<Vec<f64>>,
    /// Compare the rate of samples at least this late
    #[arg(long, value_name = "TIME")]
    threshold: Option<Nanos>,
    /// Exit 3 if anything is worse, 4 if inconclusive
    #[arg(long)]
    fail_on_worse: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses a percentile such as `p99.9` or `99.9`, and returns it as a fraction.
fn percentile(text: &str) -> Result<f64, Invalid> {
    let named = if text.starts_with('p') {
        text.to_owned()
    } else {
        format!("p{text}")
    };
    match named.parse::<Metric>() {
        Ok(Metric::Percentile(percent)) => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is not a percentile such as p99.9").into()),
    }
}

/// Returns the runs of the baseline and those of the candidate from the command line.
///
/// # Errors
/// Without `--with`, returns an error unless there are exactly two recordings.
fn sides(first: Vec<String>, second: Vec<String>) -> Result<[Vec<String>; 2]> {
    match (first.as_slice(), second.is_empty()) {
        (_, false) => Ok([first, second]),
        ([baseline, candidate], true) => Ok([vec![baseline.clone()], vec![candidate.clone()]]),
        (some, true) => Err(UsageError(format!(
            "{} given: name a baseline and a candidate, or several runs per side as A1 A2 A3 A4 \
             --with B1 B2 B3 B4",
            counted(some.len() as u64, "recording", "recordings")
        ))
        .into()),
    }
}

/// Returns the recordings with these names.
///
/// # Errors
/// Returns an error if a recording was named twice: it cannot differ from itself.
fn found(store: &Store, named: &[Vec<String>; 2]) -> Result<[Vec<RecordingId>; 2]> {
    let mut seen: Vec<(RecordingId, &String)> = Vec::new();
    for selector in named.iter().flatten() {
        let id = store.find(selector)?;
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == id) {
            let both = if *first == selector {
                format!("'{selector}' was given twice")
            } else {
                format!(
                    "'{first}' and '{selector}' are the same recording, {}",
                    id.short()
                )
            };
            return Err(UsageError(format!(
                "{both}: name two recordings, such as last~1 and last (punctual list shows them)"
            ))
            .into());
        }
        seen.push((id, selector));
    }
    let mut ids = seen.into_iter().map(|(id, _)| id);
    let baseline = ids.by_ref().take(named[0].len()).collect();
    Ok([baseline, ids.collect()])
}

impl Run for Compare {
    fn run(self, context: &Context) -> Result<Exit> {
        let named = sides(self.recordings, self.with)?;
        let several = named.iter().any(|runs| runs.len() > 1);
        let store = context.store_to_read()?;
        let ids = found(&store, &named)?;
        let load = |id: &RecordingId| -> Result<Recording> {
            let mut recording = store.load(*id)?;
            if several {
                // The rows are large and are not needed to compare whole runs.
                recording.series.rows.clear()
            } else {
                pieces::instead_of_intervals(&store, &mut recording)?
            }
            Ok(recording)
        };
        let [baseline, candidate] =
            ids.map(|runs| runs.iter().map(load).collect::<Result<Vec<Recording>>>());
        let mut options = Options {
            threshold: self.threshold,
            ..Options::default()
        };
        if let Some(quantiles) = self.quantiles {
            options.quantiles = quantiles;
            options.quantiles.sort_by(f64::total_cmp);
            options.quantiles.dedup();
        }
        let (baseline, candidate) = (baseline?, candidate?);
        let (a, b): (Vec<&Recording>, Vec<&Recording>) =
            (baseline.iter().collect(), candidate.iter().collect());
        let comparison = compare_runs(&a, &b, &options).map_err(|error| match error {
            CompareError::NoThread { .. } => anyhow::Error::new(error),
            error => UsageError(error.to_string()).into(),
        })?;
        let exit = if self.fail_on_worse {
            judged(&comparison)
        } else {
            Ok(Exit::Done)
        };
        context.ends_with(*exit.as_ref().unwrap_or(&Exit::Failed));
        output::print(&if self.json {
            output::json(&comparison)
        } else {
            text::render(&document::comparison(&comparison), &context.style())
        })?;
        exit
    }
}

/// Returns the exit code of a comparison with --fail-on-worse.
fn judged(comparison: &Comparison) -> Result<Exit> {
    let differ: Vec<&str> = (comparison.measured_differently.iter())
        .map(|one| one.what.as_str())
        .collect();
    ensure!(
        differ.is_empty(),
        "not comparable: the recordings were measured differently ({}); repeat with identical \
         settings",
        differ.join(", ")
    );
    Ok(match comparison.change {
        Change::Worse => Exit::Broken,
        Change::Better | Change::NoneFound => Exit::Done,
        Change::Unknown => {
            output::note("not proven: the comparison does not show whether the candidate is worse");
            Exit::NotProven
        }
    })
}
