//! `measure`: one measurement, from the command line to the verdict.

mod options;

pub(super) use options::{help_of, run_length};

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use clap::ArgMatches;
use punctual_host::Host;
use punctual_loads::LoadRequest;
use punctual_model::{
    Arguments, Completion, CpuSet, Limit, Metric, Nanos, Outcome, ParameterKind, Policy,
    Requirement,
};
use punctual_probes::ProbeEntry;
use punctual_report::{document, text};
use punctual_session::{
    ExplainRequest, Level, PhaseRequest, RecordingSink, Request, RunLength, Session, SessionError,
    Tracemark, can_be_explained,
};

use super::{Verb, serve_load, serve_partner};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::live;
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb {
    command: options::command,
    run,
};

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
    let store = context.store_if_wanted()?;
    for warning in session.warnings() {
        output::note(warning);
    }
    let stop = stop_flag()?;
    let quiet = matches.get_flag("quiet");
    if let (Some(length), false) = (session.measured_before(), quiet) {
        output::note(&format!(
            "first, for {length}, the probe runs without and with trace events: what recording costs"
        ));
    }
    let mut view = live::view(quiet);
    let keep = store.as_ref().map(|store| store as &dyn RecordingSink);
    let outcome = session.run(keep, view.as_mut(), &stop)?;

    let recording = &outcome.recording;
    let to_stdout = json.as_ref().is_some_and(Output::is_stdout);
    if let Some(json) = json {
        json.put(output::json(recording)?.as_bytes())?;
    }
    if !to_stdout {
        let shown = document::recording(recording);
        output::print(&text::render(&shown, &context.style()))?;
    }
    if let Some(error) = outcome.store_error {
        return Err(error).context("the recording could not be kept whole");
    }
    if let Some(load) = recording.load.iter().find(|load| load.failed) {
        let how = load.ended_early.as_deref().unwrap_or_default();
        output::note(&format!("the load {} failed: {how}", load.name));
        return Ok(Exit::Failed);
    }
    Ok(match (recording.completion, recording.verdict.outcome) {
        (Completion::Break, _) | (_, Outcome::Broken) => Exit::Broken,
        (Completion::Stopped, _) => Exit::Interrupted,
        (_, Outcome::NotProven) => Exit::NotProven,
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
        deepest_idle_state: None,
        journal: None,
        partner: serve_partner::program(),
        label: matches.get_one::<String>("label").cloned(),
        command_line: std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
    })
}

/// What is to be explained: what is above the threshold, else above the break
/// value, else above the largest latency that is allowed.
fn explain(probe: &ProbeEntry, matches: &ArgMatches) -> Result<Option<ExplainRequest>> {
    let Some(level) = matches.get_one::<String>("explain") else {
        return Ok(None);
    };
    can_be_explained(probe)?;
    let given = |name: &str| matches.get_one::<Nanos>(name).copied();
    let threshold = given("threshold")
        .or_else(|| given("break"))
        .or_else(|| given("max-latency"))
        .ok_or_else(|| {
            UsageError(
                "--explain needs a limit: give --threshold 100us, --break or --max-latency"
                    .to_owned(),
            )
        })?;
    Ok(Some(ExplainRequest {
        threshold,
        level: match level.as_str() {
            "full" => Level::Full,
            _ => Level::Default,
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
        serve_load::in_subprocess(load)
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
