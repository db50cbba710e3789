//! Explains the late reactions in a trace that another tool recorded.

mod calls;
pub(crate) mod chains;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod function_tests;
mod guest;
mod jobs;
mod open;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::BTreeMap;

use punctual_culprit::{LateFound, LateReactions, Reaction, Tally, TraceFacts, Wanted};
use punctual_model::{
    Accounting, Chart, Completion, Explanation, HostFacts, HostTrace, KernelPriority, Nanos,
    Origin, Outlier, ProbeRun, Recording, Requirement, StatedLatency, Task, ThreadRecord,
    TraceSummary, Unknown, Window,
};
use punctual_store::{Lease, Store, StoreError};
use punctual_tracefile::{Item, TraceFileError, TraceHead, TraceReader};

use crate::lifecycle::Start;

pub use chains::trace_chains;
pub use guest::{GuestTraceError, GuestTraces, explain_guest};
pub use jobs::explain_trace_jobs;
pub use threads::trace_threads;

/// Architectures on which every interrupt belongs to a device. They are recognized by these parts
/// of the kernel's name.
const WITHOUT_VECTORS: [&str; 8] = [
    "arm", "aarch", "riscv", "ppc", "powerpc", "s390", "mips", "loong",
];

/// Facts that every trace contains.
const KNOWN: [Unknown; 4] = [
    Unknown::Duration,
    Unknown::Scheduling,
    Unknown::Cpus,
    Unknown::WarmUp,
];

/// A trace to explain.
#[derive(Debug)]
pub struct TraceRequest {
    /// The file, as the user named it.
    pub file: String,
    /// Selects the late reactions to explain.
    pub wanted: Wanted,
    /// The command line, for the recording.
    pub command_line: Vec<String>,
}

/// The late reactions of a trace.
#[derive(Debug)]
pub struct ExplainedTrace {
    /// The explanation, as a recording of the probe that observes threads.
    pub recording: Recording,
    /// The events of each outlier, by its number.
    pub windows: BTreeMap<u64, Window>,
}

impl ExplainedTrace {
    /// Sets the start time of the trace, which the trace itself does not contain, to that of the
    /// recording.
    pub fn begin_at_start(&mut self) {
        let (wall, explanation) = (self.recording.started, &mut self.recording.explanation);
        let Some((explanation, trace)) =
            (explanation.as_mut()).and_then(|all| all.trace.clone().map(|trace| (all, trace)))
        else {
            return;
        };
        let start = Start {
            wall,
            monotonic: trace.from_ns,
        };
        for outlier in &mut explanation.outliers {
            outlier.time = start.wall_at(outlier.monotonic_ns);
        }
    }

    /// Stores the recording with the events of its outliers.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn store(&self, store: &Store, lease: &Lease) -> Result<(), StoreError> {
        let mut writer = store.begin(&self.recording, lease)?;
        let outliers = self
            .recording
            .explanation
            .iter()
            .flat_map(|all| &all.outliers);
        for outlier in outliers {
            if let Some(window) = self.windows.get(&outlier.number) {
                writer.keep_window(outlier, window)?;
            }
        }
        writer.finish(&self.recording)
    }
}

/// Finds and explains the late reactions in a trace.
///
/// # Errors
/// If the trace cannot be read.
pub fn explain_trace(
    reader: &mut dyn TraceReader,
    request: TraceRequest,
) -> Result<ExplainedTrace, TraceFileError> {
    let found = find(reader, &request)?;
    Ok(recording_of(found, reader.head(), request, None))
}

