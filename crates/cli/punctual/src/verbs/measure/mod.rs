//! `measure`: runs one measurement, from the command line to the verdict.

mod answering;
mod listing;
mod options;

use anyhow::{Context as _, Result};
use clap::ArgMatches;
use punctual_host::Host;
use punctual_loads::LoadRequest;
use punctual_model::{Arguments, Completion, Limit, Nanos, ParameterKind, Requirement, Role};
use punctual_probes::ProbeEntry;
use punctual_report::{document, text};
use punctual_session::{
    CpuLocks, ExplainRequest, LimitRequest, MachineRequest, Membership, OnOutlier, PhaseRequest,
    RecordingRequest, RecordingSink, Request, RunLength, SeriesRequest, Session, ThreadRequest,
    Tracemark, can_be_explained,
};

use options::{Judging, Options, RunOptions};

use crate::context::Context;
use crate::exit::{self, Exit, UsageError};
use crate::live;
use crate::options::measuring::loads;
use crate::output::{self, Output};
use crate::processes::{serve_load, serve_partner};
use crate::running::{become_command, stop_flag};
use crate::tui::{self, Trial};
use crate::verb::{Verb, command_line};

pub(super) const VERB: Verb = Verb {
    name: "measure",
    options: options::command,
    run,
};

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    if let Some(name) = matches.get_one::<String>("probe") {
        return listing::print(name, context);
    }
    let (name, matches) = matches
        .subcommand()
        .ok_or_else(|| UsageError("no probe was given: see punctual measure --help".to_owned()))?;
    let probe = punctual_probes::probe(name).map_err(|error| UsageError(error.to_string()))?;
    if let Some(listen) = answering::requested(probe.name, matches) {
        return answering::serve(&listen);
    }
    let options = Options::read(probe, matches)?;
    let (json, quiet) = (options.keeping.json.clone(), options.keeping.quiet);
    let is_interactive = options.keeping.tui;
    if is_interactive {
        tui::need_terminal()?;
    }
    let verbose = options.keeping.verbose;
    let (share, cgroup) = (options.run.share_cpus, options.run.cgroup.clone());
    let arguments = arguments(probe, matches)?;
    let mut request = request(probe, arguments, options)?;
    let trial =
        trial(&request, given(probe, matches)).filter(|_| is_interactive && cgroup.is_none());
    request.machine.journal = crate::context::journal();
    // Join the group first, so that the session finds the CPUs and privileges of the group.
    let membership = cgroup.map(|path| Membership::join(&Host::live(), &path));
    let membership = membership.transpose()?;
    if let Some(joined) = &membership {
        request.threads.group = Some(joined.facts().clone());
        for load in request.phases.iter_mut().flat_map(|phase| &mut phase.loads) {
            *load = load.clone().outside(joined.outside());
        }
    }
    // Open the file now, so that an unwritable file is reported before the measurement.
    let json = json.map(|path| Output::open(&path)).transpose()?;
    let session = Session::prepare(request, Host::live())?;
    let store = context.store_to_record()?;
    for warning in session.warnings() {
        output::note(warning);
    }
    let cpus = if share {
        None
    } else {
        Some(session.hold_cpus(&crate::context::cpu_locks())?)
    };
    (cpus.iter().filter_map(CpuLocks::refusal)).for_each(output::note);
    let stop = stop_flag()?;
    if let (Some(length), false) = (session.measured_before(), quiet) {
        output::note(&format!(
            "first, the probe runs for {length} without and with trace events, to measure the cost \
             of recording the events"
        ));
    }
    let told: Vec<String> = session.warnings().to_vec();
    let mut view = if is_interactive {
        tui::view(&stop, trial.clone(), store.as_ref())
    } else {
        live::view(quiet)
    };
    let keep = store.as_ref().map(|store| store as &dyn RecordingSink);
    let outcome = session.run(keep, view.as_mut(), &stop)?;

    let recording = &outcome.recording;
    let exit = exit::of_recording(recording);
    context.stored(exit, outcome.store_error.is_none() && store.is_some());
    let to_stdout = json.as_ref().is_some_and(Output::is_stdout);
    if let Some(json) = json {
        json.put(output::json(&recording.in_words()).as_bytes())?;
    }
    if to_stdout && recording.completion == Completion::Interrupted {
        // Without the report, nothing else says why the command fails.
        let new = |warning: &&String| !told.contains(warning);
        (recording.warnings.iter().filter(new)).for_each(|warning| output::note(warning));
    }
    if !to_stdout {
        let shown = if verbose {
            document::recording(recording)
        } else {
            document::summary(recording)
        };
        output::print(&text::render(&shown, &context.style()))?;
    }
    if let Some(error) = outcome.store_error {
        return Err(error).context("the recording could not be stored completely");
    }
    if let Some(words) = trial.as_ref().and_then(Trial::chosen) {
        drop(cpus);
        return Err(become_command(&words).into());
    }
    if let Some(load) = recording.load.iter().find(|load| load.failed) {
        let how = load.ended_early.as_deref().unwrap_or_default();
        output::note(&format!("the load {} failed: {how}", load.name));
    }
    Ok(exit)
}

