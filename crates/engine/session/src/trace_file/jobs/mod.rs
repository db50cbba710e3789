//! Explains the jobs of threads in a trace that another tool recorded.
//!
//! The trace is read twice: first to find the jobs, because the release wait of a thread is only
//! known after some time, and then to collect the events of the longest ones.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use punctual_culprit::{DueTimers, Late, LateFound, ThreadWaits};
use punctual_host::{Host, system_call_name};
use punctual_model::cause::OpenAtEnd;
use punctual_model::{
    EventKind, Explanation, Histogram, Jobs, Nanos, ProbeRun, SignedNanos, Task, TraceEvent,
    counted,
};
use punctual_tracefile::{Item, TraceFileError, TraceReader};

use super::calls::{CallsByName, Sleeps};
use super::{ExplainedTrace, TraceRequest, find, open, recording_of};
use crate::observe::JobRequest;
use crate::observe::jobs::{JobWatch, warnings as missing_jobs};

/// Maximum number of threads whose jobs are followed.
const THREADS: usize = 4_096;

/// Maximum number of threads with separate figures.
const SHOWN: usize = 200;

/// Host without files: a trace does not contain descriptors and processes, and those of this machine
/// are others.
const NO_HOST: &str = "/nonexistent";

/// Finds the jobs of threads in a trace, and explains those above the budget. `again` reads the same
/// trace as `reader`.
///
/// # Errors
/// If the trace cannot be read, or if it has no switches.
pub fn explain_trace_jobs(
    reader: &mut dyn TraceReader,
    again: &mut dyn TraceReader,
    mut request: TraceRequest,
    jobs: &JobRequest,
) -> Result<ExplainedTrace, TraceFileError> {
    let found = FoundJobs::find(again, &request, jobs)?;
    let longest = found.longest();
    request.wanted.threshold = Some(jobs.budget);
    request.wanted.most = Explanation::KEPT;
    request.wanted.jobs = Some(longest);
    let reactions = LateFound {
        threads: found.threads(),
        other_threads: None,
        above: found.over,
        ..find(reader, &request)?
    };
    let mut explained = recording_of(reactions, reader.head(), request, None);
    let recording = &mut explained.recording;
    recording.probe.name = ProbeRun::JOBS.to_owned();
    let parameters = &mut recording.probe.parameters;
    parameters.insert("budget_ns".to_owned(), jobs.budget.0.into());
    parameters.insert("release".to_owned(), jobs.release.to_string().into());
    let all = found.jobs();
    let title = |thread: u32| {
        let label = (recording.threads.get(thread as usize)).and_then(|one| one.label.clone());
        label.unwrap_or_default()
    };
    let mut warnings = found.warnings.clone();
    warnings.extend(missing_jobs(&all, true, title));
    recording.warnings.extend(warnings);
    if let Some(explanation) = &mut recording.explanation {
        explanation.jobs = Some(all);
        if let Some(trace) = &mut explanation.trace {
            trace.open = found.open;
        }
    }
    Ok(explained)
}

/// Returns the names of system calls by their numbers on this machine's architecture.
pub(super) fn system_call_names() -> BTreeMap<i64, String> {
    /// No architecture has more system calls.
    const MOST: i64 = 8_192;
    let named = |id| Some((id, system_call_name(id)?.to_owned()));
    (0..MOST).filter_map(named).collect()
}

/// The jobs of the threads that are shown.
struct FoundJobs {
    watch: JobWatch,
    /// The threads with their last names and priorities, in order of their IDs.
    tasks: BTreeMap<u32, Task>,
    collected: Collected,
    /// Number of jobs above the budget.
    over: u64,
    /// Jobs above the budget that had not ended.
    open: Vec<OpenAtEnd>,
    span: [Nanos; 2],
    warnings: Vec<String>,
}

/// Jobs as they are found. Of most of them, only the response time is kept.
#[derive(Default)]
struct Collected {
    responses: Vec<(u32, Nanos)>,
    /// Threads that completed a job with a real-time priority.
    real_time: BTreeSet<u32>,
    /// Long jobs above the budget, those of real-time threads and others.
    longest: [Vec<Late>; 2],
}

impl Collected {
    fn add(&mut self, jobs: Vec<Late>, request: &TraceRequest, budget: Nanos) {
        for job in jobs {
            if !request.wanted.has(&job) {
                continue;
            }
            self.responses.push((job.tid, job.latency()));
            let is_real_time = job.prio.is_real_time();
            if is_real_time {
                self.real_time.insert(job.tid);
            }
            if job.latency() > budget {
                let longest = &mut self.longest[usize::from(!is_real_time)];
                longest.push(job);
                if longest.len() >= 2 * Explanation::KEPT {
                    keep_longest(longest);
                }
            }
        }
    }
}