/// Finds the late reactions in a trace.
pub(crate) fn find(
    reader: &mut dyn TraceReader,
    request: &TraceRequest,
) -> Result<LateFound, TraceFileError> {
    let mut finder = LateReactions::new(request.wanted.clone());
    let mut used = false;
    let mut summaries = false;
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Event(event) => {
                used = true;
                finder.event(event);
            }
            Item::Mark(mark) => {
                let (pid, comm, prio) = (mark.pid, mark.comm, KernelPriority::UNKNOWN);
                summaries |= mark.is_summary_of_osnoise();
                used |= finder.mark(mark.time, mark.cpu, Task { pid, comm, prio }, &mark.text);
            }
            Item::Statement { statement, .. } => {
                used = true;
                finder.statement(&statement);
            }
            Item::Function { run, .. } => {
                used = true;
                finder.function(run);
            }
            Item::Lost { cpu, count, until } => finder.lost(cpu, count, until),
            // The switches state when each thread ran.
            Item::RunTime { .. } => {}
        }
    }
    let head = reader.head();
    if !used {
        return Err(TraceFileError::NothingUsed {
            format: head.format.clone(),
            remedy: if summaries {
                ". Its lines are summaries of the tracer osnoise: read them with punctual import"
            } else {
                ". Record at least sched:sched_switch and sched:sched_waking"
            },
        });
    }
    let mut calls = call_names(head);
    if request.wanted.jobs.is_some() {
        calls.extend(jobs::system_call_names());
    }
    let kernel = head.kernel.as_deref().unwrap_or_default();
    Ok(finder.finish(&TraceFacts {
        recorded: &head.recorded,
        clocks_differ: head.clocks_differ.unwrap_or(true),
        resolution: head.resolution,
        may_have_vectors: !WITHOUT_VECTORS.iter().any(|name| kernel.contains(name)),
        kernel: head.kernel.as_deref(),
        symbols: &head.symbols,
        calls: &calls,
    }))
}

/// Names of the calls that set a policy or lock memory on x86-64, by number.
const POLICY_CALLS: [(i64, &str); 6] = [
    (142, "sched_setparam"),
    (144, "sched_setscheduler"),
    (149, "mlock"),
    (151, "mlockall"),
    (314, "sched_setattr"),
    (325, "mlock2"),
];

/// Returns the names of system calls: those that the file states, and those of x86-64 if the file names
/// this architecture, or if it names none and has events of interrupt vectors, which only x86 has.
fn call_names(head: &TraceHead) -> BTreeMap<i64, String> {
    let mut names = head.calls.clone();
    let has_vectors = || {
        let mut recorded = head.recorded.iter();
        recorded.any(|event| event.starts_with("irq_vectors:"))
    };
    let machine = head.machine.as_deref();
    if machine.map_or_else(has_vectors, |machine| machine == "x86_64") {
        names.extend(POLICY_CALLS.map(|(id, name)| (id, name.to_owned())));
    }
    names
}

pub(crate) fn recording_of(
    mut found: LateFound,
    head: &TraceHead,
    request: TraceRequest,
    mut host: Option<HostTrace>,
) -> ExplainedTrace {
    let threads = threads_of(&mut found);
    let mut recording = blank(head, &request, threads);
    let (from, to) = found.span.unwrap_or_default();
    recording.duration_ns = to.saturating_sub(from);
    let start = Start {
        wall: recording.started,
        monotonic: from,
    };
    let mut summary = summary(&found, head, &request);
    let threshold = request.wanted.threshold.unwrap_or_default();
    let mut tally = Tally::new().above(threshold);
    let mut outliers = Vec::new();
    let mut windows = BTreeMap::new();
    let last = recording.threads.len().saturating_sub(1);
    let place: BTreeMap<u32, usize> = (found.threads.iter().map(|thread| thread.task.pid))
        .zip(0..)
        .collect();
    for (
        number,
        Reaction {
            mut window, stated, ..
        },
    ) in (1..).zip(found.reactions)
    {
        let blame = punctual_culprit::explain(&mut window);
        if let Some(host) = &mut host {
            let (away, unknown) = punctual_culprit::away_and_unknown(&window);
            host.away_ns += away;
            host.unknown_ns += unknown;
        }
        tally.add(number, window.expected, &blame);
        if let Some(text) = stated {
            summary.stated.push(StatedLatency {
                outlier: number,
                text,
            });
        }
        let thread = place.get(&window.victim.tid).copied().unwrap_or(last);
        outliers.push(Outlier {
            light_stage: false,
            number,
            time: start.wall_at(window.expected),
            monotonic_ns: window.expected,
            cpu: Some(window.victim.cpu),
            thread: thread as u32,
            latency_ns: window.latency(),
            blame,
        });
        windows.insert(number, window.shortened());
    }
    summary.host = host;
    recording.explanation = Some(Explanation {
        threshold_ns: request.wanted.threshold.unwrap_or(Nanos::ZERO),
        seen: found.above,
        explained: outliers.len() as u64,
        events: head.recorded.iter().cloned().collect(),
        missing_events: found.missing,
        policy_changes: found.policy_changes,
        refused_calls: found.refused_calls,
        events_lost: found.lost.1,
        waits_without_end: found.without_end,
        causes: tally.causes(),
        periods: tally.periods(),
        trace: Some(summary),
        outliers,
        ..Explanation::default()
    });
    recording.warnings.extend(head.warnings.iter().cloned());
    ExplainedTrace { recording, windows }
}

