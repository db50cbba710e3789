//! Explains the jobs of threads in a trace that another tool recorded.
//!
//! The trace is read twice: first to find the jobs, because the release wait of a thread is only
//! known after some time, and then to collect the events of the longest ones.

use std::collections::{BTreeMap, BTreeSet};

use punctual_culprit::{Late, LateFound, ThreadWaits};
use punctual_host::{Host, system_call_name};
use punctual_model::{
    EventKind, Explanation, Histogram, Jobs, Nanos, ProbeRun, SignedNanos, Task, TraceEvent,
    counted,
};
use punctual_tracefile::{Item, TraceFileError, TraceReader};

use super::calls::{CallsByName, Sleeps};
use super::{ExplainedTrace, TraceRequest, find, recording_of};
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
                Item::Mark(_) | Item::Statement { .. } => {}
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
        let ended = self.watch.take(event, &is_watched);
        self.collected.add(ended, request, budget);
        let enters = matches!(event.kind, EventKind::SysEnter { .. });
        if enters && !is_named && is_watched(event.pid) {
            self.by_sleep = None;
        }
        self.has_switches |= matches!(event.kind, EventKind::Switch { .. });
        if let Some((watch, collected)) = &mut self.by_sleep {
            let [before, after] = self.sleeps.around(event, &is_watched);
            for event in before.iter().chain([event]).chain(&after) {
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
        Some(FoundJobs {
            over: over.count() as u64,
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

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use punctual_culprit::Wanted;
    use punctual_host::system_call_numbers;
    use punctual_tracefile::{Input, open};

    use super::*;
    use crate::{JobDetail, Release};

    /// A text trace of ten jobs of 1 ms each. The sixth job also waits 7 ms in this call, for an
    /// interrupt or for the thread `helper` on another CPU, and then runs for 1 ms more.
    fn text(with_calls: bool, call: &str, by_helper: bool) -> String {
        let mut out = String::from("# tracer: nop\n");
        let number = |name: &str| system_call_numbers(name)[0];
        let (sleep, call) = (number("clock_nanosleep"), number(call));
        let mut now = 100_000_000_u64;
        let mut line = |comm: &str, pid: u32, now: u64, event: String| {
            if with_calls || !event.starts_with("sys_") {
                let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
                let (thread, cpu) = (format!("{comm}-{pid}"), u32::from(comm == "helper"));
                writeln!(
                    out,
                    "{thread:>20} [{cpu:03}] d..2. {seconds}.{micros:06}: {event}"
                )
                .unwrap();
            }
        };
        let switch = |from: &str, state: &str, to: &str| {
            format!("sched_switch: prev_comm={from} prev_state={state} ==> next_comm={to}")
        };
        let (idle, motion) = (
            "swapper/0 prev_pid=0 prev_prio=120",
            "motion next_pid=40 next_prio=49",
        );
        let waking = "sched_waking: comm=motion pid=40 prio=49 target_cpu=000";
        let wake = |line: &mut dyn FnMut(&str, u32, u64, String), now: u64, call: i64| {
            let (waker, pid) = if by_helper && call != sleep {
                ("helper", 41)
            } else {
                ("<idle>", 0)
            };
            line(waker, pid, now, waking.to_owned());
            line("<idle>", 0, now + 10, switch(idle, "R", motion));
            line("motion", 40, now + 20, format!("sys_exit: NR {call} = 0"));
        };
        let wait = |line: &mut dyn FnMut(&str, u32, u64, String), now: u64, call: i64| {
            // FUTEX_WAIT_PRIVATE.
            let args = if call == sleep { "1, 1" } else { "7f00, 80" };
            let enter = format!("sys_enter: NR {call} ({args}, 0, 0, 0, 0)");
            line("motion", 40, now, enter);
            let (motion, idle) = (
                "motion prev_pid=40 prev_prio=49",
                "swapper/0 next_pid=0 next_prio=120",
            );
            line("motion", 40, now + 10, switch(motion, "S", idle));
        };
        let (from, to) = (
            "other prev_pid=42 prev_prio=120",
            "helper next_pid=41 next_prio=120",
        );
        line("helper", 42, now - 500, switch(from, "S", to));
        for job in 0..10 {
            wake(&mut line, now, sleep);
            now += 1_000;
            if job == 5 {
                wait(&mut line, now, call);
                now += 7_000;
                wake(&mut line, now, call);
                now += 1_000;
            }
            wait(&mut line, now, sleep);
            now += 10_000;
        }
        out
    }

    fn explained(text: &str, pids: &[u32]) -> ExplainedTrace {
        let reader = || {
            open(Input::stream(std::io::Cursor::new(
                text.as_bytes().to_vec(),
            )))
            .unwrap()
        };
        let request = TraceRequest {
            file: "trace".to_owned(),
            wanted: Wanted {
                pids: pids.to_vec(),
                ..Wanted::longest()
            },
            command_line: Vec::new(),
        };
        let jobs = JobRequest {
            budget: Nanos::from_millis(5),
            release: Release::default(),
            detail: JobDetail::Full,
        };
        let (mut one, mut two) = (reader(), reader());
        explain_trace_jobs(one.as_mut(), two.as_mut(), request, &jobs).unwrap()
    }

    #[test]
    fn long_job_of_a_file_is_split_into_shares() {
        let explained = explained(&text(true, "poll", false), &[]);
        let explanation = explained.recording.explanation.unwrap();
        let jobs = &explanation.jobs.unwrap().threads;
        assert_eq!((jobs.len(), jobs[0].over_budget), (1, 1));
        assert_eq!(jobs[0].release.as_ref().unwrap().call, "clock_nanosleep");
        let thread = &explained.recording.threads[0];
        assert_eq!(thread.histogram.recorded(), jobs[0].jobs);
        assert!(jobs[0].jobs >= 8, "{}", jobs[0].jobs);
        let [outlier] = explanation.outliers.as_slice() else {
            panic!("{:?}", explanation.outliers);
        };
        // From the wake-up to the next release wait.
        assert_eq!(outlier.latency_ns, Nanos::from_micros(9_000));
        let shares: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(shares, outlier.latency_ns.0);
        let largest = outlier
            .blame
            .shares
            .iter()
            .max_by_key(|share| share.ns)
            .unwrap();
        assert!(largest.ns > Nanos::from_micros(6_900), "{largest:?}");
        assert!(
            outlier.blame.sentence().contains("poll"),
            "{}",
            outlier.blame.sentence()
        );
        assert!(explained.windows.contains_key(&outlier.number));
    }

    #[test]
    fn sleeps_end_jobs_without_system_calls() {
        let explained = explained(&text(false, "poll", false), &[40]);
        let warnings = explained.recording.warnings.join(" ");
        assert!(
            warnings.contains("the trace has no system calls"),
            "{warnings}"
        );
        let explanation = explained.recording.explanation.unwrap();
        let jobs = &explanation.jobs.unwrap().threads;
        assert_eq!(jobs[0].release.as_ref().unwrap().call, "any sleep");
        assert_eq!(jobs[0].over_budget, 0);
        assert!(jobs[0].jobs >= 9, "{}", jobs[0].jobs);
    }

    /// The events of the system `syscalls`, as tracefs and as trace-cmd print them.
    fn by_name(text: &str, is_report: bool, has_sleep: bool) -> String {
        let named = |line: &str| -> Option<String> {
            let (before, call) = line.split_once(": sys_")?;
            let (kind, rest) = call.split_once(": NR ")?;
            let (number, rest) = rest.split_once(' ')?;
            let name = system_call_name(number.parse().ok()?)?;
            if name == "clock_nanosleep" && !has_sleep {
                return Some(String::new());
            }
            Some(match (kind, is_report) {
                ("exit", false) => format!("{before}: sys_{name} -> 0x0\n"),
                ("exit", true) => format!("{before}: sys_exit_{name}:      0x0\n"),
                (_, false) => {
                    let args = rest.trim_matches(['(', ')']);
                    let [one, two] = [0, 1].map(|place| args.split(", ").nth(place).unwrap());
                    format!("{before}: sys_{name}(uaddr: {one}, op: {two}, val: 0)\n")
                }
                (_, true) => {
                    let args = rest.trim_matches(['(', ')']);
                    let [one, two] = [0, 1].map(|place| args.split(", ").nth(place).unwrap());
                    format!("{before}: sys_enter_{name}:    uaddr: 0x{one}, op: 0x000000{two}\n")
                }
            })
        };
        text.lines()
            .map(|line| named(line).unwrap_or_else(|| format!("{line}\n")))
            .collect()
    }

    /// The release wait, the number of jobs, and what the late one waits for.
    fn futex_wait(text: &str) -> (String, u64, Nanos, String) {
        let explained = explained(text, &[40]);
        let explanation = explained.recording.explanation.unwrap();
        let jobs = &explanation.jobs.unwrap().threads[0];
        let outlier = &explanation.outliers[0];
        let mut shares = outlier.blame.shares.iter();
        let wait = shares.find(|share| share.cause.label().contains("helper"));
        (
            jobs.release.as_ref().unwrap().call.clone(),
            jobs.over_budget,
            outlier.latency_ns,
            format!("{:?}", wait.unwrap()),
        )
    }

    #[test]
    fn place_of_a_wait_is_known_from_calls_by_name() {
        let text = text(true, "futex", true);
        let numbered = futex_wait(&text);
        assert!(numbered.3.contains("futex"), "{}", numbered.3);
        for is_report in [false, true] {
            assert_eq!(futex_wait(&by_name(&text, is_report, true)), numbered);
        }
        // If only some calls are recorded, sleeps in others are still waits.
        for is_report in [false, true] {
            let some = by_name(&text, is_report, false);
            let (release, over, _, wait) = futex_wait(&some);
            assert_eq!((release.as_str(), over), ("any sleep", 1));
            assert_eq!(wait, numbered.3);
            let warnings = explained(&some, &[40]).recording.warnings.join(" ");
            assert!(warnings.contains("only some system calls"), "{warnings}");
        }
    }

    /// The job is late because of a thread on another CPU, which wakes it.
    #[test]
    fn wait_for_a_thread_on_another_cpu_is_late() {
        let explained = explained(&text(true, "futex", true), &[40]);
        let explanation = explained.recording.explanation.unwrap();
        let jobs = &explanation.jobs.unwrap().threads;
        assert_eq!(jobs[0].over_budget, 1, "{jobs:#?}");
        let [outlier] = explanation.outliers.as_slice() else {
            panic!("{:?}", explanation.outliers);
        };
        assert_eq!(outlier.latency_ns, Nanos::from_micros(9_000));
        let sentence = outlier.blame.sentence();
        assert!(sentence.contains("helper"), "{sentence}");
    }

    #[test]
    fn threads_that_are_not_in_the_file_have_no_jobs() {
        let explained = explained(&text(true, "poll", false), &[43]);
        let explanation = explained.recording.explanation.unwrap();
        assert!(explanation.outliers.is_empty());
        assert!(explanation.jobs.unwrap().threads.is_empty());
    }
}
