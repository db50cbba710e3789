//! The options of `measure`: those that all probes share, and those of each probe.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use punctual_loads::LOADS;
use punctual_model::{CpuSet, DurationError, MissLimit, Nanos, Parameter, ParameterKind, Policy};
use punctual_probes::{PROBES, ProbeEntry};
use punctual_session::{EventChoice, Level, PhaseError, PhaseRequest, RunLength};

use super::answering;
use crate::options::limits::Limits;
use crate::options::measuring::{LEVELS, run_length};
use crate::verb::{Invalid, named};

/// Heading in the help for the options that all probes share.
const SHARED: &str = "Options of every measurement";

pub(super) fn command() -> Command {
    Command::new("measure")
        .about("Measure how late this machine reacts, and store the recording")
        .arg_required_else_help(true)
        .arg(
            Arg::new("probe")
                .long("list")
                .value_name("PROBE")
                .num_args(0..=1)
                .default_missing_value("")
                .help("List the probes, or show the documentation of one probe"),
        )
        .args_conflicts_with_subcommands(true)
        .subcommand_value_name("PROBE")
        .subcommand_help_heading("Probes")
        .disable_help_subcommand(true)
        .subcommands(PROBES.iter().map(probe_command))
}

/// Returns the command line of a probe, based on its entry. The options are created only if the
/// probe is chosen, because the options of all probes would take up most of the memory at startup.
fn probe_command(probe: &'static ProbeEntry) -> Command {
    Command::new(probe.name)
        .about(format!("Measure {}", probe.summary))
        .defer(|command| {
            let probe = PROBES.iter().find(|probe| probe.name == command.get_name());
            match probe {
                Some(probe) => probe_options(probe, command),
                None => command,
            }
        })
}

fn probe_options(probe: &'static ProbeEntry, command: Command) -> Command {
    let command = command
        .long_about(format!(
            "Measure {}\n\n{}\n\nNeeds: {}.\nReplaces: {}.",
            probe.summary, probe.documentation, probe.privileges, probe.replaces
        ))
        .args(probe.options().map(parameter_option))
        .after_help(crate::exit::OF_MEASURE)
        .next_help_heading(SHARED);
    let command = RunOptions::augment_args(command);
    // Even if the outliers of a probe cannot be explained, the options are parsed, so that the
    // error can state the reason.
    let command = match probe.explained {
        Ok(_) => Explaining::augment_args(Threshold::augment_args(command)),
        Err(_) => Explaining::augment_args(command)
            .mut_arg("explain", |arg| arg.hide(true))
            .mut_arg("event", |arg| arg.hide(true)),
    };
    let command = SampleRetention::augment_args(Judging::augment_args(command));
    globals_last(answering::option(probe.name, command))
}

/// Makes the help list the options that all verbs share last. The parent command adds them before
/// the options of a probe are created, and headings are shown in the order of the options.
fn globals_last(command: Command) -> Command {
    let globals = command.get_arguments().filter(|arg| arg.is_global_set());
    let globals: Vec<_> = globals.map(|arg| arg.get_id().clone()).collect();
    // An option that is changed moves to the end.
    let last = |command: Command, id| command.mut_arg(id, |arg| arg);
    globals.into_iter().fold(command, last)
}

/// The options of every measurement.
pub(super) struct Options {
    pub(super) run: RunOptions,
    pub(super) threshold: Option<Nanos>,
    pub(super) explain: Option<Level>,
    pub(super) event: Vec<EventChoice>,
    pub(super) judging: Judging,
    pub(super) keeping: SampleRetention,
}

impl Options {
    pub(super) fn read(probe: &ProbeEntry, matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Explaining { explain, event } = Explaining::from_arg_matches(matches)?;
        Ok(Self {
            run: RunOptions::from_arg_matches(matches)?,
            threshold: match probe.explained {
                Ok(_) => Threshold::from_arg_matches(matches)?.threshold,
                Err(_) => None,
            },
            explain,
            event,
            judging: Judging::from_arg_matches(matches)?,
            keeping: SampleRetention::from_arg_matches(matches)?,
        })
    }
}

/// Returns the option for a parameter in the table of a probe.
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
        ParameterKind::Duration { .. } if parameter.is_period() => {
            arg.value_name("TIME|HZ").visible_alias("rate")
        }
        ParameterKind::Duration { .. } => arg.value_name("TIME"),
        ParameterKind::Count { .. } => arg.value_name("N"),
        ParameterKind::Choice(_) => arg.value_name("HOW"),
        ParameterKind::Text => arg.value_name("TEXT"),
    }
}

/// Returns the help of a parameter, with its choices.
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

