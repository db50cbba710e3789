//! `measure`: one measurement, from the command line to the verdict.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_host::Host;
use punctual_loads::{LOADS, LoadRequest};
use punctual_model::{
    Arguments, Completion, CpuSet, Limit, Metric, Nanos, Outcome, Parameter, ParameterKind, Policy,
    Requirement,
};
use punctual_probes::{PROBES, ProbeEntry};
use punctual_report::text;
use punctual_session::{
    ExplainRequest, Level, PhaseRequest, Request, RunLength, Session, SessionError, Tracemark,
};

use super::{Verb, parsed, serve_load};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::live;
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb { command, run };

/// The options that all probes share stand under this heading of the help.
const SHARED: &str = "Options of every measurement";

fn command() -> Command {
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
pub(super) fn help_of(parameter: &Parameter) -> String {
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
            .value_parser(parsed::<Nanos>())
            .help("Stop at the first latency above this; exit code 3"),
        Arg::new("tracemark")
            .long("tracemark")
            .action(ArgAction::SetTrue)
            .requires("break")
            .help("At the break, write a mark into the kernel's trace and stop the trace there"),
    ]
}

/// Of the probes whose outliers can be explained.
fn explaining_options(probe: &ProbeEntry) -> Vec<Arg> {
    if probe.explained.is_none() {
        return Vec::new();
    }
    vec![
        Arg::new("threshold")
            .long("threshold")
            .value_name("TIME")
            .value_parser(parsed::<Nanos>())
            .requires("explain")
            .help("Explain each latency above this; the run goes on [default: that of --break]"),
        Arg::new("explain")
            .long("explain")
            .value_name("HOW")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("usual")
            .value_parser(PossibleValuesParser::new(["usual", "full"]))
            .help("Say of each latency above --threshold or --break who took the time, from the kernel's trace events: the usual ones, or =full, which tell more and cost more"),
    ]
}