/// Returns how the remedy of an outlier can be tried: by an experiment that measures the same. `None`
/// for an ordinary user, who may change nothing, and without explained outliers.
fn trial<'m>(request: &Request, given: impl Iterator<Item = (&'m str, &'m str)>) -> Option<Trial> {
    let explain = request.explain.as_ref()?;
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut options = vec!["--probe".to_owned(), request.probe.name.to_owned()];
    options.extend([
        "--threshold".to_owned(),
        format!("{}ns", explain.threshold.0),
    ]);
    for (name, value) in given {
        options.extend(["--parameter".to_owned(), format!("{name}={value}")]);
    }
    let threads = &request.threads;
    let threads = [
        ("--cpus", threads.cpus.as_ref().map(ToString::to_string)),
        ("--policy", threads.policy.as_ref().map(ToString::to_string)),
        (
            "--priority",
            threads.priority.as_ref().map(ToString::to_string),
        ),
    ];
    for (option, value) in threads {
        options.extend(
            value
                .into_iter()
                .flat_map(|value| [option.to_owned(), value]),
        );
    }
    let loads = request.phases.iter().flat_map(|phase| &phase.loads);
    options.extend(loads.flat_map(|load| ["--load".to_owned(), load.text().to_owned()]));
    Some(Trial::new(options, crate::audit::settings_against))
}

/// Returns the parameters of the probe that are on the command line.
fn given<'m>(
    probe: &'static ProbeEntry,
    matches: &'m ArgMatches,
) -> impl Iterator<Item = (&'m str, &'m str)> {
    probe
        .options()
        .filter_map(|parameter| match parameter.kind {
            ParameterKind::Flag => matches
                .get_flag(parameter.name)
                .then_some((parameter.name, "yes")),
            _ => {
                let text = matches.get_one::<String>(parameter.name)?;
                Some((parameter.name, text.as_str()))
            }
        })
}

/// Returns the values of the parameters that are specific to the probe.
fn arguments(probe: &'static ProbeEntry, matches: &ArgMatches) -> Result<Arguments> {
    let arguments = Arguments::check(probe.parameters, given(probe, matches)).map_err(|error| {
        let text = format!("--{error}");
        // The parser does not tell which name of the period was given.
        let period = probe.options().find(|parameter| parameter.is_period());
        let rest = period.and_then(|one| text.strip_prefix(&format!("--{}", one.name)));
        let is_rate = |word: &String| word == "--rate" || word.starts_with("--rate=");
        UsageError(match rest {
            Some(rest) if command_line().iter().any(is_rate) => format!("--rate{rest}"),
            _ => text,
        })
    })?;
    Ok(arguments)
}

