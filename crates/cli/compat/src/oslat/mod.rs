//! oslat measures interruptions of a busy loop.
//!
//! The facts about the original are from rt-tests 2.10, `src/oslat/oslat.c`, and from its output.

mod result;
mod settings;
mod summary;
#[cfg(test)]
mod tests;

use punctual_model::Nanos;
use punctual_session::{Request, Tracemark};

use crate::lines::Unit;
use crate::live_output::Silent;
use crate::machine::Machine;
use crate::option_row::specs;
use crate::shared;
use crate::usage;
use crate::{CompatError, Difference, Family, Parsed, Tool, ToolContext};
use settings::OslatSettings;

pub(crate) const TOOL: Tool = Tool {
    name: "oslat",
    summary: "interruptions of a busy loop on each CPU",
    probe: "hardware",
    family: Family::RtTests,
    options: &specs::<_, { settings::OPTIONS.len() }>(settings::OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "The threads spin for 90 ms of every 100 ms; `Duration` is the total spinning \
                time. CPU 0 causes no warning.",
            why: "The original spins without a pause. At a real-time priority, the kernel's \
                throttling then stops it for 50 ms of every second, which it reports as its \
                maximum. Other threads bound to that CPU hang.",
        },
        Difference {
            what: "After a gap above 10 us, the kernel's counters are read to find its cause, \
                which the table `gaps` of the recording shows. The thread does not spin while the \
                counters are read, so that time is not in the histogram.",
            why: "The original does not show causes.",
        },
        Difference {
            what: "The buckets have the resolution of the recording. With the usual width of 1 us, \
                they are exact below 1 ms. With `-W`, they have three significant digits (steps of \
                1 ns up to 1 us, 10 ns up to 10 us).",
            why: "The histogram stores lengths up to 1000 s with three significant digits.",
        },
        Difference {
            what: "`-T` stops at the end of the spin that reached the threshold, at most 90 ms \
                later.",
            why: "Samples are recorded only between the spins.",
        },
        Difference {
            what: "The unit of `Counter Freq` is spelled `(Mhz)`, as in rt-tests up to 2.4.",
            why: "Scripts match that line.",
        },
        Difference {
            what: "With `-B`, the bias is the shortest iteration of the whole run. With `-s` as \
                well, it is the shortest iteration on the first CPU.",
            why: "The original determines the bias during its warm-up of one second.",
        },
    ],
    run,
};

/// Time in each window during which the thread spins, and length of the window.
const WIDTH: &str = "90ms";
const WINDOW: &str = "100ms";
/// Duration before counting starts, like the warm-up of the original.
const WARM_UP_S: u64 = 1;

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    write!(context.out, "{}", usage::version(&TOOL))?;
    if parsed.has("version") {
        return Ok(0);
    }
    shared::warn_of_spare_words(parsed, context);
    let settings = OslatSettings::read(parsed, &Machine::from_host(&context.host)?)?;
    let file = shared::json_file(settings.common.json.as_ref())?;
    let session = shared::prepare(request(&settings, context)?, context)?;
    if let Some(cpu) = settings.main_cpu
        && let Err(error) = punctual_rt::affinity::set(punctual_rt::current_tid(), &[cpu])
    {
        context.warn(&format!("the main thread stays where it is: {error}"));
    }
    if !settings.common.quiet {
        write!(context.out, "{}", summary::head(&settings))?;
        context.out.flush()?;
    }
    let stop = std::sync::Arc::clone(&context.signals.stop);
    let outcome = session.run(context.store.as_deref(), &mut Silent, &stop)?;
    if !settings.common.quiet {
        writeln!(context.out, "Test completed.\n")?;
    }
    result::write(&settings, &outcome, file, context)
}

fn request(settings: &OslatSettings, context: &ToolContext<'_>) -> Result<Request, CompatError> {
    let mut parameters = vec![
        ("window", WINDOW.to_owned()),
        ("width", WIDTH.to_owned()),
        ("turns", "yes".to_owned()),
    ];
    if settings.copies {
        parameters.push(("copy", settings.memory.to_string()));
    }
    let duration_s = settings.common.duration_s + WARM_UP_S;
    // The run stops when the threshold is reached, not only when it is exceeded. 0 disables the
    // threshold.
    let below_us = settings.threshold_us.checked_sub(1);
    let mut request = shared::request(
        context,
        "hardware",
        &parameters,
        settings.priority,
        duration_s,
    )?;
    request.threads.cpus = Some(settings.cpus.clone());
    request.warm_up = Some(Nanos::from_secs(WARM_UP_S));
    request.limits.break_above = below_us.map(|below_us| Unit::Micros.above(below_us));
    request.limits.tracemark = below_us.map(|_| Tracemark::Micros);
    Ok(request)
}
