//! The section about a trace of another tool: its content, missing events and how to record them.

use punctual_model::cause::OpenAtEnd;
use punctual_model::{
    EVENTS, EventLevel, Explanation, FunctionRun, HostTrace, Nanos, NotShown, Recording,
    TraceSummary, counted, grouped,
};

use super::table::{Column, Row, Table};
use super::{Block, Section, policies};
use crate::figures;

/// Maximum number of texts that state a latency.
const STATED: usize = 5;

/// Maximum number of sentences about what had not ended at the end of the trace.
const OPEN: usize = 3;

/// Returns the file, and what is unknown because the file does not show it. Returns `None` if
/// punctual recorded the events itself.
pub(super) fn section(recording: &Recording) -> Option<Section> {
    let explanation = recording.explanation.as_ref()?;
    let trace = explanation.trace.as_ref()?;
    let mut blocks: Vec<Block> = policies::sentences(recording)
        .into_iter()
        .map(Block::text)
        .collect();
    blocks.push(Block::text(file(trace)));
    blocks.extend(trace.host.as_ref().map(|host| Block::text(joined(host))));
    let mut warnings = gaps(trace);
    warnings.extend(clocks(trace));
    warnings.extend(missing(recording, explanation, trace));
    warnings.extend(trace.host.iter().flat_map(of_host));
    if !warnings.is_empty() {
        blocks.push(Block::Warnings(warnings));
    }
    blocks.extend(open(trace).into_iter().map(Block::text));
    blocks.extend((trace.scheduler.iter()).map(|finding| Block::text(finding.sentence())));
    for stated in trace.stated.iter().take(STATED) {
        let (number, text) = (stated.outlier, &stated.text);
        blocks.push(Block::text(format!(
            "outlier {number}: the trace states {text}"
        )));
    }
    Some(Section::new(blocks))
}

/// Returns what had not ended at the end of the trace.
fn open(trace: &TraceSummary) -> Vec<String> {
    let mut lines: Vec<String> = (trace.open.iter().take(OPEN))
        .map(OpenAtEnd::sentence)
        .collect();
    let more = trace.open.len().saturating_sub(OPEN) as u64;
    if more > 0 {
        let threads = counted(more, "further thread", "further threads");
        lines.push(format!("{threads} had not ended a wait or a job either"));
    }
    lines
}

/// Returns the kernel functions with the longest runs.
pub(super) fn functions(trace: &TraceSummary) -> Option<Section> {
    let rows = trace.functions.iter().map(|sum| {
        Row::new([
            sum.function.to_string(),
            grouped(sum.runs),
            sum.longest_ns.to_string(),
        ])
    });
    let rows: Vec<Row> = rows.collect();
    let columns = vec![
        Column::left("function").most(40),
        Column::right(format!("runs of {} or more", FunctionRun::LEAST)),
        Column::right("longest"),
    ];
    (!rows.is_empty()).then(|| {
        let table = Block::Table(Table::new(columns, rows));
        Section::titled("Longest runs of kernel functions", vec![table])
    })
}

fn file(trace: &TraceSummary) -> String {
    let span = trace.to_ns.saturating_sub(trace.from_ns);
    let events = counted(trace.events, "event", "events");
    let mut text = format!("{}: {}, {events}", trace.file, trace.format);
    match trace.cpus.len() {
        0 => text.push_str(" with a time"),
        1 => text.push_str(&format!(" on CPU {}", trace.cpus)),
        _ => text.push_str(&format!(" on CPUs {}", trace.cpus)),
    }
    if !trace.cpus.is_empty() {
        let (from, to) = (trace.from_ns, trace.to_ns);
        let (from, to) = (figures::trace_time(from), figures::trace_time(to));
        text.push_str(&format!(" in {span}, {from} to {to}"));
    }
    if let Some(clock) = &trace.clock {
        text.push_str(&format!(", clock {clock}"));
    }
    if let Some(kernel) = &trace.kernel {
        text.push_str(&format!(", Linux {kernel}"));
    }
    text
}

/// Returns the trace of the host, and the time that it explains.
fn joined(host: &HostTrace) -> String {
    format!(
        "joined with {}, the trace of the host of {}: summed over the outliers, the virtual CPUs did \
         not run for {}",
        host.file, host.guest, host.away_ns
    )
}

fn of_host(host: &HostTrace) -> Vec<String> {
    let mut warnings: Vec<String> = (host.warnings.iter())
        .map(|warning| format!("{}: {warning}", host.file))
        .collect();
    if host.unknown_ns > Nanos::ZERO {
        warnings.push(format!(
            "{}: for {} of the outliers, the events do not show whether the virtual CPU ran",
            host.file, host.unknown_ns
        ));
    }
    warnings
}

fn gaps(trace: &TraceSummary) -> Vec<String> {
    let mut gaps = Vec::new();
    if trace.gaps > 0 {
        let lost = match trace.lost {
            0 => "an unknown number of events".to_owned(),
            lost => counted(lost, "event", "events"),
        };
        gaps.push(format!(
            "{lost} lost in {}: the time in these gaps is unexplained",
            counted(trace.gaps, "gap", "gaps")
        ));
    }
    if trace.switches_missing > 0 {
        gaps.push(format!(
            "{} between threads missing from the trace: the affected time is unexplained",
            counted(trace.switches_missing, "switch", "switches")
        ));
    }
    if trace.incomplete > 0 {
        gaps.push(format!(
            "{} of unknown length, because events in between are missing",
            counted(trace.incomplete, "wait", "waits")
        ));
    }
    gaps
}

