//! rtla, the kernel's tool for the tracers timerlat and osnoise.
//!
//! The facts about the original are from the kernel's `tools/tracing/rtla/src`: `cli.c`, `cli_p.h`,
//! `common.c`, `actions.c`, `timerlat_hist.c`, `timerlat_top.c`, `osnoise_hist.c` and
//! `osnoise_top.c`, in the versions from 6.1 to 7.2, and from its output.

mod actions;
mod noise_table;
mod options;
mod osnoise;
mod settings;
mod table;
mod threshold;
mod timerlat;
mod view;

#[cfg(test)]
mod noise_tests;
#[cfg(test)]
mod tests;

pub(crate) use osnoise::{HIST as OSNOISE_HIST, HWNOISE, TOP as OSNOISE_TOP};
pub(crate) use timerlat::{HIST as TIMERLAT_HIST, TOP as TIMERLAT_TOP};

use punctual_session::{KernelTrace, Outcome, Request, Session};

use crate::option_row::{OptionRow, specs};
use crate::{CompatError, Difference, Family, Tool, ToolContext};
use settings::RtlaSettings;
use threshold::ThresholdResult;

/// rtla without a known command or mode. It prints its usage.
pub(crate) const NONE: Tool = Tool {
    name: "rtla",
    summary: "the tools of the kernel's tracers",
    probe: "timer",
    family: Family::Rtla,
    options: &specs::<_, { HELP.len() }>(HELP),
    removed: &[],
    differences: &[],
    run: |_, _| {
        Err(CompatError::Usage(
            "choose one of: timerlat [top], timerlat hist, osnoise [top], osnoise hist, hwnoise"
                .to_owned(),
        ))
    },
};

const HELP: &[OptionRow<RtlaSettings>] = &[OptionRow::HELP];

/// The version of rtla whose options and output these tools have.
pub(crate) const VERSION: &str = "7.2";

/// Exit status after a stop at a latency.
const STOPPED: u8 = 2;

/// Differences from the original that all tools of rtla have.
const SOURCE: Difference = Difference {
    what: "If the kernel's tracer is missing or cannot be used, punctual measures with its own \
        threads. A line on stderr states the method and the reason; it starts with `# punctual: \
        measured with`.",
    why: "The original needs the tracer and root, and fails without them.",
};
const SPELLING: Difference = Difference {
    what: "Help and wrong command lines end with status 129, as since the kernel's option parser is \
        used; an invalid value ends with status 1. `--no-` before a long option that the original \
        does not list is refused. The help states version 7.2, whose options and output these are.",
    why: "Versions up to 6.18 exit with 0 or 1 after the help. The other exit statuses are the \
        same: 0 after a complete run, 1 after an error, 2 after a stop.",
};
const ACTIONS: Difference = Difference {
    what: "With the action `continue`, the measurement also continues while the actions run. \
        Latencies during that time are counted, and start no further actions. The actions run \
        at least 100 ms after the latency, because it is explained first.",
    why: "The original stops its tracer until the actions have ended.",
};
const TRACE: Difference = Difference {
    what: "Without the kernel's tracer, no trace is written, with a warning. With `--on-end trace`, the file is written before the \
        other actions of the end.",
    why: "The trace is the kernel's. It ends with the tracer.",
};

/// A way to measure: the request, and its description for the reader.
struct Way {
    said: String,
    /// Whether the kernel's tracer measures.
    by_kernel: bool,
    request: Request,
}

/// Prints the warnings about options, and prepares the first of these ways that is possible. Reports
/// on stderr which one this is, and why the previous ones are not possible. Also returns whether the
/// kernel's tracer measures.
///
/// # Errors
/// Returns the error of the last way if none is possible.
fn prepare(
    ways: Vec<Way>,
    settings: &RtlaSettings,
    context: &mut ToolContext<'_>,
) -> Result<(Session, bool), CompatError> {
    for warning in &settings.warnings {
        context.warn(warning);
    }
    if settings.debug {
        context.say(&format!("{settings:?}"));
    }
    let mut failure = None;
    for Way {
        said,
        by_kernel,
        request,
    } in ways
    {
        match Session::prepare(request, context.host.clone()) {
            Ok(session) => {
                context.note(&format!("measured with {said}"));
                if let Some(error) = failure {
                    context.note(&format!("not with more: {error}"));
                }
                if settings.wants_trace() && !by_kernel {
                    context.warn("no trace is written, because the kernel's tracer is not used");
                }
                move_main_thread(settings, context);
                return Ok((session, by_kernel));
            }
            Err(error) => failure = Some(error),
        }
    }
    Err(match failure {
        Some(error) => error.into(),
        None => CompatError::Fatal("no way to measure is known".to_owned()),
    })
}

