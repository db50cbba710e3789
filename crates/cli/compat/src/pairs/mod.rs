//! The tools that measure pairs of threads: ptsematest, svsematest, pmqtest,
//! sigwaittest. They differ in the wake-up mechanism and in a few
//! options.
//!
//! The facts about the originals are from rt-tests 2.10, `src/ptsematest`, `src/svsematest`,
//! `src/pmqtest`, `src/sigwaittest`, and from their output.

mod options;
mod pmqtest;
mod ptsematest;
mod result;
mod rows;
mod settings;
mod sigwaittest;
mod svsematest;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use pmqtest::TOOL as PMQTEST;
pub(crate) use ptsematest::TOOL as PTSEMATEST;
pub(crate) use sigwaittest::TOOL as SIGWAITTEST;
pub(crate) use svsematest::TOOL as SVSEMATEST;

use punctual_session::{Request, Tracemark};

use crate::lines::Unit;
use crate::live_output::LiveOutput;
use crate::machine::Machine;
use crate::option_row::OptionRow;
use crate::shared::{self, micros};
use crate::{CompatError, Difference, Parsed, ToolContext};
use settings::{Affinity, PairSettings};
use view::View;

/// Properties in which these tools differ.
pub(crate) struct Kind {
    /// The tool's name.
    pub(crate) name: &'static str,
    /// The wake-up mechanism, which is the value of `--via` of the probe.
    pub(crate) via: &'static str,
    /// Whether the lines and the JSON contain timeouts.
    pub(crate) timeouts: bool,
    /// Whether the tool reports a pair that has no samples yet as not ready.
    pub(crate) says_not_ready: bool,
    /// The tool's options, in the order of its help.
    options: &'static [OptionRow<PairSettings>],
}

/// Differences from the originals that all these tools have.
pub(crate) const SLEEP: Difference = Difference {
    what: "The sending thread sleeps until an absolute time and then sends. Threads that are bound \
        and have a real-time priority above 1 make an unmeasured exchange before each measured \
        one.",
    why: "In the original, the receiving thread sleeps for the interval and then wakes the sender. \
        The interval is longer than requested, but both threads have just run. The unmeasured \
        exchange warms the caches in the same way. Without it (no `-a` or `-S`, or no `-p`), \
        punctual's figure includes colder caches and the exit from an idle state.",
};

/// See [`SLEEP`].
pub(crate) const PRIORITY: Difference = Difference {
    what: "The sending thread runs at the next lower priority. Lines and JSON show the requested \
        priority for both threads, as in the original.",
    why: "In the original, both threads run at the requested priority. On one CPU, its figure \
        therefore includes the time from the sender's post to its next wait, which punctual's \
        figure excludes.",
};

/// See [`SLEEP`].
pub(crate) const FIGURES: Difference = Difference {
    what: "Figures, including the mean, are measured in ns and rounded down to whole µs. `I` and \
        `interval` show the whole interval.",
    why: "The original subtracts rounded times and uses only `tv_usec`. A latency of one second \
        therefore counts as 0, and so does an interval of one second in its lines.",
};

/// See [`SLEEP`].
pub(crate) const SHORTEST: Difference = Difference {
    what: "Intervals below 50 us are raised to 50 us, with a warning on stderr. The tool's lines \
        show 50 us.",
    why: "In the original, the interval is the pause between two exchanges. In punctual, it is the \
        time from one exchange to the next, and both threads must be waiting again before it ends.",
};

/// See [`SLEEP`].
pub(crate) const FORK: Difference = Difference {
    what: "With `-f`, each sender is a separate process, and the receivers are threads of the \
        process that was started.",
    why: "In the original, both are separate processes, and the process that was started only \
        prints. In both programs, the wake-up goes from one address space to another.",
};

/// Runs the tool. All these tools share this function.
pub(crate) fn run(
    kind: &'static Kind,
    parsed: &Parsed,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    let machine = Machine::from_host(&context.host)?;
    shared::warn_of_spare_words(parsed, context);
    let settings = PairSettings::read(parsed, kind.options, &machine)?;
    for note in &settings.notes {
        context.warn(note);
    }
    let file = shared::json_file(settings.common.json.as_ref())?;
    let session = shared::prepare(request(kind, &settings, context)?, context)?;
    let (host, signals) = (context.host.clone(), context.signals.clone());
    let output = LiveOutput::new(&mut *context.out, signals);
    let mut view = View::new(kind, &settings, output, host);
    let stop = std::sync::Arc::clone(&context.signals.stop);
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    let rows = view.finish()?;
    result::write(kind, &settings, &outcome?, rows, file, context)
}

fn request(
    kind: &Kind,
    settings: &PairSettings,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let mut parameters = vec![
        ("via", kind.via.to_owned()),
        ("threads", settings.threads.to_string()),
        ("interval", micros(settings.interval_us)),
        ("distance", micros(settings.distance_us)),
    ];
    let mut flag = |name: &'static str, set: bool| {
        if set {
            parameters.push((name, "yes".to_owned()));
        }
    };
    flag("unbound", settings.affinity == Affinity::Unspecified);
    flag("priority-spread", !settings.same_priority());
    flag("warm", settings.returns_at_once());
    flag("processes", settings.fork);
    if settings.loops > 0 {
        parameters.push(("wakeups", settings.loops.to_string()));
    }
    for (name, seconds) in [
        ("timeout", settings.timeout_s),
        ("force-timeout", settings.force_timeout_s),
    ] {
        if seconds > 0 {
            parameters.push((name, format!("{seconds}s")));
        }
    }
    let (priority, duration_s) = (settings.priority, settings.common.duration_s);
    let break_above = Unit::Micros.break_above(settings.common.break_value);
    let mut request = shared::request(context, "wakeup", &parameters, priority, duration_s)?;
    request.threads.cpus = match settings.affinity {
        Affinity::One(cpu) => Some([cpu].into_iter().collect()),
        Affinity::Unspecified | Affinity::All => None,
    };
    request.limits.break_above = break_above;
    request.limits.tracemark = break_above.map(|_| Tracemark::Micros);
    Ok(request)
}
