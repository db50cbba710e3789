//! `experiment`: whether one change makes the machine better or worse.

mod options;
mod stored;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use punctual_experiment::{Bench, Progress, TrialError, draft, run as run_experiment};
use punctual_host::Host;
use punctual_model::{Effect, Experiment, ExperimentState};
use punctual_report::{document, text};
use punctual_store::Store;

use self::options::{Options, OutputOptions, Stored};
use super::measure::stop_flag;
use super::{Verb, serve_load, serve_partner};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::live;
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb { command, run };

/// How often is said how far it is, where there is no terminal.
const SAY: Duration = Duration::from_secs(60);

/// What the exit codes mean here.
const EXITS: &str = "\
Exit codes:
  0    each condition is shown to differ, or to be equivalent
  1    failed; settings are as before
  2    wrong usage
  3    with --fail-on-worse: a condition is shown to be worse
  4    not proven
  130  interrupted; `punctual experiment resume` goes on";

fn command() -> Command {
    Options::augment_args(Command::new("experiment"))
        .about("Show by experiment whether a change makes latency better or worse")
        .long_about(
            "Show by experiment whether a change makes latency better or worse.\n\n\
             Measures blocks with and without the change in random order, pair by pair, and \
             compares how many 10 ms slots of each hold a late wake-up. A pilot checks the \
             threshold and says which effect the plan can find. The order makes the answer \
             valid also on a machine that drifts. Settings are changed as by `punctual tune`: \
             with a journal, and undone at the end, or by the next command where this one is \
             killed.",
        )
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .after_help(EXITS)
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let options = Options::from_arg_matches(matches)?;
    match options.stored {
        None => begin(&options.new, context),
        Some(Stored::Resume { which, output }) => {
            let store = context.store_to_change()?;
            let mut experiment = store.find_experiment(&which.experiment)?;
            if experiment.state == ExperimentState::Finished {
                return Err(UsageError(format!(
                    "experiment {} is finished: `punctual experiment show {}`",
                    experiment.id.short(),
                    experiment.id.short()
                ))
                .into());
            }
            carry_out(&mut experiment, Some(&store), &output, context)
        }
        Some(stored) => stored::run(stored, context),
    }
}

fn begin(new: &options::New, context: &Context) -> Result<Exit> {
    let plan = new.plan()?;
    let store = context.store_if_wanted()?;
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    let label = new
        .output
        .label
        .clone()
        .unwrap_or_else(|| names.join(" / "));
    let mut experiment = draft(plan, Some(label), words.collect());
    carry_out(&mut experiment, store.as_ref(), &new.output, context)
}

/// Runs an experiment to its end, and shows it.
fn carry_out(
    experiment: &mut Experiment,
    store: Option<&Store>,
    output: &OutputOptions,
    context: &Context,
) -> Result<Exit> {
    // What cannot be written is known before anything is measured.
    let report = match &output.output {
        Some(path) => Some((stored::form(path)?, Output::open(path)?)),
        None => None,
    };
    let to_stdout = report.as_ref().is_some_and(|(_, file)| file.is_stdout());
    if to_stdout && output.json {
        return Err(UsageError("only one form fits on stdout: name a file".to_owned()).into());
    }
    measure(experiment, store, output.quiet, context)?;
    if output.json {
        output::print(&output::json(experiment)?)?;
    } else if !to_stdout {
        let shown = document::experiment(experiment, &[]);
        output::print(&text::render(&shown, &context.style()))?;
    }
    if let Some((form, file)) = report {
        file.put(stored::render(form, experiment, store, context)?.as_bytes())?;
    }
    Ok(exit(experiment, output.fail_on_worse))
}

/// Measures what is left of an experiment.
pub(super) fn measure(
    experiment: &mut Experiment,
    store: Option<&Store>,
    quiet: bool,
    context: &Context,
) -> Result<()> {
    let host = Host::live();
    let stop = stop_flag()?;
    let mut view = live::view(true);
    let mut said: Option<Instant> = None;
    let terminal = std::io::stderr().is_terminal();
    let mut say = |progress: &Progress| {
        let due = said.is_none_or(|said| said.elapsed() >= SAY);
        if !quiet && (progress.important || terminal || due) {
            said = Some(Instant::now());
            output::note(&progress.text);
        }
    };
    let ran = run_experiment(
        experiment,
        Bench {
            host: &host,
            store,
            journal: context.journal(),
            partner: serve_partner::program(),
            place: &serve_load::in_subprocess,
            view: view.as_mut(),
            stop: &stop,
            say: &mut say,
        },
    );
    let id = experiment.id.short();
    let resumable = store.is_some() && experiment.pilot.is_some();
    match ran {
        Ok(()) if experiment.state == ExperimentState::Stopped && resumable => {
            output::note(&format!(
                "stopped; to go on: punctual experiment resume {id}"
            ));
            Ok(())
        }
        Ok(()) => Ok(()),
        Err(
            error @ (TrialError::Plan(_) | TrialError::Parameter(_) | TrialError::Equal { .. }),
        ) => Err(UsageError(error.to_string()).into()),
        Err(error) if resumable => Err(unwrapped(error)).with_context(|| {
            format!("the experiment ended; to go on: punctual experiment resume {id}")
        }),
        Err(error) => Err(unwrapped(error)),
    }
}

/// With the exit code of the error inside.
fn unwrapped(error: TrialError) -> anyhow::Error {
    match error {
        TrialError::Session(error) => error.into(),
        TrialError::Tune(error) => error.into(),
        TrialError::Store(error) => error.into(),
        error => error.into(),
    }
}

fn exit(experiment: &Experiment, fail_on_worse: bool) -> Exit {
    let results = &experiment.results;
    let is = |effect: Effect| results.iter().any(|result| result.effect == effect);
    let guarded =
        |result: &punctual_model::ArmResult| result.guards.iter().any(|guard| guard.worse);
    match experiment.state {
        ExperimentState::Stopped => Exit::Interrupted,
        _ if fail_on_worse && (is(Effect::More) || results.iter().any(guarded)) => Exit::Broken,
        _ if results.is_empty() || is(Effect::NotProven) => Exit::NotProven,
        _ => Exit::Done,
    }
}

/// The extension of a file, in small letters.
fn extension(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().to_ascii_lowercase()
}
