//! The senders of interrupts between CPUs, and the reasons why a nohz_full CPU has a tick, as the
//! kernel's tracer recorded them during the count.

use punctual_model::{CpuSet, Interruptions, SentInterrupts, Severity, tick_dependencies};

use super::counting;
use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::{BASE, Check, Stance};
use punctual_model::{PERIODIC, SPINNING};

/// The trace event that contains the reasons why the tick was not stopped.
const TICK_STOP: &str = "tick_stop";
/// Maximum number of senders that a text names.
const NAMED_SENDERS: usize = 3;

pub(super) const TICK_DEPENDENCIES: Check = Check {
    name: "tick-dependencies",
    subject: "reasons for a tick on nohz_full CPUs",
    expected: "none",
    judge: ticks,
    why: "The kernel stops the tick of a nohz_full CPU only while nothing depends on it: at most \
          one runnable thread, no CPU-time timer, no perf event, no pending work of RCU.",
    source: "Documentation/timers/no_hz.rst; include/linux/tick.h, enum tick_dep_bits",
    stances: &[
        Stance {
            roles: SPINNING,
            severity: Severity::High,
            note: "the tick interrupts a spinning thread HZ times a second",
        },
        Stance {
            roles: PERIODIC,
            severity: Severity::Info,
            note: "a periodic thread has its own timer interrupts in any case",
        },
    ],
    reboot: "remove the reason: move the second thread to another CPU, end the perf event or the \
             CPU-time timer",
    ..BASE
};

/// Returns the recorded events.
fn recorded<'a>(reader: &FactReader<'a>) -> Result<&'a Interruptions, Missing> {
    let fact = reader.facts.interruptions.as_ref();
    let fact = fact.ok_or_else(|| {
        Missing::unknown("the facts contain no events: an earlier version captured them")
    })?;
    match (&fact.value, &fact.unknown) {
        (Some(known), _) => Ok(known),
        (None, why) => {
            let why = why.as_deref().unwrap_or("not recorded");
            reader.could_not(&fact.source, why);
            Err(Missing::unknown(format!("no events were recorded: {why}")))
        }
    }
}

fn ticks(reader: &FactReader) -> Judged {
    let full = &reader.host().processor.nohz_full;
    if full.unknown.as_deref() == Some("not there") {
        return Err(Missing::not_applicable("this kernel cannot stop the tick"));
    }
    let full: CpuSet = reader.fact(full)?.intersection(reader.cpus);
    if full.is_empty() {
        return Err(Missing::not_applicable("no measured CPU is in nohz_full"));
    }
    reader.counted()?;
    let found = recorded(reader)?;
    if found.missing.iter().any(|event| event == TICK_STOP) {
        return Err(Missing::unknown(format!(
            "this kernel has no event timer:{TICK_STOP}"
        )));
    }
    let of_cpus = found.ticks.iter().filter(|tick| full.contains(tick.cpu));
    let Some(most) = of_cpus.max_by_key(|tick| tick.count) else {
        return match found.lost {
            0 => Ok(Verdict::Ok("none".to_owned())),
            lost => Err(Missing::unknown(format!(
                "{lost} events of the tracer were lost"
            ))),
        };
    };
    let threads = match most.threads.as_slice() {
        [] => String::new(),
        threads => format!("; threads that ran: {}", threads.join(", ")),
    };
    let text = format!(
        "{} on CPU {}: {}{threads}",
        rate(most.count, found),
        most.cpu,
        tick_dependencies(most.dependency)
    );
    reader.saw(format!("timer:{TICK_STOP} over {}", found.duration), &text);
    Ok(Verdict::Fail(text))
}

/// Appends the most frequent senders of interrupts to the measured CPUs, if they are known.
pub(super) fn with_senders(reader: &FactReader, text: String) -> String {
    let Ok(found) = recorded(reader) else {
        return text;
    };
    let sent: Vec<&SentInterrupts> = found
        .sent
        .iter()
        .filter(|sent| reader.cpus.contains(sent.to))
        .take(NAMED_SENDERS)
        .collect();
    if sent.is_empty() {
        return text;
    }
    let senders: Vec<String> = sent.iter().map(|sent| sender(sent, found)).collect();
    let senders = senders.join("; ");
    reader.saw(format!("ipi:ipi_send_* over {}", found.duration), &senders);
    format!("{text}; senders: {senders}")
}

/// Formats a sender as `shim-12 on CPU 0 to CPU 3, 120 a second, in smp_call_function_many_cond`.
fn sender(sent: &SentInterrupts, found: &Interruptions) -> String {
    let thread = sent.thread.as_deref().unwrap_or("an interrupt handler");
    let function =
        (sent.function.as_ref()).map_or(String::new(), |function| format!(", in {function}"));
    format!(
        "{thread} on CPU {} to CPU {}, {}{function}",
        sent.from,
        sent.to,
        rate(sent.count, found)
    )
}

/// Formats a rate. If events were lost, it is a lower limit.
fn rate(count: u64, found: &Interruptions) -> String {
    let least = if found.lost > 0 { "at least " } else { "" };
    format!("{least}{}", counting::rate(count, found.duration))
}
