//! `machine threads`: lists the threads of the machine with their policy, priority, CPUs and usage.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use punctual_host::Host;
use punctual_model::{Nanos, TaskKind, TaskRecord, TaskUsage, WaitHistogram, WakeupAxis, Wakeups};
use punctual_report::document::{self, ThreadRow};
use punctual_report::text;
use punctual_rt::{PolicyKind, Tid};
use punctual_session::{WakeupRequest, WakeupSession};
use serde::Serialize;

use crate::context::{Context, hidden};
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::running::{stop_flag, watching};
use crate::verb::{Run, named};

const LONG: &str = "List threads with policy, priority, niceness, affinity, last CPU, CPU time, \
    voluntary and involuntary switches, minor and major page faults, and the locked memory of \
    their process. Threads with policy rr show their time slice. Kernel threads and interrupt handlers are marked. With --watch, the list shows \
    usage per second and, if the kernel supports it, wake-up latencies of the threads of each \
    name.";

/// List threads with their policy, priority, CPUs and usage
#[derive(Parser)]
#[command(long_about = LONG)]
pub(super) struct Threads {
    /// Only threads of these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Only threads whose name contains this
    #[arg(long, value_name = "TEXT")]
    comm: Option<String>,
    /// Only threads with policy fifo, rr or deadline
    #[arg(long)]
    rt: bool,
    /// Only threads of programs, of the kernel, or interrupt handlers
    #[arg(long = "type", value_name = "TYPE")]
    #[arg(value_parser = named(KINDS.map(|kind| (kind.name(), kind)).to_vec()))]
    kind: Option<TaskKind>,
    /// Sort by priority, CPU time, voluntary or involuntary (taken) switches, faults, name, pid
    #[arg(long, value_name = "BY", default_value = "priority")]
    sort: Sort,
    /// Show usage per second, counted over this time [default: 1s]; on a terminal repeatedly,
    /// until Ctrl-C
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s")]
    watch: Option<Nanos>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const KINDS: [TaskKind; 3] = [TaskKind::User, TaskKind::Kernel, TaskKind::Interrupt];

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    Priority,
    Cpu,
    Switches,
    Taken,
    Faults,
    Name,
    Pid,
}

