//! `compare`: whether one recording is earlier or later than another.

mod pieces;

use anyhow::{Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};
use punctual_model::{Metric, Nanos, Recording};
use punctual_report::text;
use punctual_stats::{Change, Comparison, Options, compare};

use super::{Verb, parsed};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("compare")
        .about("Compare two recordings: is one later, by how much, and how sure is that")
        .long_about(
            "Compares two recordings of one probe: percentiles, missed periods, samples above a \
             limit, and how likely a wake-up of one is later than one of the other. Says first in \
             what the measurements and the machines differ.",
        )
        .after_long_help(
            "Wake-ups of one second share what disturbs them, so they are no independent witnesses. \
             Intervals are made of whole stretches of the runs: the intervals of the time series, \
             joined until neighbours do not resemble each other, drawn anew with replacement. With \
             fewer than ten stretches, or without a time series (a histogram of another tool), they \
             are unknown, and no difference is claimed; nor is it of a figure that comes and goes \
             too slowly for so short a run. Of recordings with every sample \
             (measure --samples, cyclictest -v) the samples are cut into stretches.\n\n\
             What is called later or earlier holds for all lines together with 95% confidence. \
             Maxima are shown with what they are worth, and not compared.\n\n\
             One run of each tells these two runs apart. What changes from one start of the same \
             machine to the next (where memory lies, what else was started) is in neither: before \
             you blame a setting, repeat both.",
        )
        .arg(recording("baseline", "BASELINE"))
        .arg(recording("candidate", "CANDIDATE"))
        .arg(
            Arg::new("quantiles")
                .long("quantiles")
                .value_name("LIST")
                .value_delimiter(',')
                .value_parser(percentile)
                .help("Percentiles, such as p50,p99.9 [default: p50,p90,p99,p99.9,p99.99]"),
        )
        .arg(
            Arg::new("threshold")
                .long("threshold")
                .value_name("DURATION")
                .value_parser(parsed::<Nanos>())
                .help("Count the samples that are at least this late, per million"),
        )
        .arg(
            Arg::new("fail-on-worse")
                .long("fail-on-worse")
                .action(ArgAction::SetTrue)
                .help(
                    "Exit code 3 where the candidate is worse in anything; recordings that were \
                     measured differently are refused",
                ),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("As JSON (punctual schema comparison)"),
        )
}

fn recording(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name)
        .value_name(value)
        .required(true)
        .help("A recording: an ID, its beginning or end, `last` or `last~N`")
}

/// `p99.9` or `99.9`, as a share.
fn percentile(text: &str) -> Result<f64, String> {
    let named = match text.starts_with('p') {
        true => text.to_owned(),
        false => format!("p{text}"),
    };
    match named.parse::<Metric>() {
        Ok(Metric::Percentile(percent)) => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is no percentile such as p99.9")),
    }
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let store = context.store_to_read()?;
    let load = |name: &str| -> Result<Recording> {
        let selector = matches.get_one::<String>(name).map_or("", String::as_str);
        let mut recording = store.load(store.find(selector)?)?;
        pieces::instead_of_intervals(&store, &mut recording)?;
        Ok(recording)
    };
    let (baseline, candidate) = (load("baseline")?, load("candidate")?);
    let mut options = Options {
        threshold: matches.get_one::<Nanos>("threshold").copied(),
        ..Options::default()
    };
    if let Some(quantiles) = matches.get_many::<f64>("quantiles") {
        options.quantiles = quantiles.copied().collect();
        options.quantiles.sort_by(f64::total_cmp);
        options.quantiles.dedup();
    }
    let comparison = compare(&baseline, &candidate, &options)
        .map_err(|error| anyhow::Error::new(UsageError(error.to_string())))?;
    output::print(&if matches.get_flag("json") {
        output::json(&comparison)?
    } else {
        text::comparison(&comparison, &context.style())
    })?;
    match matches.get_flag("fail-on-worse") {
        true => judged(&comparison),
        false => Ok(Exit::Done),
    }
}

/// The exit code of a comparison that is to fail where it is worse.
fn judged(comparison: &Comparison) -> Result<Exit> {
    let differ: Vec<&str> = (comparison.measured_differently.iter())
        .map(|one| one.what.as_str())
        .collect();
    ensure!(
        differ.is_empty(),
        "these were measured differently ({}), so nothing follows for the machine: measure both \
         alike",
        differ.join(", ")
    );
    match comparison.change {
        Change::Worse => Ok(Exit::Missed),
        Change::Better | Change::NoneFound => Ok(Exit::Done),
        Change::Unknown => anyhow::bail!(
            "whether the candidate is worse is not known: see the lines that say 'unknown'"
        ),
    }
}