/// Moves the main thread to its CPUs. The session is already prepared, because the default CPUs to
/// measure are those on which this thread may run.
fn move_main_thread(settings: &RtlaSettings, context: &mut ToolContext<'_>) {
    if let Some(cpus) = &settings.housekeeping {
        let cpus: Vec<u32> = cpus.iter().collect();
        if let Err(error) = punctual_rt::affinity::set(punctual_rt::current_tid(), &cpus) {
            context.warn(&format!("the main thread stays where it is: {error}"));
        }
    }
}

/// Returns whether a limit ended the run. If it was a limit of the probe, the actions run now.
fn end_of_threshold(
    threshold: &ThresholdResult,
    trace: Option<&KernelTrace>,
    settings: &RtlaSettings,
    outcome: &Outcome,
    context: &mut ToolContext<'_>,
) -> Result<bool, CompatError> {
    if threshold.stopped {
        return Ok(true);
    }
    let stopped = outcome.broke.is_some();
    if stopped {
        actions::perform_all("--on-threshold", &settings.on_threshold, trace, context)?;
    }
    Ok(stopped)
}

/// Reports on stderr what went wrong with the actions of `--on-threshold`.
fn report_failures(
    threshold: &ThresholdResult,
    context: &mut ToolContext<'_>,
) -> Result<(), CompatError> {
    // The output of an action may end without a line break, and the table follows it.
    context.out.flush()?;
    for failure in &threshold.failures {
        context.warn(&format!("--on-threshold: {failure}"));
    }
    Ok(())
}

/// Performs the actions of the end, and prints what follows the figures. Returns the exit status.
fn end(
    tracer: &str,
    settings: &RtlaSettings,
    stopped: bool,
    trace: Option<&KernelTrace>,
    outcome: &Outcome,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    actions::perform_all("--on-end", &settings.on_end, trace, context)?;
    if stopped {
        writeln!(context.out, "{tracer} hit stop tracing")?;
        if !settings.no_analysis {
            write!(context.out, "{}", analysis(outcome))?;
        }
    }
    for saved in trace.map(KernelTrace::take_histograms).unwrap_or_default() {
        let (event, path) = (saved.event, saved.path.display());
        writeln!(context.out, "  Saving event {event} hist to {path}")?;
        if let Some(error) = saved.error {
            context.warn(&error.to_string());
        }
    }
    context.report_outcome(outcome);
    Ok(if stopped { STOPPED } else { 0 })
}

/// Returns the analysis of the latest explained latency: a sentence, and the share of each cause.
fn analysis(outcome: &Outcome) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    let explanation = outcome.recording.explanation.as_ref();
    let Some(outlier) = explanation.and_then(|found| found.outliers.last()) else {
        return text;
    };
    let cpu = outlier.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
    let _ = writeln!(text, "## CPU {cpu} hit stop tracing, analyzing it ##");
    let _ = writeln!(text, "  {}", outlier.blame.sentence());
    let latency = outlier.blame.latency().0;
    for share in &outlier.blame.shares {
        let part = share.ns.0 as f64 * 100.0 / latency.max(1) as f64;
        let micros = share.ns.0 as f64 / 1e3;
        let _ = writeln!(text, "  {:<48}{micros:>9.2} us ({part:.2} %)", share.who());
    }
    let _ = writeln!(text, "{:-<72}", "");
    let micros = latency as f64 / 1e3;
    let _ = writeln!(text, "  {:<48}{micros:>9.2} us (100%)", "Latency:");
    punctual_model::sanitize_lines(&text, false).to_string()
}
