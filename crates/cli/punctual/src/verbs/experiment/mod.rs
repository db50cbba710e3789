//! `experiment`: proves whether a change makes the machine better or worse.

mod boots;
mod numbers;
mod options;
mod report;
mod stored;

use anyhow::{Context as _, Result};
use punctual_experiment::{Bench, BootStep, draft, of_boots, run as run_experiment, run_boots};
use punctual_host::Host;
use punctual_model::{Arm, ArmAction, Effect, Experiment, ExperimentState};
use punctual_report::{document, text};
use punctual_store::Store;

use self::options::{Booting, Options, Stored};
use self::report::OutputOptions;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::live;
use crate::options::share_cpus::Sharing;
use crate::output;
use crate::processes::serve_guard::{Guard, Guarded, SILENCE};
use crate::processes::{serve_load, serve_partner};
use crate::running::experiment::{Progressing, failed, is_usage};
use crate::running::stop_flag;
use crate::verb::{Run, Verb, command_line};

pub(super) const VERB: Verb = Verb::new::<Options>("experiment");

impl Run for Options {
    fn run(self, context: &Context) -> Result<Exit> {
        match self.stored {
            None => begin(&self.new, context),
            Some(Stored::Resume {
                which,
                booting,
                sharing,
                output,
            }) => {
                let store = context.store_to_change()?;
                let mut experiment = store.find_experiment(&which.experiment)?;
                if experiment.state == ExperimentState::Finished {
                    let id = experiment.id.short();
                    return Err(UsageError(format!(
                        "experiment {id} is already finished; to see the result: punctual \
                         experiment show {id}"
                    ))
                    .into());
                }
                if experiment.numbers.is_some() {
                    let id = experiment.id.short();
                    return Err(UsageError(format!(
                        "experiment {id} compares numbers and cannot continue: start it again. To see \
                         what it measured: punctual experiment show {id}"
                    ))
                    .into());
                }
                if !of_boots(&experiment) && (booting.write || booting.reboot) {
                    return Err(UsageError(
                        "--write and --reboot apply only to experiments with --boot".to_owned(),
                    )
                    .into());
                }
                (crate::context::own_experiments()?.check(&experiment)).map_err(failed)?;
                let asked = Query {
                    booting,
                    sharing,
                    output: &output,
                };
                carry_out(&mut experiment, Some(&store), asked, context)
            }
            Some(stored) => stored::run(stored, context),
        }
    }
}

fn begin(new: &options::New, context: &Context) -> Result<Exit> {
    if new.numbers.is_given() {
        return new.numbers.run(new.conditions()?, &new.output, context);
    }
    let plan = new.plan()?;
    let store = context.store_to_record()?;
    let label = new.label(&plan.arms);
    let mut experiment = draft(plan, Some(label), command_line());
    // If there is no folder for its state, the experiment can be measured but not resumed.
    if let (Some(_), Ok(own)) = (&store, crate::context::own_experiments()) {
        own.enter(&experiment).map_err(failed)?;
    }
    let asked = Query {
        booting: new.booting,
        sharing: new.sharing,
        output: &new.output,
    };
    carry_out(&mut experiment, store.as_ref(), asked, context)
}

/// Options of a run that are not part of the plan.
#[derive(Clone, Copy)]
struct Query<'a> {
    booting: Booting,
    sharing: Sharing,
    output: &'a OutputOptions,
}

/// Runs an experiment to its end and shows the result.
fn carry_out(
    experiment: &mut Experiment,
    store: Option<&Store>,
    asked: Query<'_>,
    context: &Context,
) -> Result<Exit> {
    let Query {
        booting, output, ..
    } = asked;
    let report = report::opened(output)?;
    let to_stdout = report.as_ref().is_some_and(|(_, file)| file.is_stdout());
    let next = measure(experiment, store, asked, context)?;
    if let Some(next) = &next {
        boots::show(next, experiment, output.json)?;
        return boots::leave(next, booting);
    }
    let exit = exit(experiment, output.fail_on_worse);
    context.stored(exit, store.is_some());
    if output.json {
        output::print(&output::json(experiment))?;
    } else if !to_stdout {
        let shown = document::experiment_text(experiment);
        output::print(&text::render(&shown, &context.style()))?;
    }
    if let Some((form, file)) = report {
        file.put(stored::render(form, experiment, store, context)?.as_bytes())?;
    }
    Ok(exit)
}

/// Measures the remaining blocks of an experiment.
fn measure(
    experiment: &mut Experiment,
    store: Option<&Store>,
    asked: Query<'_>,
    context: &Context,
) -> Result<Option<BootStep>> {
    let host = Host::live();
    let cpus = experiment.plan.cpus.as_ref();
    let _cpus = asked.sharing.hold(cpus, "experiment")?;
    let stop = stop_flag()?;
    let by_settings = |arm: &Arm| matches!(arm.action, ArmAction::Settings { .. });
    let guard = if experiment.plan.arms.iter().any(by_settings) {
        Some(Guard::start(SILENCE)?)
    } else {
        None
    };
    let mut view = Guarded {
        inner: live::view(true),
        guard: guard.as_ref(),
    };
    let mut progress = Progressing::new(asked.output.quiet);
    let bench = Bench {
        host: &host,
        store,
        journal: crate::context::journal(),
        partner: serve_partner::program(),
        isolate: &serve_load::in_subprocess,
        view: &mut view,
        stop: &stop,
        shared: asked.sharing.share_cpus,
        say: &mut |said| progress.say(said),
    };
    let ran = if of_boots(experiment) {
        run_boots(experiment, bench, &boots::request(asked.booting, context)?)
    } else {
        run_experiment(experiment, bench).map(|()| BootStep::Ended)
    };
    let id = experiment.id.short();
    let resumable = store.is_some() && experiment.pilot.is_some();
    let is_over = experiment.state == ExperimentState::Finished || !resumable;
    if let (true, Ok(own)) = (is_over, crate::context::own_experiments()) {
        own.forget(experiment.id);
    }
    match ran {
        Ok(step @ BootStep::Boot { .. }) => Ok(Some(step)),
        Ok(_) if experiment.state == ExperimentState::Stopped && resumable => {
            output::note(&format!(
                "stopped; to continue: punctual experiment resume {id}"
            ));
            Ok(None)
        }
        Ok(_) => Ok(None),
        Err(error) if resumable && !is_usage(&error) => Err(failed(error)).with_context(|| {
            format!("the experiment ended; to continue: punctual experiment resume {id}")
        }),
        Err(error) => Err(failed(error)),
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