// How it is measured.
#[derive(Args)]
pub(super) struct RunOptions {
    /// How long to measure, warm-up included: 10s, 5h33m, or forever [default: 10s]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = run_length)]
    pub(super) duration: Option<RunLength>,
    /// The CPUs to measure: 0-3,8 [default: all that this process may use]
    #[arg(short = 'a', long, value_name = "LIST")]
    pub(super) cpus: Option<CpuSet>,
    /// Scheduling policy of the measuring threads: other, batch, idle, fifo, rr [default: fifo
    /// where permitted, else other with a warning]
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Option<Policy>,
    /// Priority of the measuring threads, 1 to 99 [default: 95, or the highest permitted]
    #[arg(short, long, value_name = "N")]
    pub(super) priority: Option<u8>,
    /// Warm-up at the start, whose samples are discarded [default: 1s, at most a tenth of the run]
    #[arg(long, value_name = "TIME", value_parser = duration_or_zero)]
    pub(super) warm_up: Option<Nanos>,
    /// Run this shell command at a latency above --threshold, --break or --max-latency
    ///
    /// The command runs at most once a second, one instance at a time, and not in a measuring
    /// thread. Its environment contains PUNCTUAL_RECORDING, PUNCTUAL_CPU, PUNCTUAL_LATENCY_NS,
    /// PUNCTUAL_TID, PUNCTUAL_EXPECTED_NS (CLOCK_MONOTONIC), and with --explain PUNCTUAL_CAUSE. Its
    /// stdout is redirected to stderr. If it still runs 5 s after the end of the run, it is killed.
    #[arg(long, value_name = "CMD")]
    pub(super) on_outlier: Option<OsString>,
    #[arg(long, value_name = "LOAD", help = load_help())]
    pub(super) load: Vec<String>,
    /// CPUs of the loads that do not specify CPUs [default: all]
    #[arg(long, value_name = "LIST")]
    pub(super) load_cpus: Option<CpuSet>,
    /// Measure several conditions one after the other, each with its own histograms:
    /// idle:60s,cpu+disk:60s
    #[arg(long, value_name = "LIST", value_parser = phases, conflicts_with = "duration")]
    pub(super) phases: Option<Phases>,
    /// Limit the exit latency of idle CPUs while measuring (/dev/cpu_dma_latency); off for no
    /// limit
    #[arg(long, value_name = "TIME", value_parser = dma_latency, default_value = "0us")]
    pub(super) dma_latency: DmaLatency,
    /// Stop at the first latency above this; exit code 3
    #[arg(short, long = "break", value_name = "TIME", value_parser = break_value)]
    pub(super) break_above: Option<Nanos>,
    /// Measure even if another measurement uses these CPUs
    #[arg(long)]
    pub(super) share_cpus: bool,
    /// Measure inside this control group, as its applications run
    ///
    /// The whole program joins the group before it measures: its threads run on the group's CPUs
    /// and share its quota. It leaves the group at the end, even if it is killed. PATH is the name
    /// of the group as in /proc/PID/cgroup, or its folder below /sys/fs/cgroup. Loads run outside
    /// of the group, in the original group of the program.
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup: Option<String>,
    /// At the break, mark the kernel's trace and stop it
    #[arg(long, requires = "break_above")]
    pub(super) tracemark: bool,
}

/// The value of `--phases`.
#[derive(Clone)]
pub(super) struct Phases(pub(super) Vec<PhaseRequest>);

/// The value of `--dma-latency` in µs; `None` sets no limit.
#[derive(Clone, Copy)]
pub(super) struct DmaLatency(pub(super) Option<i32>);

// Above which latency samples are explained.
#[derive(Args)]
struct Threshold {
    /// Limit for --explain and --on-outlier [default: --break, else --max-latency]
    #[arg(long, value_name = "TIME")]
    threshold: Option<Nanos>,
}

// From which events.
#[derive(Args)]
struct Explaining {
    /// Name the cause of each latency above --threshold or --break; =full records more events
    #[arg(long, value_name = "HOW", value_parser = named(LEVELS.to_vec()))]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "usual")]
    explain: Option<Level>,
    /// Also record this trace event, and show it with each outlier
    #[arg(long, value_name = "SYS:EVENT[/FILTER/]", requires = "explain")]
    event: Vec<EventChoice>,
}

// The requirement of the measurement.
#[derive(Args)]
pub(super) struct Judging {
    #[command(flatten)]
    pub(super) limits: Limits,
    /// Require at most M late periods in any K consecutive periods: 2/100
    #[arg(
        long,
        value_name = "M/K",
        requires = "budget",
        allow_negative_numbers = true
    )]
    pub(super) misses: Option<MissLimit>,
    /// Latest start of a period for --misses; a later or missed period is late
    #[arg(long, value_name = "TIME", requires = "misses")]
    pub(super) budget: Option<Nanos>,
}

