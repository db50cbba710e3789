//! cyclicdeadline: how late threads of SCHED_DEADLINE begin their periods.
//!
//! Facts from rt-tests 2.10, `src/sched_deadline/cyclicdeadline.c`, and from its
//! output.

mod options;
mod result;
mod settings;
mod view;

use punctual_files::Output;

use crate::paper::Paper;
use crate::shared::{self, Ask, micros};
use crate::{CompatError, Difference, Parsed, Stage, Tool};
use settings::Settings;
use view::View;

pub(crate) const TOOL: Tool = Tool {
    name: "cyclicdeadline",
    summary: "how late threads of SCHED_DEADLINE begin their periods",
    probe: "deadline",
    options: options::OPTIONS,
    removed: &[],
    differences: &[
        Difference {
            what: "The threads run on all CPUs that may be used. Other CPUs (`-a` with fewer of them) \
                   are refused with the way to have them; without `-a` a line on stderr says it.",
            why: "The kernel admits such a thread only on all CPUs of its root domain. The original \
                  makes cpusets of its own, moves every process of the machine into them, and uses \
                  the last CPU where `-a` is not given.",
        },
        Difference {
            what: "The scheduler's feature HRTICK_DL is left as it is.",
            why: "The original switches it on for runtimes below 2 ms and never off again.",
        },
        Difference {
            what: "Latencies count from the begin of the period as the kernel makes it, which the \
                   first wake-ups show; periods without a wake-up are missed.",
            why: "The original counts from its first wake-up, so that its figures hold how much later \
                  or earlier the others were than that one.",
        },
        Difference {
            what: "A thread's values are printed only when it has some, and `Min` is 0 before that, as in \
                   the original.",
            why: "Threads find the begin of their periods first.",
        },
    ],
    run,
};

fn run(parsed: &Parsed, stage: &mut Stage<'_>) -> Result<u8, CompatError> {
    let settings = Settings::read(parsed, &stage.host)?;
    for note in &settings.notes {
        stage.note(note);
    }
    let files = Files::open(&settings)?;
    let session = ask(&settings).prepare(stage)?;
    writeln!(stage.out, "Using all CPUS")?;
    if settings.verbose {
        for place in 0..settings.threads as usize {
            let (runtime, interval) = (settings.runtime_of(place), settings.interval_of(place));
            writeln!(stage.out, "interval: {runtime}:{interval}")?;
        }
    }
    let (signals, stop) = (stage.signals.clone(), stage.signals.stop.clone());
    let mut view = View::new(&settings, Paper::new(&mut *stage.out, signals));
    let outcome = session.run(stage.store.as_deref(), &mut view, &stop);
    let lines = view.finish()?;
    let outcome = outcome?;
    if settings.debug {
        for line in &lines {
            let (runtime, deadline) = (
                settings.runtime_of(line.place),
                settings.interval_of(line.place),
            );
            stage.say(&format!(
                "thread[{}] runtime={runtime}us deadline={deadline}us",
                line.tid
            ));
        }
    }
    result::write(&settings, &outcome, lines, files, stage)
}

/// Files that are written when the run is over.
struct Files {
    json: Option<Output>,
    histogram: Option<Output>,
}

impl Files {
    fn open(settings: &Settings) -> Result<Self, CompatError> {
        Ok(Self {
            json: shared::json_file(settings.json.as_ref())?,
            histogram: shared::json_file(settings.histogram_file.as_ref())?,
        })
    }
}

fn ask(settings: &Settings) -> Ask {
    Ask {
        probe: "deadline",
        parameters: vec![
            ("runtime", micros(settings.runtime_of(0))),
            ("deadline", micros(settings.interval_us)),
            ("period", micros(settings.interval_us)),
            ("distance", micros(settings.step_us)),
            ("threads", settings.threads.to_string()),
        ],
        cpus: settings.cpus.clone(),
        duration_s: settings.duration_s,
        break_limit_us: settings.break_limit_us,
        tracemark: settings.tracemark,
        ..Ask::default()
    }
}
