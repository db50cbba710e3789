//! `rtla osnoise hist`, `rtla osnoise top` and `rtla hwnoise`.

use std::sync::Arc;

use punctual_model::{Nanos, Policy};
use punctual_session::{KernelTrace, NoiseStop, Request, Snapshot, TracerGroup, Watcher};

use super::actions::continues;
use super::noise_table as table;
use super::settings::RtlaSettings;
use super::threshold::Threshold;
use super::{
    SOURCE, SPELLING, TRACE, Way, end, end_of_threshold, options, prepare, report_failures,
};
use crate::lines::Unit;
use crate::live_output::LiveOutput;
use crate::machine::Machine;
use crate::option_row::specs;
use crate::shared::{self, micros};
use crate::{CompatError, Difference, Family, Parsed, Tool, ToolContext};

pub(crate) const HIST: Tool = Tool {
    name: "rtla osnoise hist",
    summary: "a histogram of the times during which a spinning thread did not run, for each CPU",
    probe: "hardware",
    family: Family::Rtla,
    options: &specs::<_, { options::OSNOISE_HIST.len() }>(options::OSNOISE_HIST),
    removed: &[],
    differences: DIFFERENCES,
    run: |parsed, context| run(parsed, Form::Histogram, context),
};

pub(crate) const TOP: Tool = Tool {
    name: "rtla osnoise top",
    summary: "a table of the time that a spinning thread lost on each CPU",
    probe: "hardware",
    family: Family::Rtla,
    options: &specs::<_, { options::OSNOISE_TOP.len() }>(options::OSNOISE_TOP),
    removed: &[],
    differences: DIFFERENCES,
    run: |parsed, context| run(parsed, Form::Top, context),
};

pub(crate) const HWNOISE: Tool = Tool {
    name: "rtla hwnoise",
    summary: "a table of the time that hardware took from a spinning thread on each CPU",
    probe: "hardware",
    family: Family::Rtla,
    options: &specs::<_, { options::OSNOISE_TOP.len() }>(options::OSNOISE_TOP),
    removed: &[],
    differences: DIFFERENCES,
    run: |parsed, context| run(parsed, Form::Hardware, context),
};

const DIFFERENCES: &[Difference] = &[
    SOURCE,
    Difference {
        what: "The table is printed only after the run, as with `-q`.",
        why: "The noise of a run is known only at its end.",
    },
    Difference {
        what: "Threads with a real-time policy, threads with interrupts disabled (hwnoise) and \
            punctual's own threads spin for at most 90% of each period, and at most 100 ms in one \
            go. A longer `-r` is divided, with a message; `Period` then counts more periods.",
        why: "Nothing else can run on a CPU during such a spin.",
    },
    Difference {
        what: "With punctual's own threads, NMIs and softirqs are unknown and shown as `-`. Gaps \
            without an interrupt or another thread count as hardware; gaps of unknown cause count \
            as noise, but in none of the columns. hwnoise then counts only the gaps of hardware, \
            and its `Max Noise` is unknown. `hwnoise -s` then ends with status 1.",
        why: "A thread in user space sees a gap, and its causes only in the kernel's counters. It \
            cannot stop at gaps of hardware only.",
    },
    Difference {
        what: "With punctual's own threads, `-s` stops at the end of the noisy period; `-S`, \
            `-C NAME`, and the action `continue` with `-s` end with status 1. Lengths from 1 ms on are \
            rounded down to three digits. With a divided `-r`, `-S` applies to the shorter \
            periods.",
        why: "The probe evaluates whole periods.",
    },
    Difference {
        what: "A histogram has a summary even if all noise is longer than its rows. `-P` accepts \
            no deadline, and for other policies only the nice value 0.",
        why: "The original prints zeros if no row has noise.",
    },
    TRACE,
    SPELLING,
];

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Histogram,
    Top,
    Hardware,
}

/// The longest spin of threads that nothing can interrupt.
const LONGEST_US: u64 = 100_000;

fn run(parsed: &Parsed, form: Form, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    shared::warn_of_spare_words(parsed, context);
    let machine = Machine::from_host(&context.host)?;
    let (rows, default) = match form {
        Form::Histogram => (options::OSNOISE_HIST, RtlaSettings::osnoise()),
        Form::Top => (options::OSNOISE_TOP, RtlaSettings::osnoise()),
        Form::Hardware => (options::OSNOISE_TOP, RtlaSettings::hwnoise()),
    };
    let settings = RtlaSettings::read(parsed, rows, &machine, default)?;
    let trace = settings.kernel_trace(NoiseStop {
        single_us: settings.stop_us,
        total_us: settings.stop_total_us,
    });
    let ways = ways(&settings, &trace, form, context)?;
    let (session, by_kernel) = prepare(ways, &settings, context)?;
    let trace = by_kernel.then_some(trace);
    let stop = Arc::clone(&context.signals.stop);
    let mut view = View {
        warm_up: Nanos::from_secs(settings.warm_up_s),
        length: Nanos::ZERO,
        threshold: Threshold::new(&settings, trace.clone()),
        output: LiveOutput::new(&mut *context.out, context.signals.clone()),
    };
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    let View {
        length,
        threshold,
        output,
        ..
    } = view;
    let threshold = threshold.finish();
    output.finish()?;
    let outcome = outcome?;
    let stopped = end_of_threshold(&threshold, trace.as_deref(), &settings, &outcome, context)?;
    let recording = &outcome.recording;
    let by_kernel = recording.tables.iter().any(|table| table.name == "osnoise");
    let text = match form {
        Form::Histogram => {
            let lengths = if by_kernel {
                table::lengths_of_kernel(recording)
            } else {
                table::lengths_of_threads(recording, settings.threshold_us.max(1))
            };
            table::histogram(&lengths, &settings.rows, length)
        }
        Form::Top | Form::Hardware => {
            let hardware = form == Form::Hardware;
            let noise = if by_kernel {
                table::of_kernel(recording)
            } else {
                table::of_threads(recording, hardware)
            };
            table::top(&noise, hardware, length)
        }
    };
    write!(context.out, "{text}")?;
    report_failures(&threshold, context)?;
    end(
        "osnoise",
        &settings,
        stopped,
        trace.as_deref(),
        &outcome,
        context,
    )
}

