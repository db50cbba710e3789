//! `rtla timerlat hist` and `rtla timerlat top`.

use std::sync::Arc;

use punctual_model::{Nanos, Policy};
use punctual_session::{ExplainRequest, KernelTrace, Membership, NoiseStop, Request, TracerGroup};

use super::actions::continues;
use super::settings::RtlaSettings;
use super::threshold::Threshold;
use super::view::View;
use super::{
    ACTIONS, SOURCE, SPELLING, TRACE, Way, end, end_of_threshold, options, prepare, report_failures,
};
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
            own analysis. It does not print the stack of the blocking thread. With `-k`, \
            `punctual explain last` shows it. `--dump-tasks` has no effect, with a warning. `-U`, \
            `-A`, `--bpf-action` and `--stack-format` are refused. `-P` accepts no deadline, and \
            for other policies only the nice value 0.",
        why: "Only what has an effect is accepted in silence.",
    },
    Difference {
        what: "The threads of `-u`, which are the default, are threads of punctual, not \
            separate processes. A script that looks for child processes of rtla finds none.",
        why: "They measure in the same way, and punctual can end them even if they get no CPU \
            time.",
    },
    Difference {
        what: "The trace of `-t`, `-a` and the action `trace` ends when punctual has seen the \
            latency, which is some milliseconds after it. A line at its end states the latency. \
            For threads in user space, it has no stack.",
        why: "punctual itself checks the samples, so that it can also explain the latency. The \
            kernel writes these stacks only if it stops the trace itself.",
    },
    TRACE,
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
    let trace = settings.kernel_trace(NoiseStop::default());
    let _member = join_group(&settings, context)?;
    let ways = ways(&settings, &trace, context)?;
    let (session, by_kernel) = prepare(ways, &settings, context)?;
    let trace = by_kernel.then_some(trace);
    let stop = Arc::clone(&context.signals.stop);
    let mut view = View::new(
        &settings,
        histogram,
        by_kernel || continues(&settings.on_threshold),
        Threshold::new(&settings, trace.clone()),
        LiveOutput::new(&mut *context.out, context.signals.clone()),
    );
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    let seen = view.finish()?;
    let outcome = outcome?;
    let table = &seen.table;
    let text = match settings.only_analysis {
        true => String::new(),
        false if histogram => table.histogram(seen.length),
        false => table.top(seen.length),
    };
    let stopped = end_of_threshold(
        &seen.threshold,
        trace.as_deref(),
        &settings,
        &outcome,
        context,
    )?;
    write!(context.out, "{text}")?;
    report_failures(&seen.threshold, context)?;
    if seen.dropped > 0 {
        context.note(&format!(
            "{} samples are in the recording, but not in these figures",
            seen.dropped
        ));
    }
    let largest = settings.only_analysis.then(|| table.max_us());
    let status = end(
        "timerlat",
        &settings,
        stopped,
        trace.as_deref(),
        &outcome,
        context,
    )?;
    if let Some(largest) = largest.filter(|_| !stopped) {
        writeln!(context.out, "  Max latency was {largest}\n")?;
    }
    Ok(status)
}

/// Joins the control group of the measuring threads, if they are threads of this process and the
/// group is not that of this process anyway.
fn join_group(
    settings: &RtlaSettings,
    context: &ToolContext<'_>,
) -> Result<Option<Membership>, CompatError> {
    match &settings.group {
        Some(TracerGroup::Named(name)) if !settings.kernel_threads => {
            Ok(Some(Membership::join(&context.host, name)?))
        }
        _ => Ok(None),
    }
}

/// Returns the ways to measure, the best first: with the kernel's tracer and with the causes of the
/// latency that stops the run.
fn ways(
    settings: &RtlaSettings,
    trace: &Arc<KernelTrace>,
    context: &ToolContext<'_>,
) -> Result<Vec<Way>, CompatError> {
    let threads = match (settings.user_threads, settings.kernel_threads) {
        (true, _) => Some("user"),
        (_, true) => Some("kernel"),
        _ => None,
    };
    let mut kernel = vec![("source", "timerlat".to_owned())];
    kernel.extend(threads.map(|threads| ("workload", threads.to_owned())));
    // The samples of the kernel are checked here, so that its threads still exist while the actions
    // run.
    let kernel = Request {
        kernel_trace: Some(Arc::clone(trace)),
        ..request(settings, &kernel, 0, context)?
    };
    let limit_us = if continues(&settings.on_threshold) {
        0
    } else {
        settings.stop_total_us
    };
    let own = request(settings, &[], limit_us, context)?;
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
        by_kernel: request.kernel_trace.is_some(),
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
    limit_us: u64,
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