fn keep_longest(jobs: &mut Vec<Late>) {
    jobs.sort_by_key(|job| std::cmp::Reverse(job.latency()));
    jobs.truncate(Explanation::KEPT);
}

impl FoundJobs {
    fn find(
        reader: &mut dyn TraceReader,
        request: &TraceRequest,
        jobs: &JobRequest,
    ) -> Result<Self, TraceFileError> {
        let mut search = Search::new(request, jobs);
        let mut numbers = CallsByName::default();
        while let Some(item) = reader.next_item()? {
            match item {
                Item::Event(event) if event.time < search.now => {
                    search.warnings.push(
                        "the file contains several traces: only the jobs of the first one are \
                         shown"
                            .to_owned(),
                    );
                    break;
                }
                Item::Event(mut event) => {
                    let is_named = numbers.number(&mut event, reader.head());
                    search.event(&event, is_named);
                }
                Item::Lost { until, .. } => search.lost(until),
                Item::Mark(_)
                | Item::Statement { .. }
                | Item::Function { .. }
                | Item::RunTime { .. } => {}
            }
        }
        let format = &reader.head().format;
        search.finish().ok_or_else(|| TraceFileError::NothingUsed {
            format: format.clone(),
            remedy: ". Jobs need switches and wake-ups: record sched:sched_switch, \
                     sched:sched_waking and raw_syscalls",
        })
    }

    /// Returns the longest jobs above the budget, in order of their ends.
    fn longest(&self) -> Vec<Late> {
        let all = self.collected.longest.iter().flatten();
        let shown = all.filter(|job| self.tasks.contains_key(&job.tid));
        let mut longest: Vec<Late> = shown.copied().collect();
        keep_longest(&mut longest);
        longest.sort_by_key(|job| job.actual);
        longest
    }

    /// Returns the response times of each thread.
    fn threads(&self) -> Vec<ThreadWaits> {
        let mut threads: BTreeMap<u32, ThreadWaits> = (self.tasks.iter())
            .map(|(tid, task)| {
                let histogram = Histogram::new();
                (
                    *tid,
                    ThreadWaits {
                        task: *task,
                        histogram,
                    },
                )
            })
            .collect();
        for (tid, response) in &self.collected.responses {
            if let Some(thread) = threads.get_mut(tid) {
                let response = i64::try_from(response.0).unwrap_or(i64::MAX);
                thread.histogram.record(SignedNanos(response));
            }
        }
        threads.into_values().collect()
    }

    fn jobs(&self) -> Jobs {
        let places: BTreeMap<u32, u32> = self.tasks.keys().copied().zip(0..).collect();
        let other = u32::MAX;
        let [start, end] = self.span;
        let mut jobs = self.watch.jobs((0, start, end), |tid| {
            places.get(&tid).copied().unwrap_or(other)
        });
        jobs.threads.retain(|thread| thread.thread != other);
        jobs
    }
}

/// The search for jobs, as the trace is read.
struct Search<'a> {
    request: &'a TraceRequest,
    budget: Nanos,
    watch: JobWatch,
    collected: Collected,
    /// Takes each sleep outside of a known system call for a wait, unless the calls of a followed thread
    /// are recorded by number, and thus all of them.
    by_sleep: Option<(JobWatch, Collected)>,
    sleeps: Sleeps,
    timers: DueTimers,
    tasks: BTreeMap<u32, Task>,
    now: Nanos,
    first: Option<Nanos>,
    has_switches: bool,
    omitted: bool,
    warnings: Vec<String>,
}

impl<'a> Search<'a> {
    fn new(request: &'a TraceRequest, jobs: &JobRequest) -> Self {
        let watch = || JobWatch::new(&Host::new(NO_HOST), jobs);
        Self {
            request,
            budget: jobs.budget,
            watch: watch(),
            collected: Collected::default(),
            by_sleep: Some((watch(), Collected::default())),
            sleeps: Sleeps::default(),
            timers: DueTimers::default(),
            tasks: BTreeMap::new(),
            now: Nanos::ZERO,
            first: None,
            has_switches: false,
            omitted: false,
            warnings: Vec::new(),
        }
    }