/// Follows a run: measures its length without its warm-up, and stops it at the limits.
struct View<'a> {
    warm_up: Nanos,
    length: Nanos,
    threshold: Threshold<'a>,
    output: LiveOutput<'a>,
}

impl Watcher for View<'_> {
    fn begin(&mut self, _: &punctual_model::Recording) {}
    fn progress(&mut self, snapshot: &Snapshot) {
        self.length = snapshot.elapsed.saturating_sub(self.warm_up);
        self.threshold.turn(&mut self.output);
    }
    fn end(&mut self) {}

    fn ends(&self) -> bool {
        self.threshold.has_stopped()
    }
}

/// Returns the period and the time that a thread spins in each period, in microseconds. Threads that
/// nothing can interrupt must leave time for others.
pub(super) fn divided(period_us: u64, runtime_us: u64) -> (u64, u64) {
    if runtime_us <= LONGEST_US && runtime_us <= period_us / 10 * 9 {
        return (period_us, runtime_us);
    }
    let window = period_us.min(LONGEST_US);
    let share = u128::from(window) * u128::from(runtime_us) / u128::from(period_us.max(1));
    let width = u64::try_from(share).unwrap_or(window);
    (window, width.min(window / 10 * 9))
}

/// Returns the ways to measure: with the kernel's tracer, and with the probe's own threads.
fn ways(
    settings: &RtlaSettings,
    trace: &Arc<KernelTrace>,
    form: Form,
    context: &mut ToolContext<'_>,
) -> Result<Vec<Way>, CompatError> {
    let (policy, _) = settings.scheduling.unwrap_or((Policy::Other, 0));
    let whole = (settings.period_us, settings.runtime_us());
    let short = divided(settings.period_us, settings.runtime_us());
    let threshold = micros(settings.threshold_us.max(1));
    let is_bound = policy.is_real_time() || form == Form::Hardware;
    let mut kernel = vec![
        ("source", "osnoise".to_owned()),
        ("noise-threshold", threshold.clone()),
        ("threshold", threshold.clone()),
    ];
    if form == Form::Hardware {
        kernel.push(("no-interrupts", "yes".to_owned()));
    }
    let mut own = vec![("threshold", threshold)];
    if form == Form::Histogram {
        own.push(("turns", "yes".to_owned()));
    }
    let way = |said: &str, by_kernel, duty: (u64, u64), parameters: Vec<(&'static str, String)>| {
        let said = if duty == whole {
            said.to_owned()
        } else {
            let (window, width) = duty;
            format!("{said}, which spin for {width} us of every {window} us")
        };
        let mut request = request(settings, duty, parameters, context)?;
        if by_kernel {
            // The kernel stops by itself, and its threads still exist while the actions run.
            request.limits.break_above = None;
            request.kernel_trace = Some(Arc::clone(trace));
        }
        Ok::<Way, CompatError>(Way {
            said,
            by_kernel,
            request,
        })
    };
    let mut ways = vec![way(
        "threads of the kernel's tracer osnoise",
        true,
        if is_bound { short } else { whole },
        kernel,
    )?];
    // Own threads would stop at any noise, not only at that of hardware. They know the noise of a
    // period only after the run.
    let stops_at_hardware = form == Form::Hardware && settings.stop_us > 0;
    let needs_kernel = stops_at_hardware
        || settings.stop_total_us > 0
        || matches!(settings.group, Some(TracerGroup::Named(_)))
        || (settings.stop_us > 0 && continues(&settings.on_threshold));
    if !needs_kernel {
        ways.push(way(
            "punctual's own threads, not the kernel's tracer osnoise",
            false,
            short,
            own,
        )?);
    }
    Ok(ways)
}

fn request(
    settings: &RtlaSettings,
    (window_us, width_us): (u64, u64),
    mut parameters: Vec<(&'static str, String)>,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    parameters.push(("window", micros(window_us)));
    parameters.push(("width", micros(width_us)));
    let duration_s = match settings.duration_s {
        0 => 0,
        seconds => seconds + settings.warm_up_s,
    };
    let mut request = shared::request(context, "hardware", &parameters, 0, duration_s)?;
    let (policy, priority) = settings.scheduling.unwrap_or((Policy::Other, 0));
    let below_us = settings.stop_us.checked_sub(1);
    request.threads.cpus.clone_from(&settings.cpus);
    request.threads.policy = Some(policy);
    request.threads.priority = (policy != Policy::Other).then_some(priority);
    request.warm_up = Some(Nanos::from_secs(settings.warm_up_s));
    request.limits.break_above = below_us.map(|below| Unit::Micros.above(below));
    Ok(request)
}
