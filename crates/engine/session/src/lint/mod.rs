//! Collects those actions of a running program's real-time threads that cost latency.

mod call_locations;
mod refused;
mod targets;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{ActKind, LintFacts, LintProcess, LintThread, Nanos, TaskRecord, TaskUsage};
use punctual_trace::{LintAsk, LintWatch, TraceError, Tracefs};

use crate::events::NoPrograms;
use crate::lifecycle::{RunClock, Start, sleep_until_poll};
use crate::targets::{same_clock_as_events, same_pids_as_events};
use crate::{SessionError, Targets};
use call_locations::CallLocations;
use refused::RefusedInLint;
use targets::LintTargets;

/// Parameters of `lint`.
#[derive(Clone, Debug)]
pub struct LintRequest {
    /// Threads to watch.
    pub targets: Targets,
    /// Duration.
    pub duration: Nanos,
    /// Duration of system call tracing, at the end; at most `duration`.
    pub calls: Nanos,
    /// Uses trace events instead of BPF programs.
    pub no_bpf: bool,
    /// The command that runs [`punctual_host::serve_symbols`], to read programs of other users. If
    /// it is `None`, the functions in these programs remain unknown.
    pub reader: Option<Vec<OsString>>,
}

/// Initial part of each thread that is not judged: a number of waits, and a duration.
const FIRST_SLEEPS: u32 = 5;
const FIRST: Nanos = Nanos::from_millis(500);

/// Interval at which recorded actions are read. It is short, so that call sites are resolved while
/// the process still exists.
const TURN: Duration = Duration::from_millis(100);

/// Watches until the time is over, all targets have ended, or `stop` is set. `note` is called with
/// messages that the user must see immediately.
///
/// # Errors
/// Returns an error if the process does not exist, belongs to the kernel, or is this program
/// itself.
pub fn lint(
    request: &LintRequest,
    host: &Host,
    stop: &AtomicBool,
    note: &mut dyn FnMut(&str),
) -> Result<LintFacts, SessionError> {
    let mut lint = Lint::begin(request, host)?;
    lint.run(request, stop, note);
    Ok(lint.finish(request))
}

/// A run in progress.
struct Lint {
    host: Host,
    targets: LintTargets,
    watch: Option<LintWatch>,
    locations: CallLocations,
    /// Each real-time thread with its usage when first seen, and whether it existed from the start.
    threads: BTreeMap<u32, (TaskRecord, TaskUsage, bool)>,
    processes: BTreeMap<u32, LintProcess>,
    facts: LintFacts,
    refused: RefusedInLint,
    start: Start,
}

impl Lint {
    fn begin(request: &LintRequest, host: &Host) -> Result<Self, SessionError> {
        same_pids_as_events(host)?;
        same_clock_as_events(host)?;
        let targets = LintTargets::find(&request.targets, host)?;
        let ask = LintAsk {
            targets: targets.watched(),
            first_sleeps: FIRST_SLEEPS,
            first: FIRST,
        };
        let mut facts = LintFacts {
            target: targets.text().to_owned(),
            ..LintFacts::default()
        };
        let processes = targets.processes(host);
        let hidden = (processes.iter()).filter_map(|pid| host.lint_process(*pid).hidden);
        facts.notes.extend(hidden);
        let started = if request.no_bpf {
            Err(NoPrograms::NotWanted)
        } else {
            LintWatch::by_programs(&ask).map_err(NoPrograms::from)
        };
        let watch = match started {
            Ok(watch) => Some(watch),
            Err(programs) => match by_events(host, &ask, &programs.to_string()) {
                Ok(watch) => {
                    let note = format!("{programs}; trace events are used instead");
                    facts.notes.push(note);
                    Some(watch)
                }
                Err(events) => {
                    let why = NotWatched { programs, events }.to_string();
                    facts.unseen = ActKind::ALL.map(|kind| (kind, why.clone())).to_vec();
                    facts.notes.push(why);
                    None
                }
            },
        };
        let mut lint = Self {
            host: host.clone(),
            locations: CallLocations::new(host, request.reader.clone()),
            targets,
            watch,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            facts,
            refused: match request.calls {
                Nanos::ZERO => RefusedInLint::default(),
                _ => RefusedInLint::new(host),
            },
            start: Start::now(),
        };
        lint.look(true);
        Ok(lint)
    }