fn judging_options() -> [Arg; 3] {
    [
        Arg::new("max-latency")
            .long("max-latency")
            .value_name("TIME")
            .value_parser(parsed::<Nanos>())
            .help("Require that no latency is above this; exit code 3 when missed"),
        Arg::new("max-percentile")
            .long("max-percentile")
            .value_name("P=TIME")
            .value_parser(ValueParser::new(percentile_limit))
            .action(ArgAction::Append)
            .help("Require that a percentile is not above this: 99.9=50us"),
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
            .help("Time covered by a row of the time series [default: 1s, more for runs above 15 min, 5min for hours]"),
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

pub(super) fn run_length(text: &str) -> Result<RunLength, String> {
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
    if interval < Nanos::from_millis(100) {
        return Err(format!("rows of {interval} are too short: 100ms or more"));
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

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let (name, matches) = matches
        .subcommand()
        .ok_or_else(|| UsageError("no probe was given: see punctual measure --help".to_owned()))?;
    let probe = punctual_probes::probe(name).map_err(|error| UsageError(error.to_string()))?;
    let mut request = request(probe, matches)?;
    request.journal = context.journal();
    let json = matches.get_one::<PathBuf>("json");
    // What cannot be written is known before anything is measured.
    let json = json.map(|path| Output::open(path)).transpose()?;
    let session = Session::prepare(request, Host::live())?;
    let store = context.store()?;
    for warning in session.warnings() {
        output::note(warning);
    }
    let stop = stop_flag()?;
    let mut view = live::view(matches.get_flag("quiet"));
    let outcome = session.run(Some(&store), view.as_mut(), &stop)?;

    let recording = &outcome.recording;
    let to_stdout = matches!(json, Some(Output::Stdout));
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(recording)?;
        json.put(format!("{text}\n").as_bytes())?;
    }
    if !to_stdout {
        output::print(&text::summary(recording, &context.style()))?;
    }
    if let Some(error) = outcome.store_error {
        return Err(error).context("the recording could not be kept whole");
    }
    Ok(match (recording.completion, recording.verdict.outcome) {
        (Completion::Break, _) | (_, Outcome::Missed) => Exit::Missed,
        (Completion::Stopped, _) => Exit::Interrupted,
        // There was a limit, and nothing to hold against it.
        (_, Outcome::Unknown) => Exit::Failed,
        _ => Exit::Done,
    })
}

fn request(probe: &'static ProbeEntry, matches: &ArgMatches) -> Result<Request> {
    let given = probe
        .parameters
        .iter()
        .filter_map(|parameter| match parameter.kind {
            ParameterKind::Flag => matches
                .get_flag(parameter.name)
                .then_some((parameter.name, "yes")),
            _ => {
                let text = matches.get_one::<String>(parameter.name)?;
                Some((parameter.name, text.as_str()))
            }
        });
    let arguments = Arguments::check(probe.parameters, given)
        .map_err(|error| UsageError(format!("--{error}")))?;
    Ok(Request {
        probe,
        arguments,
        cpus: matches.get_one::<CpuSet>("cpus").cloned(),
        policy: matches.get_one::<Policy>("policy").copied(),
        priority: matches.get_one::<u8>("priority").copied(),
        phases: phases(matches)?,
        warm_up: matches.get_one::<Nanos>("warm-up").copied(),
        break_above: matches.get_one::<Nanos>("break").copied(),
        explain: explain(probe, matches)?,
        tracemark: matches.get_flag("tracemark").then_some(Tracemark::Nanos),
        requirement: requirement(matches),
        series_interval: matches.get_one::<Nanos>("series-interval").copied(),
        samples: matches.get_flag("samples"),
        sample_resolution: matches
            .get_one::<Nanos>("sample-resolution")
            .copied()
            .unwrap_or(Nanos(10)),
        dma_latency_us: matches
            .get_one::<Option<i32>>("dma-latency")
            .copied()
            .flatten(),
        journal: None,
        label: matches.get_one::<String>("label").cloned(),
        command_line: std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
    })
}

/// What is to be explained: what is above the threshold, else above the break
/// value.
fn explain(probe: &ProbeEntry, matches: &ArgMatches) -> Result<Option<ExplainRequest>> {
    if probe.explained.is_none() {
        return Ok(None);
    }
    let Some(level) = matches.get_one::<String>("explain") else {
        return Ok(None);
    };
    let given = |name: &str| matches.get_one::<Nanos>(name).copied();
    let threshold = given("threshold")
        .or_else(|| given("break"))
        .ok_or_else(|| {
            UsageError(
                "--explain does not say what is late: give --threshold 100us, or --break"
                    .to_owned(),
            )
        })?;
    Ok(Some(ExplainRequest {
        threshold,
        level: match level.as_str() {
            "full" => Level::Full,
            _ => Level::Usual,
        },
    }))
}

fn requirement(matches: &ArgMatches) -> Requirement {
    let max = matches
        .get_one::<Nanos>("max-latency")
        .map(|latency| Limit {
            metric: Metric::Max,
            at_most: latency.0,
        });
    let percentiles = matches
        .get_many::<Limit>("max-percentile")
        .into_iter()
        .flatten();
    let missed = matches.get_one::<u64>("max-missed").map(|missed| Limit {
        metric: Metric::Missed,
        at_most: *missed,
    });
    Requirement {
        limits: max
            .into_iter()
            .chain(percentiles.copied())
            .chain(missed)
            .collect(),
    }
}

fn loads(matches: &ArgMatches) -> Result<Vec<LoadRequest>, punctual_loads::LoadError> {
    let given = matches.get_many::<String>("load").into_iter().flatten();
    given
        .filter(|load| *load != "none")
        .map(|load| load.parse())
        .collect()
}

/// Those of `--phases`, or the one that the other options describe. Loads of
/// `--load` run in each.
fn phases(matches: &ArgMatches) -> Result<Vec<PhaseRequest>> {
    let loads = loads(matches).map_err(SessionError::from)?;
    let placed = |load: LoadRequest| {
        let load = match matches.get_one::<CpuSet>("load-cpus") {
            Some(cpus) => load.on_cpus(cpus),
            None => load,
        };
        serve_load::apart(load)
    };
    let loads: Vec<LoadRequest> = loads.into_iter().map(placed).collect();
    let Some(phases) = matches.get_one::<Phases>("phases") else {
        let length = matches.get_one::<RunLength>("duration").copied();
        return Ok(vec![PhaseRequest {
            name: None,
            length: length.unwrap_or(RunLength::Usual),
            loads,
        }]);
    };
    let mut phases = phases.0.clone();
    for phase in &mut phases {
        phase.loads = phase.loads.drain(..).map(placed).collect();
        phase.loads.extend(loads.iter().cloned());
    }
    Ok(phases)
}

/// The value of `--phases`.
#[derive(Clone)]
struct Phases(Vec<PhaseRequest>);

/// A flag that Ctrl-C, SIGTERM and SIGHUP set; the second of them ends the
/// program at once.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        // Handlers run in this order: the flag is not yet set at the first.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            Exit::Interrupted as i32,
            Arc::clone(&stop),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
