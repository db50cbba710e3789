//! cyclicdeadline measures the start latency of SCHED_DEADLINE threads.
//!
//! The facts about the original are from rt-tests 2.10, `src/sched_deadline/cyclicdeadline.c`, and
//! from its output.

mod result;
mod settings;
mod view;

use punctual_files::Output;
use punctual_session::{Request, Tracemark};

use crate::lines::Unit;
use crate::live_output::LiveOutput;
use crate::machine::Machine;
use crate::option_row::specs;
use crate::shared::{self, micros};
use crate::{CompatError, Difference, Family, Parsed, Tool, ToolContext};
use settings::CyclicdeadlineSettings;
use view::View;

pub(crate) const TOOL: Tool = Tool {
    name: "cyclicdeadline",
    summary: "latency of SCHED_DEADLINE threads at the start of their periods",
    probe: "deadline",
    family: Family::RtTests,
    options: &specs::<_, { settings::OPTIONS.len() }>(settings::OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "The threads run on all usable CPUs. `-a` with fewer CPUs is refused, and the \
                message explains how to measure on fewer CPUs. Without `-a`, a line on stderr \
                lists the CPUs.",
            why: "The kernel admits a deadline thread only if it may run on all CPUs of its root \
                domain. The original creates cpusets, moves every process of the machine into \
                them, and uses the last CPU if `-a` is not given.",
        },
        Difference {
            what: "The scheduler feature HRTICK_DL is left unchanged.",
            why: "The original enables it for runtimes below 2 ms and does not restore it.",
        },
        Difference {
            what: "Latencies are measured from the kernel's start of each period, which is \
                estimated from the first wake-ups. Periods without a wake-up count as missed.",
            why: "The original measures from its first wake-up. Its figures therefore show only \
                how much later or earlier the other wake-ups were than the first.",
        },
        Difference {
            what: "A thread's values are printed only after its first 20 samples, or after half a \
                second if it has fewer by then. Until then `Min` is 0, as in the original.",
            why: "The start of the periods is estimated from these samples. All of them are \
                counted.",
        },
        Difference {
            what: "The number of cycles is one less than in the original.",
            why: "The original counts a call of its function before the start as a cycle.",
        },
        Difference {
            what: "Deadlines below 100 us and above 4194304 us are refused.",
            why: "The kernel refuses such deadlines unless its limits (sched_dl_period_min_us and \
                sched_dl_period_max_us) were changed.",
        },
    ],
    run,
};

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    shared::warn_of_spare_words(parsed, context);
    let settings = CyclicdeadlineSettings::read(parsed, &Machine::from_host(&context.host)?)?;
    for note in &settings.notes {
        context.note(note);
    }
    let files = Files::open(&settings)?;
    let session = shared::prepare(request(&settings, context)?, context)?;
    writeln!(context.out, "Using all CPUS")?;
    if settings.verbose {
        for place in 0..settings.threads as usize {
            let (runtime, interval) = (settings.runtime_of(place), settings.interval_of(place));
            writeln!(context.out, "interval: {runtime}:{interval}")?;
        }
    }
    let (signals, stop) = (context.signals.clone(), context.signals.stop.clone());
    let mut view = View::new(&settings, LiveOutput::new(&mut *context.out, signals));
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    let lines = view.finish()?;
    let outcome = outcome?;
    if settings.debug {
        for line in &lines {
            let (runtime, deadline) = (
                settings.runtime_of(line.index),
                settings.interval_of(line.index),
            );
            context.say(&format!(
                "thread[{}] runtime={runtime}us deadline={deadline}us",
                line.tid
            ));
        }
    }
    result::write(&settings, &outcome, lines, files, context)
}

/// Files written at the end of the run.
struct Files {
    json: Option<Output>,
    histogram: Option<Output>,
}

impl Files {
    fn open(settings: &CyclicdeadlineSettings) -> Result<Self, CompatError> {
        Ok(Self {
            json: shared::json_file(settings.common.json.as_ref())?,
            histogram: shared::json_file(settings.common.histogram_file.as_ref())?,
        })
    }
}

fn request(
    settings: &CyclicdeadlineSettings,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let parameters = [
        ("runtime", micros(settings.runtime_of(0))),
        ("deadline", micros(settings.interval_us)),
        ("period", micros(settings.interval_us)),
        ("distance", micros(settings.step_us)),
        ("threads", settings.threads.to_string()),
    ];
    let common = &settings.common;
    let break_above = Unit::Micros.break_above(common.break_value);
    let marked = break_above.filter(|_| common.tracemark);
    let mut request = shared::request(context, "deadline", &parameters, 0, common.duration_s)?;
    request.threads.cpus.clone_from(&settings.cpus);
    request.limits.break_above = break_above;
    request.limits.tracemark = marked.map(|_| Tracemark::Micros);
    Ok(request)
}
