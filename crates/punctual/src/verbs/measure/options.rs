//! The options of `measure`: those of all probes, and those of each.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, Command, value_parser};
use punctual_loads::LOADS;
use punctual_model::{CpuSet, Limit, Metric, Nanos, Parameter, ParameterKind, Policy};
use punctual_probes::{PROBES, ProbeEntry};
use punctual_session::{PhaseRequest, RunLength};

use super::Phases;
use crate::verbs::parsed;

/// The options that all probes share stand under this heading of the help.
const SHARED: &str = "Options of every measurement";

pub(super) fn command() -> Command {
    Command::new("measure")
        .about("Measure this machine, keep the recording, judge it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand_value_name("PROBE")
        .subcommand_help_heading("Probes")
        .disable_help_subcommand(true)
        .subcommands(PROBES.iter().map(probe_command))
}

/// The command line of one probe, from its entry.
fn probe_command(probe: &'static ProbeEntry) -> Command {
    Command::new(probe.name)
        .about(format!("Measure {}", probe.summary))
        .long_about(format!(
            "Measure {}\n\n{}\n\nNeeds: {}.\nReplaces: {}.",
            probe.summary, probe.documentation, probe.privileges, probe.replaces
        ))
        .args(probe.parameters.iter().map(parameter_option))
        .next_help_heading(SHARED)
        .args(run_options())
        .args(explaining_options(probe))
        .args(judging_options())
        .args(keeping_options())
        .after_help(crate::exit::HELP)
}

/// An option of a probe, from its table.
fn parameter_option(parameter: &'static Parameter) -> Arg {
    let mut help = help_of(parameter);
    if let (false, Some(default)) = (
        matches!(parameter.kind, ParameterKind::Flag),
        parameter.default,
    ) {
        help = format!("{help} [default: {default}]");
    }
    let arg = Arg::new(parameter.name).long(parameter.name).help(help);
    let arg = match parameter.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match parameter.kind {
        ParameterKind::Flag => arg.action(ArgAction::SetTrue),
        ParameterKind::Duration { .. } => arg.value_name("TIME"),
        ParameterKind::Count { .. } => arg.value_name("N"),
        ParameterKind::Choice(_) => arg.value_name("HOW"),
        ParameterKind::Text => arg.value_name("TEXT"),
    }
}

/// What a parameter does, with its choices.
pub(in crate::verbs) fn help_of(parameter: &Parameter) -> String {
    let mut help = parameter.help.to_owned();
    if let ParameterKind::Choice(choices) = parameter.kind {
        let words: Vec<String> = choices
            .iter()
            .map(|(word, meaning)| format!("{word} ({meaning})"))
            .collect();
        help = format!("{help}: {}", words.join(", "));
    }
    help
}

fn run_options() -> [Arg; 11] {
    [
        Arg::new("duration")
            .short('D')
            .long("duration")
            .value_name("TIME")
            .value_parser(ValueParser::new(run_length))
            .help("How long to measure, warm-up included: 10s, 5h33m, or forever [default: 10s]"),
        Arg::new("cpus")
            .short('a')
            .long("cpus")
            .value_name("LIST")
            .value_parser(parsed::<CpuSet>())
            .help("The CPUs to measure: 0-3,8 [default: all that this process may use]"),
        Arg::new("policy")
            .long("policy")
            .value_name("POLICY")
            .value_parser(parsed::<Policy>())
            .help("Scheduling policy of the measuring threads: other, batch, idle, fifo, rr [default: fifo where permitted, else other with a warning]"),
        Arg::new("priority")
            .short('p')
            .long("priority")
            .value_name("N")
            .value_parser(value_parser!(u8))
            .help("Their priority, 1 to 99 [default: 95, or the highest permitted]"),
        Arg::new("warm-up")
            .long("warm-up")
            .value_name("TIME")
            .value_parser(ValueParser::new(duration_or_zero))
            .help("Discard the samples of this long at the start [default: 1s, at most a tenth of the run]"),
        Arg::new("load")
            .long("load")
            .value_name("LOAD")
            .action(ArgAction::Append)
            .help(load_help()),
        Arg::new("load-cpus")
            .long("load-cpus")
            .value_name("LIST")
            .value_parser(parsed::<CpuSet>())
            .help("The CPUs that loads run on, where they do not say it themselves [default: all]"),
        Arg::new("phases")
            .long("phases")
            .value_name("LIST")
            .value_parser(ValueParser::new(|text: &str| {
                PhaseRequest::read_all(text).map(Phases).map_err(|error| error.to_string())
            }))
            .conflicts_with("duration")
            .help("Measure several conditions one after the other, each with its own histograms: idle:60s,cpu+disk:60s"),
        Arg::new("dma-latency")
            .long("dma-latency")
            .value_name("TIME")
            .value_parser(ValueParser::new(dma_latency))
            .default_value("0us")
            .help("Ask the CPUs for this exit latency at most while measuring (/dev/cpu_dma_latency), or off to leave them alone"),
        Arg::new("break")
            .short('b')
            .long("break")
            .value_name("TIME")
            .value_parser(ValueParser::new(break_value))
            .help("Stop at the first latency above this; exit code 3"),
        Arg::new("tracemark")
            .long("tracemark")
            .action(ArgAction::SetTrue)
            .requires("break")
            .help("At the break, write a mark into the kernel's trace and stop the trace there"),
    ]
}

/// Where outliers of the probe cannot be explained, to ask for it is still
/// understood: the refusal says why.
fn explaining_options(probe: &ProbeEntry) -> Vec<Arg> {
    let explain = Arg::new("explain")
        .long("explain")
        .value_name("HOW")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("usual")
        .value_parser(PossibleValuesParser::new(["usual", "full"]))
        .hide(probe.explained.is_err())
        .help("Say of each latency above --threshold or --break who took the time, from the kernel's trace events: the usual ones, or =full, which tell more and cost more");
    if probe.explained.is_err() {
        return vec![explain];
    }
    let threshold = Arg::new("threshold")
        .long("threshold")
        .value_name("TIME")
        .value_parser(parsed::<Nanos>())
        .requires("explain")
        .help("Explain each latency above this; the run goes on [default: --break, else --max-latency]");
    vec![threshold, explain]
}

fn judging_options() -> [Arg; 3] {
    [
        Arg::new("max-latency")
            .long("max-latency")
            .value_name("TIME")
            .value_parser(parsed::<Nanos>())
            .help("Require that no latency is above this; exit code 3 if broken"),
        Arg::new("max-percentile")
            .long("max-percentile")
            .value_name("P=TIME")
            .value_parser(ValueParser::new(percentile_limit))
            .action(ArgAction::Append)
            .help("Require that a percentile of the due periods is at most this: 99.9=50us"),
        Arg::new("max-missed")
            .long("max-missed")
            .value_name("N")
            .value_parser(value_parser!(u64))
            .help("Require that no thread misses more periods than this"),
    ]
}

fn keeping_options() -> [Arg; 6] {
    [
        Arg::new("samples")
            .long("samples")
            .action(ArgAction::SetTrue)
            .help("Keep every sample"),
        Arg::new("sample-resolution")
            .long("sample-resolution")
            .value_name("TIME")
            .value_parser(ValueParser::new(sample_resolution))
            .requires("samples")
            .help("Round kept samples down to a multiple of this; 1ns keeps them exactly, and larger [default: 10ns, less than reading the clock takes]"),
        Arg::new("series-interval")
            .long("series-interval")
            .value_name("TIME")
            .value_parser(ValueParser::new(series_interval))
            .help("Time covered by a row of the time series [default: by the length of the run, 50ms to 5min]"),
        Arg::new("label")
            .long("label")
            .value_name("TEXT")
            .help("A name for the recording, shown in lists and plots"),
        Arg::new("json")
            .long("json")
            .value_name("FILE")
            .num_args(0..=1)
            .default_missing_value("-")
            .value_parser(value_parser!(PathBuf))
            .help("Write the recording as JSON to FILE, or to stdout in place of the text"),
        Arg::new("quiet")
            .short('q')
            .long("quiet")
            .action(ArgAction::SetTrue)
            .help("No live view, only the result"),
    ]
}

fn load_help() -> String {
    let loads: Vec<String> = LOADS
        .iter()
        .map(|load| format!("{} ({})", load.name, load.summary))
        .collect();
    format!(
        "Disturb the machine meanwhile, may be given several times: {}, or none; for example command:'make -j8'",
        loads.join(", ")
    )
}

pub(in crate::verbs) fn run_length(text: &str) -> Result<RunLength, String> {
    if text == "forever" {
        return Ok(RunLength::UntilStopped);
    }
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => {
            Err("a run of no length measures nothing (forever: until Ctrl-C)".to_owned())
        }
        Ok(duration) => Ok(RunLength::For(duration)),
        Err(error) => Err(error.to_string()),
    }
}

