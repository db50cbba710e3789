//! signaltest sends a signal around a ring of threads.
//!
//! The facts about the original are from rt-tests 2.10, `src/signaltest/signaltest.c`, and from its
//! output.

mod result;
mod settings;
#[cfg(test)]
mod tests;
mod view;

use punctual_session::Request;

use crate::lines::Unit;
use crate::live_output::LiveOutput;
use crate::machine::Machine;
use crate::option_row::specs;
use crate::shared;
use crate::{CompatError, Difference, Family, Parsed, Tool, ToolContext};
use settings::SignaltestSettings;
use view::View;

pub(crate) const TOOL: Tool = Tool {
    name: "signaltest",
    summary: "the time that a signal takes to pass around a ring of threads",
    probe: "signal",
    family: Family::RtTests,
    options: &specs::<_, { settings::OPTIONS.len() }>(settings::OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "The line of thread 0 shows whole rounds, from sending the signal to receiving \
                it again, as in the original. The line of each other thread shows one hop: from \
                the sending by the previous thread to its own receipt.",
            why: "In the original, the other threads also show whole rounds, but every 16th round \
                includes the first thread's pause of 10 ms. Their `Act`, `Avg` and `Max` therefore \
                measure a sleep.",
        },
        Difference {
            what: "Every 10 ms, a burst of 16 rounds begins. Before the first round of a burst, \
                the thread sleeps.",
            why: "The original pauses for 10 ms after every 16 rounds, so the same number of \
                rounds takes longer. The first of its 16 rounds also follows a sleep.",
        },
        Difference {
            what: "JSON contains each thread's own CPU. `-v` prints all values, from the first to \
                the last.",
            why: "The original writes the first thread's CPU for all threads. With `-v`, it first \
                prints a value that was not measured, and it prints no value for the last cycle.",
        },
        Difference {
            what: "A round or a hop above the break value stops the run.",
            why: "The original checks only the first thread's rounds. A hop is part of a round.",
        },
    ],
    run,
};

/// Number of rounds that follow each other without a pause.
const BURST: &str = "16";
/// Pause between two such bursts of rounds.
const PAUSE: &str = "10ms";

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    shared::warn_of_spare_words(parsed, context);
    let settings = SignaltestSettings::read(parsed, &Machine::from_host(&context.host)?)?;
    for note in &settings.notes {
        context.warn(note);
    }
    if let (true, Some(cpus)) = (settings.verbose, &settings.cpus) {
        writeln!(context.out, "Using {} cpus.", cpus.len())?;
    }
    let file = shared::json_file(settings.common.json.as_ref())?;
    let session = shared::prepare(request(&settings, context)?, context)?;
    let _locked = settings
        .common
        .lock_memory
        .then(shared::lock_memory)
        .transpose()?;
    let (host, signals) = (context.host.clone(), context.signals.clone());
    let mut view = View::new(&settings, LiveOutput::new(&mut *context.out, signals), host);
    let stop = std::sync::Arc::clone(&context.signals.stop);
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    let lines = view.finish()?;
    result::write(&settings, &outcome?, lines, file, context)
}

fn request(
    settings: &SignaltestSettings,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let mut parameters = vec![
        ("threads", settings.threads.to_string()),
        ("burst", BURST.to_owned()),
        ("interval", PAUSE.to_owned()),
        ("rounds", "yes".to_owned()),
    ];
    if settings.loops > 0 {
        parameters.push(("wakeups", settings.loops.to_string()));
    }
    let (priority, duration_s) = (settings.priority, settings.common.duration_s);
    let mut request = shared::request(context, "signal", &parameters, priority, duration_s)?;
    request.threads.cpus.clone_from(&settings.cpus);
    request.limits.break_above = Unit::Micros.break_above(settings.common.break_value);
    Ok(request)
}
