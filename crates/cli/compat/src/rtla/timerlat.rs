//! `rtla timerlat hist` and `rtla timerlat top`.

use std::sync::Arc;

use punctual_model::{Nanos, Policy};
use punctual_session::{ExplainRequest, Request};

use super::actions::{self, continues};
use super::settings::RtlaSettings;
use super::view::View;
use super::{ACTIONS, SOURCE, SPELLING, Way, end, options, prepare};
use crate::lines::Unit;
use crate::live_output::LiveOutput;
use crate::machine::Machine;
use crate::option_row::{OptionRow, specs};
use crate::shared::{self, micros};
use crate::{CompatError, Difference, Family, Parsed, Tool, ToolContext};

pub(crate) const HIST: Tool = Tool {
    name: "rtla timerlat hist",
    summary: "a histogram of timer latencies for each CPU",
    probe: "timer",
    family: Family::Rtla,
    options: &specs::<_, { options::TIMERLAT_HIST.len() }>(options::TIMERLAT_HIST),
    removed: &[],
    differences: DIFFERENCES,
    run: |parsed, context| run(parsed, options::TIMERLAT_HIST, true, context),
};

pub(crate) const TOP: Tool = Tool {
    name: "rtla timerlat top",
    summary: "a table of timer latencies for each CPU",
    probe: "timer",
    family: Family::Rtla,
    options: &specs::<_, { options::TIMERLAT_TOP.len() }>(options::TIMERLAT_TOP),
    removed: &[],
    differences: DIFFERENCES,
    run: |parsed, context| run(parsed, options::TIMERLAT_TOP, false, context),
};

const DIFFERENCES: &[Difference] = &[
    SOURCE,
    Difference {
        what: "With punctual's own threads, only the columns of user space (`Usr`) have figures. \
            The columns of the interrupt and of the thread show the count 0 and `-`. `-k`, and `-i` \
            with a limit below that of `-T`, then end the tool with status 1.",
        why: "A thread in user space cannot measure when the interrupt handler ran.",
    },
    Difference {
        what: "At a stop, the analysis is a sentence and the share of each cause, by punctual's \
            own analysis. `--dump-tasks` and `--trace-buffer-size` have no effect, with a warning. \
            `-U`, `-C`, `-A`, `--aa-only`, `--bpf-action` and `--stack-format` are refused.",
        why: "Only what has an effect is accepted in silence.",
    },
    Difference {
        what: "`-t` and `-a` write no trace file, and the action `trace` is refused. `-e`, \
            `--filter` and `--trigger` are refused.",
        why: "The recording keeps the trace around each analysed latency, and `punctual export` \
            writes it for trace-cmd.",
    },
    ACTIONS,
    SPELLING,
];

/// The priority of the tracer's threads.
const PRIORITY: (Policy, u8) = (Policy::Fifo, 95);

fn run(
    parsed: &Parsed,
    table: &[OptionRow<RtlaSettings>],
    histogram: bool,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    shared::warn_of_spare_words(parsed, context);
    let machine = Machine::from_host(&context.host)?;
    let settings = RtlaSettings::read(parsed, table, &machine, RtlaSettings::timerlat())?;
    let session = prepare(ways(&settings, context)?, &settings, context)?;
    let stop = Arc::clone(&context.signals.stop);
    let mut view = View::new(
        &settings,
        histogram,
        LiveOutput::new(&mut *context.out, context.signals.clone()),
    );
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    let seen = view.finish()?;
    let outcome = outcome?;
    let stopped = seen.stopped || outcome.broke.is_some();
    if stopped {
        actions::perform_all("--on-threshold", &settings.on_threshold, context)?;
    }
    let text = if histogram {
        seen.table.histogram(seen.length)
    } else {
        seen.table.top(seen.length)
    };
    write!(context.out, "{text}")?;
    if seen.dropped > 0 {
        context.note(&format!(
            "{} samples are in the recording, but not in these figures",
            seen.dropped
        ));
    }
    for failure in &seen.failures {
        context.warn(&format!("--on-threshold: {failure}"));
    }
    end("timerlat", &settings, stopped, &outcome, context)
}

/// Returns the ways to measure, the best first: with the kernel's tracer and with the causes of the
/// latency that stops the run.
fn ways(settings: &RtlaSettings, context: &ToolContext<'_>) -> Result<Vec<Way>, CompatError> {
    let threads = match (settings.user_threads, settings.kernel_threads) {
        (true, _) => Some("user"),
        (_, true) => Some("kernel"),
        _ => None,
    };
    let mut kernel = vec![("source", "timerlat".to_owned())];
    kernel.extend(threads.map(|threads| ("workload", threads.to_owned())));
    let kernel = request(settings, &kernel, context)?;
    let own = request(settings, &[], context)?;
    let explain = settings.explained_above_us();
    let explain = explain.map(|above| ExplainRequest::above(Unit::Micros.above(above)));
    let explained = |request: &Request| Request {
        explain: explain.clone(),
        ..request.clone()
    };
    let tracer = "the kernel's tracer timerlat";
    let threads = "punctual's own threads in user space, not the kernel's tracer timerlat";
    let way = |said: &str, request: Request| Way {
        said: said.to_owned(),
        request,
    };
    let mut ways = Vec::new();
    // A late interrupt also makes the thread late, so its own limit matters only if it is lower.
    let limits_irq = settings.stop_us > 0
        && (settings.stop_total_us == 0 || settings.stop_us < settings.stop_total_us);
    let needs_kernel = settings.kernel_threads || limits_irq;
    for (said, request) in [(tracer, kernel), (threads, own)] {
        if said == threads && needs_kernel {
            break;
        }
        if explain.is_some() {
            let more = format!("{said}, with an analysis of the causes");
            ways.push(way(&more, explained(&request)));
        }
        ways.push(way(said, request));
    }
    Ok(ways)
}

fn request(
    settings: &RtlaSettings,
    source: &[(&'static str, String)],
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let mut parameters = vec![("interval", micros(settings.period_us))];
    parameters.extend_from_slice(source);
    let duration_s = match settings.duration_s {
        0 => 0,
        seconds => seconds + settings.warm_up_s,
    };
    let mut request = shared::request(context, "timer", &parameters, 0, duration_s)?;
    let (policy, priority) = settings.scheduling.unwrap_or(PRIORITY);
    let limit_us = if continues(&settings.on_threshold) {
        0
    } else {
        settings.stop_total_us
    };
    request.threads.cpus.clone_from(&settings.cpus);
    request.threads.policy = Some(policy);
    request.threads.priority = (policy != Policy::Other).then_some(priority);
    request.warm_up = Some(Nanos::from_secs(settings.warm_up_s));
    let below_us = limit_us.checked_sub(1);
    request.limits.break_above = below_us.map(|below| Unit::Micros.above(below));
    request.machine.dma_latency_us = settings.dma_latency_us;
    request.machine.deepest_idle_state = settings.idle_state;
    Ok(request)
}