/// Each sample is above zero: the run would end with the first.
fn break_value(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => Err(format!(
            "a break value of {text} stops at the first sample: give a latency above 0, such as 100us"
        )),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

/// Zero needs no unit.
fn duration_or_zero(text: &str) -> Result<Nanos, String> {
    match text {
        "0" => Ok(Nanos::ZERO),
        _ => text.parse::<Nanos>().map_err(|error| error.to_string()),
    }
}

fn sample_resolution(text: &str) -> Result<Nanos, String> {
    let step: Nanos = text
        .parse()
        .map_err(|error: punctual_model::DurationError| error.to_string())?;
    if step == Nanos::ZERO || !1_000_u64.is_multiple_of(step.0) {
        return Err(format!(
            "{step} does not divide a microsecond: 1ns, 10ns, 100ns or the like"
        ));
    }
    Ok(step)
}

fn series_interval(text: &str) -> Result<Nanos, String> {
    let interval: Nanos = text
        .parse()
        .map_err(|error: punctual_model::DurationError| error.to_string())?;
    if interval < Nanos::from_millis(50) {
        return Err(format!(
            "rows of {interval} are too short: use 50ms or more"
        ));
    }
    Ok(interval)
}

/// `None`: leave the CPUs alone.
fn dma_latency(text: &str) -> Result<Option<i32>, String> {
    if text == "off" {
        return Ok(None);
    }
    let latency = duration_or_zero(text)?;
    i32::try_from(latency.whole_micros())
        .map(Some)
        .map_err(|_| format!("{latency} is longer than any idle state takes"))
}

fn percentile_limit(text: &str) -> Result<Limit, String> {
    let (percentile, time) = text.split_once('=').ok_or_else(|| {
        format!("'{text}' is not a percentile and a time: write for example 99.9=50us")
    })?;
    let metric: Metric = format!("p{}", percentile.trim_start_matches('p'))
        .parse()
        .map_err(|error: punctual_model::MetricError| error.to_string())?;
    let Nanos(at_most) = time
        .parse()
        .map_err(|error: punctual_model::DurationError| error.to_string())?;
    Ok(Limit { metric, at_most })
}
