//! Lists, shows, draws and deletes experiments in the store.

use std::path::{Path, PathBuf};

use anyhow::Result;
use punctual_experiment::undo_boots;
use punctual_host::Host;
use punctual_model::{Experiment, Limit, Metric, Recording, Requirement};
use punctual_report::plot::{self, PlotOptions};
use punctual_report::{document, text};
use punctual_store::{Store, StoreError};

use super::options::Stored;
use super::report::{Form, form, rendered};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::extension;
use crate::output::{self, Output};

/// Scale factor for PNG, the same as in `plot`.
const PIXELS: f32 = 2.0;

/// Returns a report of an experiment. In HTML, it includes the latencies of the blocks that are
/// still stored.
pub(super) fn render(
    form: Form,
    experiment: &Experiment,
    store: Option<&Store>,
    context: &Context,
) -> Result<String> {
    let sides = match (form, store) {
        (Form::Html, Some(store)) => sides(experiment, store)?,
        _ => Vec::new(),
    };
    let page = document::experiment(experiment, &sides);
    let screen = document::experiment_text(experiment);
    Ok(rendered(form, [&page, &screen], context))
}

/// Returns one recording for each condition. Its only thread contains the latencies of all blocks
/// of the condition, except deleted blocks.
fn sides(experiment: &Experiment, store: &Store) -> Result<Vec<Recording>> {
    let mut sides = Vec::new();
    for (place, arm) in experiment.plan.arms.iter().enumerate() {
        let mut side: Option<Recording> = None;
        let all = experiment.recordings_by_arm();
        for (_, id) in all.filter(|(arm, _)| *arm as usize == place) {
            let mut block = match store.load(id) {
                Ok(block) => block,
                Err(StoreError::NoSuch { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let all = block.all_latencies();
            match &mut side {
                Some(side) => side.threads[0].histogram.merge(&all),
                None => {
                    block.threads.truncate(1);
                    block.threads[0].histogram = all;
                    block.label = Some(arm.name.clone());
                    block.requirement = threshold(experiment);
                    side = Some(block);
                }
            }
        }
        sides.extend(side);
    }
    Ok(sides)
}

/// Returns the threshold as a limit, so that the plot shows a mark for it.
fn threshold(experiment: &Experiment) -> Requirement {
    let threshold = experiment.pilot.as_ref().map(|pilot| pilot.threshold_ns);
    let limit = threshold
        .or(experiment.plan.threshold_ns)
        .map(|threshold| Limit {
            metric: Metric::Max,
            at_most: threshold.0,
        });
    Requirement {
        limits: limit.into_iter().collect(),
        ..Requirement::default()
    }
}

pub(super) fn run(stored: Stored, context: &Context) -> Result<Exit> {
    match stored {
        Stored::List { json } => list(json, context)?,
        Stored::Show { which, json } => {
            let experiment = context
                .store_to_read()?
                .find_experiment(&which.experiment)?;
            output::print(&if json {
                output::json(&experiment)
            } else {
                let shown = document::experiment_text(&experiment);
                text::render(&shown, &context.style())
            })?;
        }
        Stored::Report { which, output } => {
            let store = context.store_to_read()?;
            let experiment = store.find_experiment(&which.experiment)?;
            let usual = || PathBuf::from(format!("experiment-{}.html", experiment.id.short()));
            let path = output.unwrap_or_else(usual);
            let form = form(&path)?;
            let file = Output::open(&path)?;
            file.put(render(form, &experiment, Some(&store), context)?.as_bytes())?;
            wrote("report", &path);
        }
        Stored::Plot {
            which,
            kind,
            output,
        } => {
            let store = context.store_to_read()?;
            let experiment = store.find_experiment(&which.experiment)?;
            let usual = || PathBuf::from(format!("{kind}-{}.svg", experiment.id.short()));
            draw(&experiment, &store, &kind, &output.unwrap_or_else(usual))?;
        }
        Stored::Delete { experiment } => {
            let store = context.store_to_delete()?;
            let found = store.find_experiment(&experiment)?;
            if store.experiment_lives(found.id) {
                anyhow::bail!(
                    "experiment {} is being measured: stop the measurement first",
                    found.id.short()
                );
            }
            let own = crate::context::own_experiments()?;
            // An experiment of another user or machine has changed nothing on this machine, so
            // there is nothing to undo.
            if own.has(&found) {
                undo_boots(&found, &own, &Host::live())?;
                own.forget(found.id);
            }
            store.delete_experiment(found.id)?;
            context.done(Exit::Done, "the experiment is deleted");
            output::print(&format!("deleted {}\n", found.id))?;
        }
        // The caller handles `resume`.
        Stored::Resume { .. } => {}
    }
    Ok(Exit::Done)
}

fn list(json: bool, context: &Context) -> Result<()> {
    let all = match context.store_to_read() {
        Ok(store) => store.experiments()?,
        // A missing store is not an error, because it is created by the first measurement.
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::NotThere { .. })) => {
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    if json {
        output::print(&output::json(&all))
    } else if all.is_empty() {
        output::note("no experiments yet: run punctual experiment --set NAME=VALUE");
        Ok(())
    } else {
        let shown = document::experiments(&all);
        output::print(&text::render(&shown, &context.list_style()))
    }
}

fn draw(experiment: &Experiment, store: &Store, kind: &str, path: &Path) -> Result<()> {
    let png = match extension::extension_of(path).as_str() {
        "png" => true,
        "svg" => false,
        _ if path == Path::new("-") => false,
        _ => return Err(extension::unknown(path, &["svg", "png"]).into()),
    };
    if experiment.numbers.is_some() && (kind != "latency" || experiment.recordings().is_empty()) {
        let text = "an experiment on numbers has no late slots to draw: punctual experiment report. \
            Only the jobs of an application have a plot: --kind latency";
        return Err(UsageError(text.to_owned()).into());
    }
    let file = Output::open(path)?;
    let plot = match kind {
        "latency" => {
            let sides = sides(experiment, store)?;
            plot::latency(&sides.iter().collect::<Vec<_>>(), &document::overlaid())?
        }
        "power" => plot::power(experiment, &PlotOptions::default())?,
        _ => plot::strip(experiment, &PlotOptions::default())?,
    };
    if png {
        file.put(&plot.png(PIXELS)?)?
    } else {
        file.put(plot.svg().as_bytes())?
    }
    wrote("plot", path);
    Ok(())
}

fn wrote(what: &str, path: &Path) {
    if path != Path::new("-") {
        output::note(&format!("{what} written to {}", path.display()));
    }
}