    /// Takes an event. `is_named`: it is a system call that only its name states.
    fn event(&mut self, event: &TraceEvent, is_named: bool) {
        self.now = event.time;
        self.first.get_or_insert(event.time);
        for task in event.kind.tasks().into_iter().flatten() {
            self.note(task);
        }
        let tasks = &self.tasks;
        let is_watched = |tid| tasks.contains_key(&tid);
        let (request, budget) = (self.request, self.budget);
        let timer = self.timers.before(event);
        for event in timer.iter().chain([event]) {
            let ended = self.watch.take(event, &is_watched);
            self.collected.add(ended, request, budget);
        }
        let enters = matches!(event.kind, EventKind::SysEnter { .. });
        if enters && !is_named && is_watched(event.pid) {
            self.by_sleep = None;
        }
        self.has_switches |= matches!(event.kind, EventKind::Switch { .. });
        if let Some((watch, collected)) = &mut self.by_sleep {
            let [before, after] = self.sleeps.around(event, &is_watched);
            for event in before.iter().chain(&timer).chain([event]).chain(&after) {
                collected.add(watch.take(event, &is_watched), request, budget);
            }
        }
    }

    /// Notes the name and priority of a thread, if it is selected.
    fn note(&mut self, task: &Task) {
        let wanted = &self.request.wanted;
        let is_selected = wanted.pids.is_empty() || wanted.pids.contains(&task.pid);
        let is_named = wanted.comm.is_none_or(|comm| comm == task.comm);
        if task.is_idle() || !is_selected || !is_named {
            return;
        }
        if self.tasks.len() >= THREADS && !self.tasks.contains_key(&task.pid) {
            self.omitted = true;
            return;
        }
        self.tasks.insert(task.pid, *task);
    }

    fn lost(&mut self, until: Nanos) {
        self.timers.lost();
        self.watch.blind_until(until);
        if let Some((watch, _)) = &mut self.by_sleep {
            watch.blind_until(until);
        }
        self.sleeps.lost();
    }

    /// Returns the jobs; `None` if the trace has no switches.
    fn finish(mut self) -> Option<FoundJobs> {
        if !self.has_switches {
            return None;
        }
        if let Some((watch, collected)) = self.by_sleep {
            (self.watch, self.collected) = (watch, collected);
            self.warnings
                .extend(self.sleeps.warning().map(str::to_owned));
        } else {
            self.warnings.push(format!(
                "system calls are named by their numbers on {}, the architecture of this machine; \
                 the trace does not contain targets of descriptors and processes",
                std::env::consts::ARCH
            ));
        }
        if self.omitted {
            self.warnings.push(format!(
                "there are more than {}: select some with --pid or --comm",
                counted(THREADS as u64, "thread", "threads")
            ));
        }
        let last = self.watch.finish();
        self.collected.add(last, self.request, self.budget);
        let wanted = &self.request.wanted;
        let mut longest: BTreeMap<u32, Nanos> = BTreeMap::new();
        for (tid, response) in &self.collected.responses {
            let known = longest.entry(*tid).or_default();
            *known = (*known).max(*response);
        }
        if wanted.pids.is_empty() && wanted.comm.is_none() {
            let real_time = &self.collected.real_time;
            let is_shown = |tid: &u32| {
                longest.contains_key(tid) && (real_time.is_empty() || real_time.contains(tid))
            };
            self.tasks.retain(|tid, _| is_shown(tid));
        }
        self.warnings.extend(shorten(&mut self.tasks, &longest));
        let responses = &mut self.collected.responses;
        responses.retain(|(tid, _)| self.tasks.contains_key(tid));
        let over = responses.iter().filter(|(_, ns)| *ns > self.budget);
        let limits = (self.request, self.budget, self.now);
        Some(FoundJobs {
            over: over.count() as u64,
            open: open::jobs(&self.watch, &self.tasks, limits),
            watch: self.watch,
            tasks: self.tasks,
            collected: self.collected,
            span: [self.first.unwrap_or_default(), self.now],
            warnings: self.warnings,
        })
    }
}

/// Leaves out the threads beyond [`SHOWN`] whose longest jobs are shortest. Returns a warning if
/// there are such threads.
fn shorten(tasks: &mut BTreeMap<u32, Task>, longest: &BTreeMap<u32, Nanos>) -> Option<String> {
    let more = tasks.len().saturating_sub(SHOWN);
    let mut order: Vec<(Nanos, u32)> = (tasks.keys())
        .map(|tid| (longest.get(tid).copied().unwrap_or_default(), *tid))
        .collect();
    order.sort_unstable();
    for (_, tid) in order.into_iter().take(more) {
        tasks.remove(&tid);
    }
    (more > 0).then(|| {
        format!(
            "{} with shorter jobs not shown: select some with --pid or --comm",
            counted(more as u64, "thread", "threads")
        )
    })
}