/// Returns the waits of each thread, with all threads beyond the limit taken together.
fn threads_of(found: &mut LateFound) -> Vec<ThreadRecord> {
    let record = |label: String, scheduling, histogram: punctual_model::Histogram| {
        let recorded = histogram.recorded();
        ThreadRecord {
            label: Some(label),
            accounting: Accounting {
                expected: recorded,
                recorded,
                ..Accounting::default()
            },
            histogram,
            ..ThreadRecord::new(None, scheduling)
        }
    };
    let threads = found.threads.iter().map(|thread| {
        let label = thread.task.label();
        record(
            label,
            thread.task.prio.scheduling(),
            thread.histogram.clone(),
        )
    });
    let mut threads: Vec<ThreadRecord> = threads.collect();
    if let Some(others) = found.other_threads.take() {
        let scheduling = punctual_model::Scheduling::UNKNOWN;
        threads.push(record("further threads".to_owned(), scheduling, others));
    }
    threads
}

fn blank(head: &TraceHead, request: &TraceRequest, threads: Vec<ThreadRecord>) -> Recording {
    let probe = ProbeRun {
        name: ProbeRun::OBSERVED.to_owned(),
        chart: Chart::Bars,
        alike: false,
        parameters: BTreeMap::from([(ProbeRun::WATCHED.to_owned(), request.file.clone().into())]),
        program: concat!("punctual ", env!("CARGO_PKG_VERSION")).to_owned(),
        command_line: request.command_line.clone(),
    };
    let host = HostFacts::unknown(&request.file, "the trace does not contain this value");
    let mut recording = Recording {
        origin: Some(Origin {
            format: "trace".to_owned(),
            tool: head.format.trim_start_matches("text of ").to_owned(),
            file: request.file.clone(),
            unknown: (Unknown::ALL.iter().map(|(unknown, _)| *unknown))
                .filter(|unknown| !KNOWN.contains(unknown) && *unknown != Unknown::Times)
                .collect(),
        }),
        completion: Completion::Finished,
        ..Recording::new(probe, host, Requirement::default(), threads)
    };
    if let Some(kernel) = &head.kernel {
        recording.host.kernel.release =
            punctual_model::Fact::known(kernel.clone(), request.file.clone());
    }
    recording
}

fn summary(found: &LateFound, head: &TraceHead, request: &TraceRequest) -> TraceSummary {
    let (from, to) = found.span.unwrap_or_default();
    TraceSummary {
        file: request.file.clone(),
        format: head.format.clone(),
        clock: head.clock.clone(),
        clocks_differ: head.clocks_differ,
        resolution_ns: head.resolution,
        kernel: head.kernel.clone(),
        cpus: found.cpus.iter().copied().collect(),
        events: found.events,
        from_ns: from,
        to_ns: to,
        gaps: found.lost.0,
        lost: found.lost.1,
        switches_missing: found.contradictions,
        incomplete: found.incomplete,
        real_time_only: found.real_time,
        ordinary: found.ordinary.0,
        ordinary_max_ns: found.ordinary.1.map(|late| late.latency()),
        not_shown: found.not_shown.clone(),
        stated: Vec::new(),
        open: open::waits(&found.open, head),
        scheduler: found.scheduler.clone(),
        functions: found.functions.clone(),
        host: None,
    }
}