    fn run(&mut self, request: &LintRequest, stop: &AtomicBool, note: &mut dyn FnMut(&str)) {
        let calls_from = request.duration.saturating_sub(request.calls);
        let mut calls_since = None;
        let clock = RunClock {
            start: self.start,
            duration: Some(request.duration),
            stop,
        };
        loop {
            sleep_until_poll(TURN, clock.start, clock.duration);
            let moment = clock.moment();
            if calls_since.is_none()
                && moment.elapsed >= calls_from
                && request.calls > Nanos::ZERO
                && self.watch.is_some()
            {
                note(&format!(
                    "tracing system calls for {}: meanwhile, each system call on the machine \
                     takes slightly longer",
                    request.calls
                ));
                if let Some(watch) = &mut self.watch {
                    watch.trace_calls();
                }
                self.refused.record(true);
                calls_since = Some(Instant::now());
            }
            self.read();
            if moment.completion().is_some() {
                break;
            }
            if self.targets.all_gone() {
                let text = format!("all targets had ended after {}", moment.elapsed);
                self.facts.notes.push(text);
                break;
            }
            self.look(false);
        }
        self.facts.calls_traced = calls_since.map_or(Nanos::ZERO, |at| Nanos::from(at.elapsed()));
        if let Some(watch) = &mut self.watch {
            watch.stop_calls();
        }
        self.refused.record(false);
        self.facts.duration = self.start.elapsed();
    }

