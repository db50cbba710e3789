//! cyclicdeadline: start latency of SCHED_DEADLINE threads.
//!
//! Facts from rt-tests 2.10, `src/sched_deadline/cyclicdeadline.c`, and from its
//! output.

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
use crate::{CompatError, Difference, Parsed, Tool, ToolContext};
use settings::CyclicdeadlineSettings;
use view::View;

pub(crate) const TOOL: Tool = Tool {
    name: "cyclicdeadline",
    summary: "start latency of periods of SCHED_DEADLINE threads",
    probe: "deadline",
    options: &specs::<_, { settings::OPTIONS.len() }>(settings::OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "The threads run on all usable CPUs. `-a` with fewer CPUs is refused, with the \
                way to measure on them. Without `-a`, a line on stderr states the CPUs.",
            why: "The kernel admits such a thread only on all CPUs of its root domain. The \
                original creates cpusets, moves every process of the machine into them, and uses \
                the last CPU if `-a` is not given.",
        },
        Difference {
            what: "The scheduler's feature HRTICK_DL is not changed.",
            why: "The original enables it for runtimes below 2 ms and does not restore it.",
        },
        Difference {
            what: "Latencies count from the start of the period as set by the kernel, which the \
                   first wake-ups show; periods without a wake-up are missed.",
            why: "The original counts from its first wake-up, so that its figures hold how much later \
                  or earlier the others were than that one.",
        },
        Difference {
            what: "A thread's values are printed only when it has 20, or those of half a second where \
                   they are fewer; `Min` is 0 before that, as in the original.",
            why: "They show the start of the periods. All of them count.",
        },
        Difference {
            what: "Cycles are one fewer than in the original.",
            why: "The original counts a call of its function before the start as a cycle.",
        },
        Difference {
            what: "Deadlines below 100 us and above 4194304 us are refused.",
            why: "The kernel refuses them unless its own limits (sched_dl_period_min_us and \
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
    let break_above = Unit::Micros.break_above(common.break_limit);
    let marked = break_above.filter(|_| common.tracemark);
    Ok(Request {
        cpus: settings.cpus.clone(),
        break_above,
        tracemark: marked.map(|_| Tracemark::Micros),
        ..shared::request(context, "deadline", &parameters, 0, common.duration_s)?
    })
}