fn clocks(trace: &TraceSummary) -> Option<String> {
    if trace.cpus.len() < 2 {
        return None;
    }
    match trace.clocks_differ {
        Some(false) => None,
        Some(true) => Some(format!(
            "clock {} differs between CPUs: intervals between events on two CPUs are inaccurate",
            trace.clock.as_deref().unwrap_or("of the trace")
        )),
        None => Some(
            "the clock is unknown: intervals between events on two CPUs may be inaccurate"
                .to_owned(),
        ),
    }
}

/// Returns the events that the explanation needs but the trace does not contain.
fn needed(explanation: &Explanation, trace: &TraceSummary) -> Vec<&'static str> {
    let vectors = trace.not_shown.contains(&NotShown::Vectors);
    let needed = EVENTS.iter().filter(|spec| {
        let vector = spec.system == "irq_vectors";
        spec.listed
            && spec.level == EventLevel::Default
            && ((spec.warns && spec.watched.is_none()) || (vector && vectors))
    });
    let missing = |name: &&str| explanation.missing_events.iter().any(|one| one == name);
    needed.map(|spec| spec.full_name).filter(missing).collect()
}

/// Returns what is not in the trace, and how to record it.
fn missing(recording: &Recording, explanation: &Explanation, trace: &TraceSummary) -> Vec<String> {
    let mut notes = Vec::new();
    let needed = needed(explanation, trace);
    if needed.contains(&"sched:sched_waking")
        && (explanation.events.iter()).any(|event| event == "sched:sched_wakeup")
    {
        notes.push(
            "no sched_waking: latencies are counted from sched_wakeup, when the thread is already \
             in the run queue"
                .to_owned(),
        );
    }
    if trace.not_shown.contains(&NotShown::Flags) {
        notes.push(
            "the events have no flags, so it is unknown whether interrupts were disabled"
                .to_owned(),
        );
    }
    if needed.is_empty() {
        return notes;
    }
    let record = if trace.format.contains("CTF") {
        let mut names: Vec<String> = needed.iter().map(|name| lttng_name(name)).collect();
        names.dedup();
        format!("lttng enable-event --kernel '{}'", names.join(","))
    } else {
        let recorder = if trace.format.contains("perf") {
            "perf record -a"
        } else {
            "trace-cmd record"
        };
        let mut options: Vec<String> = needed.iter().map(|name| option(name)).collect();
        options.dedup();
        format!("{recorder} {}", options.join(" "))
    };
    let longest = explanation.outliers.iter().max_by_key(|one| one.latency_ns);
    let thread = longest.and_then(|one| recording.threads.get(one.thread as usize));
    // `comm-pid`.
    let title = thread.map(punctual_model::ThreadRecord::title);
    let name = title.as_deref().and_then(|title| title.rsplit_once('-'));
    let name = name.map(|(name, _)| name);
    let name = name.filter(|name| !name.is_empty()).unwrap_or("NAME");
    notes.push(format!(
        "no events of {}: the time that these events explain is unknown. To record them next \
         time: {record}. To record all necessary events: punctual explain --wait --comm {name}",
        needed.join(", "),
    ));
    notes
}

/// Returns LTTng's name for an event.
fn lttng_name(event: &str) -> String {
    match event.split_once(':') {
        Some(("irq_vectors", _)) => "x86_irq_vectors_*".to_owned(),
        Some(("irq", name)) if name.starts_with("softirq_") => format!("irq_{name}"),
        Some(("timer", name)) if name.starts_with("hrtimer_") => format!("timer_{name}"),
        Some((_, name)) => name.to_owned(),
        None => event.to_owned(),
    }
}

/// Returns the option of trace-cmd that records an event.
fn option(event: &str) -> String {
    match event.split_once(":*") {
        Some((system, _)) => format!("-e {system}"),
        None => format!("-e {event}"),
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, Delay, KernelPriority, Task, ThreadState};

    use super::*;

    #[test]
    fn few_of_many_open_waits_have_a_sentence() {
        let wait = |pid| OpenAtEnd {
            thread: Task {
                pid,
                comm: Comm::new(b"make"),
                prio: KernelPriority(120),
            },
            delay: Delay::Wakeup,
            since_ns: Nanos::ZERO,
            least_ns: Nanos::from_millis(2),
            state: ThreadState::Ready,
            call: None,
        };
        let of = |number: u32| {
            open(&TraceSummary {
                open: (1..=number).map(wait).collect(),
                ..TraceSummary::default()
            })
        };
        assert_eq!((of(0).len(), of(3).len()), (0, 3));
        let lines = of(5);
        assert!(lines[0].contains("make-1 (nice 0)"), "{lines:?}");
        assert_eq!(
            lines[3],
            "2 further threads had not ended a wait or a job either"
        );
    }
}