    /// Reads the actions, and resolves the locations of new ones while their process is alive.
    fn read(&mut self) {
        self.refused.read();
        let Some(watch) = &mut self.watch else { return };
        match watch.read() {
            Ok(acts) => {
                self.facts.switches = acts.switches;
                self.facts.lost = acts.lost;
                self.locations.take(acts);
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Ends watching, so that no more actions are seen.
    fn fail(&mut self, why: &str) {
        self.facts.unseen = ActKind::ALL.map(|kind| (kind, why.to_owned())).to_vec();
        self.watch = None;
    }

    /// Updates the threads and processes: adds new ones, updates changed ones, and handles those
    /// that have ended.
    fn look(&mut self, first: bool) {
        let (new, gone) = self.targets.refresh(&self.host);
        if let Some(watch) = &mut self.watch
            && let Err(error) = watch.watch(&new, &gone)
        {
            let text = format!("not all threads are watched: {error}");
            if !self.facts.notes.contains(&text) {
                self.facts.notes.push(text);
                self.facts.lost += 1;
            }
        }
        let tasks = self.targets.tasks(&self.host);
        self.refused.note(&tasks);
        let real_time = tasks
            .iter()
            .filter(|task| task.scheduling.policy.is_real_time());
        let named: Vec<(u32, String)> = real_time
            .map(|task| (task.tid, task.comm.clone()))
            .collect();
        let watched = self
            .watch
            .as_mut()
            .map_or(Ok(()), |watch| watch.threads(&named));
        if let Err(error) = watched {
            self.fail(&error.to_string());
        }
        for task in tasks {
            if !task.scheduling.policy.is_real_time() {
                continue;
            }
            if !self.processes.contains_key(&task.pid) {
                self.processes
                    .insert(task.pid, self.host.lint_process(task.pid));
            }
            match self.threads.get_mut(&task.tid) {
                Some((known, _, _)) if known.started_ticks == task.started_ticks => *known = task,
                _ => {
                    let used = task.used;
                    self.threads.insert(task.tid, (task, used, first));
                }
            }
        }
    }

    fn finish(mut self, request: &LintRequest) -> LintFacts {
        let mut facts = self.facts;
        if let Some(watch) = self.watch {
            facts.source = Some(watch.source());
            facts.unseen.extend(watch.unseen());
            if let Err(error) = watch.stop() {
                facts.notes.push(error.to_string());
            }
        }
        for pid in self.processes.clone().into_keys() {
            // The process may lock memory and set limits while it runs.
            let now = self.host.lint_process(pid);
            if now.locked.is_ok() {
                self.processes.insert(pid, now);
            }
        }
        let stacks = stacks(&self.host, self.threads.values().map(|(task, _, _)| task));
        facts.threads = (self.threads.values())
            .map(|(task, before, whole)| thread_of(task, before, *whole, &stacks))
            .collect();
        facts.notes.extend(forked(&self.host, &self.targets));
        facts.processes = self.processes.into_values().collect();
        if let Err(error) = self.refused.stop() {
            facts.notes.push(error.to_string());
        }
        facts.refused_calls = self.refused.finish();
        facts.refused_unknown = self.refused.unknown;
        facts.notes.extend(self.locations.notes());
        facts.acts = self.locations.finish();
        if request.calls == Nanos::ZERO {
            let why = "system calls were not traced (--calls 0)".to_owned();
            facts.unseen.push((ActKind::Memory, why.clone()));
            facts.unseen.push((ActKind::File, why));
        }
        facts
    }
}

/// Reasons why no actions can be seen.
#[derive(Debug, thiserror::Error)]
#[error("{programs}; {events}")]
struct NotWatched {
    programs: NoPrograms,
    #[source]
    events: TraceError,
}

fn by_events(host: &Host, ask: &LintAsk, why: &str) -> Result<LintWatch, TraceError> {
    Tracefs::find(host.root())
        .and_then(|tracefs| LintWatch::by_events(&tracefs, host.own_process(), ask, why))
}

/// Returns children of the targets that have real-time threads and are not targets themselves.
fn forked(host: &Host, targets: &LintTargets) -> Vec<String> {
    let watched = targets.processes(host);
    let children = watched.iter().flat_map(|pid| host.children_of(*pid));
    let is_new = |pid: &u32| !watched.contains(pid);
    let real_time = children.filter(is_new).filter_map(|pid| {
        let tasks = host.tasks_of(pid);
        let task = (tasks.iter()).find(|task| task.scheduling.policy.is_real_time())?;
        Some(format!(
            "process {pid} ({}), forked by the target, has real-time threads but was not watched: \
             to watch it, use --pid {pid}",
            task.comm
        ))
    });
    real_time.collect()
}

/// A stack pointer is visible only while the thread waits, so try several times.
const STACK_TRIES: u32 = 20;

/// Returns the resident bytes below the stack pointers, by thread.
fn stacks<'a>(host: &Host, tasks: impl Iterator<Item = &'a TaskRecord>) -> BTreeMap<u32, u64> {
    let mut pending: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    tasks.for_each(|task| pending.entry(task.pid).or_default().push(task.tid));
    let mut found = BTreeMap::new();
    for attempt in 0..STACK_TRIES {
        if attempt > 0 {
            thread::sleep(Duration::from_micros(500));
        }
        for (pid, tids) in &mut pending {
            found.append(&mut host.resident_stacks(*pid, tids));
            tids.retain(|tid| !found.contains_key(tid));
        }
        pending.retain(|_, tids| !tids.is_empty());
        if pending.is_empty() {
            break;
        }
    }
    found
}

fn thread_of(
    task: &TaskRecord,
    before: &TaskUsage,
    whole: bool,
    stacks: &BTreeMap<u32, u64>,
) -> LintThread {
    let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
    let used = task.used;
    LintThread {
        pid: task.pid,
        tid: task.tid,
        comm: task.comm.clone(),
        policy: task.scheduling.policy,
        priority: task.scheduling.priority,
        cpu_time_ns: whole.then(|| used.cpu_time_ns.saturating_sub(before.cpu_time_ns)),
        switches_voluntary: (whole
            .then(|| since(used.switches_voluntary, before.switches_voluntary)))
        .flatten(),
        stack_resident_bytes: stacks.get(&task.tid).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwatchable_lint_gives_both_reasons() {
        let events = TraceError::NotAnEvent("ftrace:print".to_owned());
        let refusal = events.to_string();
        let programs = NoPrograms::NotWanted;
        assert_eq!(
            NotWatched { programs, events }.to_string(),
            format!("BPF programs are disabled (--no-bpf); {refusal}")
        );
    }
}