fn request(probe: &'static ProbeEntry, arguments: Arguments, options: Options) -> Result<Request> {
    let phases = phases(&options.run)?;
    let explain = explain(probe, &options)?;
    let on_outlier = on_outlier(&options)?;
    let Options {
        run,
        judging,
        keeping,
        ..
    } = options;
    let resolution = (keeping.sample_resolution).unwrap_or(Request::SAMPLE_RESOLUTION);
    Ok(Request {
        partner: serve_partner::program(),
        threads: ThreadRequest {
            cpus: run.cpus,
            policy: run.policy,
            priority: run.priority,
            group: None,
        },
        warm_up: run.warm_up,
        limits: LimitRequest {
            break_above: run.break_above,
            tracemark: run.tracemark.then_some(Tracemark::Nanos),
            on_outlier,
            requirement: requirement(&judging),
        },
        explain,
        series: SeriesRequest {
            interval: keeping.series_interval,
            samples: (keeping.samples).then_some(resolution),
        },
        machine: MachineRequest {
            dma_latency_us: run.dma_latency.0,
            audit: Some(Role::default()),
            ..MachineRequest::default()
        },
        recording: RecordingRequest {
            label: keeping.label,
            command_line: command_line(),
        },
        ..Request::new(probe, arguments, phases)
    })
}

/// Returns which samples to explain: those above the threshold. If no threshold is given, the break
/// value takes its place, or else the maximum latency that is allowed.
fn explain(probe: &ProbeEntry, options: &Options) -> Result<Option<ExplainRequest>> {
    let Some(level) = options.explain else {
        return Ok(None);
    };
    can_be_explained(probe)?;
    let threshold = threshold_for(options, "--explain")?;
    Ok(Some(ExplainRequest {
        threshold,
        level,
        events: options.event.clone(),
    }))
}

/// Returns the threshold for an option that cannot work without one. A break threshold or a limit
/// of the requirement serves as one.
fn threshold_for(options: &Options, option: &str) -> Result<Nanos> {
    let threshold = (options.threshold)
        .or(options.run.break_above)
        .or(options.judging.limits.max_latency);
    Ok(threshold.ok_or_else(|| {
        UsageError(format!(
            "{option} needs a limit: give --threshold 100us, --break or --max-latency"
        ))
    })?)
}

fn on_outlier(options: &Options) -> Result<Option<OnOutlier>> {
    let Some(command) = options.run.on_outlier.clone() else {
        if options.threshold.is_some() && options.explain.is_none() {
            let wrong = "--threshold is the limit of --explain and --on-outlier: give one of them";
            return Err(UsageError(wrong.to_owned()).into());
        }
        return Ok(None);
    };
    let threshold = threshold_for(options, "--on-outlier")?;
    Ok(Some(OnOutlier { command, threshold }))
}

fn requirement(judging: &Judging) -> Requirement {
    let windows = judging.misses.zip(judging.budget);
    let windows = windows.map(|(misses, budget)| Limit::of_misses(misses, budget));
    judging.limits.requirement(windows)
}

/// Returns the phases given with `--phases`, or else the single phase that the other options
/// describe. The loads given with `--load` run in every phase.
fn phases(run: &RunOptions) -> Result<Vec<PhaseRequest>> {
    let placed = |load: LoadRequest| {
        let load = match &run.load_cpus {
            Some(cpus) => load.on_cpus(cpus),
            None => load,
        };
        serve_load::in_subprocess(load)
    };
    let loads: Vec<LoadRequest> = loads(&run.load)?.into_iter().map(placed).collect();
    let Some(phases) = &run.phases else {
        let length = run.duration.unwrap_or(RunLength::Usual);
        return Ok(vec![PhaseRequest::only(length, loads)]);
    };
    let mut phases = phases.0.clone();
    for phase in &mut phases {
        phase.loads = phase.loads.drain(..).map(placed).collect();
        phase.loads.extend(loads.iter().cloned());
    }
    Ok(phases)
}