impl Run for Threads {
    fn run(self, context: &Context) -> Result<Exit> {
        let host = Host::live();
        if let Some(option) = host.hiding_option() {
            output::note(&hidden(&option));
        }
        let by = self.sort;
        let text = |mut rows: Vec<ThreadRow>| {
            sort(&mut rows, by);
            text::render(&document::threads(&rows, &ranges()), &context.list_style())
        };
        match self.watch {
            Some(time) => {
                let stop = stop_flag()?;
                if self.json {
                    print_json(self.watched(&host, time, &stop)?, by)?;
                } else {
                    watching::show(&stop, || Ok(text(self.watched(&host, time, &stop)?)))?;
                }
            }
            None => {
                let rows = so_far(self.wanted(&host)?);
                if self.json {
                    print_json(rows, by)?
                } else {
                    output::print(&text(rows))?
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn print_json(mut rows: Vec<ThreadRow>, by: Sort) -> Result<()> {
    sort(&mut rows, by);
    let values: Vec<_> = rows.into_iter().map(json).collect();
    output::print(&output::json(&values))
}

/// Returns the threads with their usage since they started.
fn so_far(tasks: Vec<TaskRecord>) -> Vec<ThreadRow> {
    let row = |task: TaskRecord| ThreadRow {
        used: task.used,
        over_ns: None,
        waits: None,
        slice_ns: slice(&task),
        task,
    };
    tasks.into_iter().map(row).collect()
}

/// Returns the time slice of a thread with the policy rr.
fn slice(task: &TaskRecord) -> Option<Nanos> {
    if task.scheduling.policy != punctual_model::Policy::RoundRobin {
        return None;
    }
    let tid = Tid::from_raw(i32::try_from(task.tid).ok()?)?;
    let slice = punctual_rt::time_slice(tid)?;
    u64::try_from(slice.as_nanos()).ok().map(Nanos)
}

/// Returns the priority range of each policy.
fn ranges() -> Vec<(&'static str, RangeInclusive<u8>)> {
    let name = |kind| match kind {
        PolicyKind::Other => "other",
        PolicyKind::Batch => "batch",
        PolicyKind::Idle => "idle",
        PolicyKind::Fifo => "fifo",
        PolicyKind::RoundRobin => "rr",
        PolicyKind::Deadline => "deadline",
    };
    let all = PolicyKind::ALL.into_iter();
    all.map(|kind| (name(kind), punctual_rt::priority_range(kind)))
        .collect()
}

impl Threads {
    /// Returns the threads that the options select.
    fn wanted(&self, host: &Host) -> Result<Vec<TaskRecord>> {
        let pids = &self.pid;
        let mut tasks = if pids.is_empty() {
            host.tasks()
        } else {
            pids.iter().flat_map(|pid| host.tasks_of(*pid)).collect()
        };
        if let Some(pid) = pids
            .iter()
            .find(|pid| !tasks.iter().any(|task| task.pid == **pid))
        {
            return Err(UsageError(format!("no process {pid}")).into());
        }
        let comm = self.comm.as_deref();
        tasks.retain(|task| {
            comm.is_none_or(|part| task.comm.contains(part))
                && self.kind.is_none_or(|kind| task.kind == kind)
                && (!self.rt || task.scheduling.policy.is_real_time())
        });
        Ok(tasks)
    }

    /// Returns the threads with their usage during `time`. Threads that start or end during that
    /// time are omitted.
    fn watched(&self, host: &Host, time: Nanos, stop: &AtomicBool) -> Result<Vec<ThreadRow>> {
        let before = self.wanted(host)?;
        // If wake-ups can be watched, the rows include their latencies.
        let request = WakeupRequest {
            by_group: false,
            group: None,
            by_comm: true,
            real_time_only: false,
            longest: 0,
            source: None,
        };
        let mut wakeups = WakeupSession::start(&request, host).ok();
        let over = watching::wait(Some(time), stop, || {
            // If reading the wake-ups fails, no latencies are shown.
            if wakeups
                .as_mut()
                .is_some_and(|wakeups| wakeups.keep_up().is_err())
            {
                wakeups = None;
            }
            Ok(())
        })?;
        let over = over.as_nanos() as u64;
        let after = self.wanted(host)?;
        let waits = waits_by_name(wakeups.as_mut().and_then(|wakeups| wakeups.read().ok()));
        let earlier: HashMap<(u32, u64), TaskUsage> = before
            .iter()
            .map(|task| ((task.tid, task.started_ticks), task.used))
            .collect();
        Ok(after
            .into_iter()
            .filter_map(|task| {
                let before = earlier.get(&(task.tid, task.started_ticks))?;
                Some(ThreadRow {
                    used: task.used.since(before),
                    waits: waits.get(&task.comm).cloned(),
                    slice_ns: slice(&task),
                    task,
                    over_ns: Some(over),
                })
            })
            .collect())
    }
}

/// Returns the wake-up latencies by thread name.
fn waits_by_name(seen: Option<Wakeups>) -> HashMap<String, WaitHistogram> {
    let groups = seen.map(|seen| seen.by(&[WakeupAxis::Comm]));
    groups
        .into_iter()
        .flatten()
        .filter_map(|group| Some((group.comm?, group.waits)))
        .collect()
}

fn sort(rows: &mut [ThreadRow], by: Sort) {
    use std::cmp::Reverse;
    // Deadline threads are scheduled before all others.
    let urgency = |task: &TaskRecord| match task.scheduling.policy {
        punctual_model::Policy::Deadline => 1_000,
        policy if policy.is_real_time() => 100 + i32::from(task.scheduling.priority),
        _ => -i32::from(task.nice),
    };
    match by {
        Sort::Cpu => rows.sort_by_key(|row| Reverse(row.used.cpu_time_ns)),
        Sort::Switches => rows.sort_by_key(|row| Reverse(row.used.switches_voluntary)),
        Sort::Taken => rows.sort_by_key(|row| Reverse(row.used.switches_involuntary)),
        Sort::Faults => {
            rows.sort_by_key(|row| Reverse((row.used.faults_major, row.used.faults_minor)));
        }
        Sort::Name => rows.sort_by(|a, b| a.task.comm.cmp(&b.task.comm)),
        Sort::Pid => rows.sort_by_key(|row| (row.task.pid, row.task.tid)),
        Sort::Priority => rows.sort_by_key(|row| Reverse(urgency(&row.task))),
    }
}

/// A thread as JSON.
#[derive(Serialize)]
pub(in crate::verbs) struct ThreadJson {
    /// The thread, with its usage since its start. With `--watch`, it has its usage during the time
    /// `used_in_ns`.
    #[serde(flatten)]
    task: TaskRecord,
    /// Duration of counting with `--watch`; null without that option.
    used_in_ns: Option<u64>,
    /// With `--watch`, the wake-up latencies of all threads with the same name; null if they cannot
    /// be watched.
    waits_of_its_name: Option<WaitHistogram>,
    /// Whether its policy is fifo, rr or deadline.
    real_time: bool,
    /// Time slice, if its policy is rr.
    time_slice_ns: Option<Nanos>,
    /// Lowest and highest priority of its policy; 0 and 0 if the policy has no priorities, null if
    /// the policy is unknown.
    priority_range: Option<[u8; 2]>,
}

punctual_model::to_json!(ThreadJson);

fn json(row: ThreadRow) -> ThreadJson {
    let ranges = ranges().into_iter();
    let mut own = ranges.filter(|(name, _)| *name == row.task.scheduling.policy.name());
    ThreadJson {
        time_slice_ns: row.slice_ns,
        priority_range: own.next().map(|(_, range)| [*range.start(), *range.end()]),
        real_time: row.task.scheduling.policy.is_real_time(),
        task: TaskRecord {
            used: row.used,
            ..row.task
        },
        used_in_ns: row.over_ns,
        waits_of_its_name: row.waits,
    }
}