// Options for storing and showing the result.
#[derive(Args)]
pub(super) struct SampleRetention {
    /// Keep every sample
    #[arg(long)]
    pub(super) samples: bool,
    /// Round kept samples down to a multiple of this; 10ns saves about a third of the space
    /// [default: 1ns]
    #[arg(long, value_name = "TIME", value_parser = sample_resolution, requires = "samples")]
    pub(super) sample_resolution: Option<Nanos>,
    /// Time covered by a row of the time series [default: 50ms to 5min, depending on the length of
    /// the run]
    #[arg(long, value_name = "TIME", value_parser = series_interval)]
    pub(super) series_interval: Option<Nanos>,
    /// Name of the recording, shown in lists and plots
    #[arg(long, value_name = "TEXT", value_parser = crate::options::select::label)]
    pub(super) label: Option<String>,
    /// Write the recording as JSON to FILE; without FILE, to stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<PathBuf>,
    /// Show no progress, only the result
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Show an interactive view: live histogram, outliers with their causes, keys
    #[arg(long, conflicts_with = "quiet")]
    pub(super) tui: bool,
    /// Show all figures, as `punctual show` does, and not only a screenful
    #[arg(short, long)]
    pub(super) verbose: bool,
}

fn phases(text: &str) -> Result<Phases, PhaseError> {
    PhaseRequest::read_all(text).map(Phases)
}

fn load_help() -> String {
    let loads: Vec<String> = LOADS
        .iter()
        .map(|load| format!("{} ({})", load.name, load.summary))
        .collect();
    format!(
        "Background load, can be repeated: {}, or none; for example command:'make -j8'",
        loads.join(", ")
    )
}

/// Parses a break value. Zero is rejected, because every sample is above zero, so the first sample
/// would end the run.
fn break_value(text: &str) -> Result<Nanos, Invalid> {
    match text.parse()? {
        Nanos::ZERO => Err(format!(
            "a break value of {text} stops at the first sample: give a latency above 0, such as 100us"
        )
        .into()),
        value => Ok(value),
    }
}

/// Parses a duration. A zero does not need a unit.
fn duration_or_zero(text: &str) -> Result<Nanos, DurationError> {
    match text {
        "0" => Ok(Nanos::ZERO),
        _ => text.parse(),
    }
}

fn sample_resolution(text: &str) -> Result<Nanos, Invalid> {
    let step: Nanos = text.parse()?;
    if step != Nanos::ZERO && 1_000_u64.is_multiple_of(step.0) {
        Ok(step)
    } else {
        Err(format!(
            "{step} does not divide a microsecond evenly: use a value such as 1ns, 10ns or \
            100ns"
        )
        .into())
    }
}

fn series_interval(text: &str) -> Result<Nanos, Invalid> {
    let interval: Nanos = text.parse()?;
    if interval < Nanos::from_millis(50) {
        Err(format!("rows of {interval} are too short: use 50ms or more").into())
    } else {
        Ok(interval)
    }
}

fn dma_latency(text: &str) -> Result<DmaLatency, Invalid> {
    if text == "off" {
        return Ok(DmaLatency(None));
    }
    let latency = duration_or_zero(text)?;
    let micros = i32::try_from(latency.whole_micros())
        .map_err(|_| format!("{latency} is above the exit latency of any idle state"))?;
    Ok(DmaLatency(Some(micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_every_probe_are_read() {
        for probe in PROBES {
            let read = |line: &str| {
                let words = [probe.name].into_iter().chain(line.split_whitespace());
                let matches = probe_command(probe).try_get_matches_from(words)?;
                Options::read(probe, &matches)
            };
            let usual = read("").unwrap();
            assert_eq!(usual.run.dma_latency.0, Some(0), "{}", probe.name);
            assert_eq!((usual.threshold, usual.explain), (None, None));
            let given =
                read("-p 3 --dma-latency off --load cpu --load disk --explain=full").unwrap();
            assert_eq!(
                (given.run.priority, given.run.dma_latency.0),
                (Some(3), None)
            );
            assert_eq!(given.run.load, ["cpu", "disk"]);
            assert_eq!(given.explain, Some(Level::Full));
            // The option for the limit exists only if the outliers of the probe can be explained.
            let limited = read("--explain --threshold 50us").map(|given| given.threshold);
            match probe.explained {
                Ok(_) => assert_eq!(limited.unwrap(), Some(Nanos::from_micros(50))),
                Err(_) => assert_eq!(limited.ok().flatten(), None, "{}", probe.name),
            }
        }
    }
}
