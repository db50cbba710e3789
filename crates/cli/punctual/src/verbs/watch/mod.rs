//! `watch`: watches all wake-ups of the machine live, or with `--of` its interrupts and similar.

mod activities;
mod view;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, value_parser};
use punctual_host::Host;
use punctual_metrics::Scrape;
use punctual_model::{ActivityAxis, ActivityKind, Nanos, WakeupAxis, WakeupSource, Wakeups};
use punctual_report::{document, text};
use punctual_session::{WakeupRequest, WakeupSession};

use self::view::View;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::running::{stop_flag, watching};
use crate::tui;
use crate::verb::{Run, Verb, named};

pub(super) const VERB: Verb = Verb::new::<Watch>("watch");

/// Interval at which the view is redrawn.
const REDRAW: Duration = Duration::from_secs(1);

/// Maximum duration of a single wait for events.
const TURN: Duration = Duration::from_millis(50);

/// Duration of a watch without a time limit: a century.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Interval at which the program checks for a wait above the limit.
const LOOK: Duration = Duration::from_millis(200);

const LONG: &str = "Watch the latency of all wake-ups of the machine: how long each woken thread \
    waits for its CPU, as a live histogram. The longest waits are listed with the waiting and the \
    running thread.\n\n\
    BPF programs count in the kernel, with little overhead. They require root, or CAP_BPF and \
    CAP_PERFMON, and a kernel with BTF. If BPF programs cannot be used, the command prints the \
    reason and counts events of a separate trace instance. This costs more, because each event is \
    written, read and counted. An ordinary user sees the wake-ups of the threads of the same user, by \
    their context switches and /proc/PID/schedstat: how long each waited, but not which thread had the \
    CPU. This needs perf_event_paranoid of at most 2. Waits that have not ended are not shown. Lost \
    events are counted. Threads of SCHED_IDLE count as threads of \
    the fair class, because no event contains the policy.\n\n\
    A wait lasts from the wake-up (sched_waking, or sched_wakeup_new for a new thread) to the \
    switch (sched_switch). It includes the exit from an idle state, and the time during which the \
    previous thread kept the CPU. A wait that has not ended is in no row, but if it has lasted 1 \
    ms or more, it is listed with the running thread. The command ends on Ctrl-C, and removes \
    everything that it set up.\n\n\
    With --by cgroup, each row is a control group, with the name of its container or unit if this \
    is known. 'delayed others' is the time during which its threads had a CPU while a woken thread \
    waited for that CPU. Each wait is counted for the last thread that ran during the wait. The \
    groups are those of cgroup version 2, or of the controller cpu of version 1: the hierarchy \
    that has more groups with members.\n\n\
    With --listen, Prometheus can scrape the counts of all wake-ups since the start, grouped by the \
    axes of --by: punctual_wakeup_latency_seconds, with classic buckets and as a native histogram. \
    The counts are at most a second old. Anyone who can reach the address can read them.\n\n\
    With --of, the command watches the kernel's activities of one kind instead of wake-ups, by \
    source and CPU: how often each runs, how long, and how long after its request. irq are \
    handlers of interrupts; their requests are in hardware, so the delay is unknown. softirq \
    counts from the first softirq_raise. work counts from the queueing; its run time includes the \
    time in which it sleeps or is preempted. timer counts from the latest expiry time of an \
    hrtimer; the delay of other timers is unknown. napi are polls of network devices: the run time \
    is the time since the previous poll in NET_RX, so it is an upper bound. ipi are interrupts \
    between CPUs, by sending thread and function. Run times include interruptions by other \
    activities. --of uses trace events, which require root. Each event costs about 0.1 us where it occurs, and up to 1.5 us of CPU time in \
    this program. If more events occur than it can read, they are lost and counted.";

/// Watch all wake-ups: which threads wait, and what delays them
#[derive(Parser)]
#[command(long_about = LONG)]
struct Watch {
    /// Group by: cpu, priority (scheduling class), comm (name), cgroup, source [default: cpu; with
    /// --of: source,cpu]
    #[arg(long, value_name = "AXIS,…", value_delimiter = ',')]
    #[arg(value_parser = named(AXES.to_vec()))]
    by: Vec<Axis>,
    /// Watch irq, softirq, work, timer, napi or ipi instead of wake-ups
    #[arg(long, value_name = "KIND", value_parser = named(ActivityKind::ALL.map(|kind| (kind.name(), kind)).to_vec()))]
    #[arg(conflicts_with_all = ["cgroup", "real_time", "stalled"])]
    of: Option<ActivityKind>,
    /// Time to watch [default: until Ctrl-C]
    #[arg(short = 'D', long, value_name = "TIME")]
    duration: Option<Nanos>,
    /// Only threads of this control group, and what delayed them
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Only threads of deadline and real-time policies
    #[arg(long)]
    real_time: bool,
    /// Use trace events instead of BPF programs
    #[arg(long)]
    no_bpf: bool,
    /// Number of longest waits to show
    #[arg(long, value_name = "N", default_value = "8", value_parser = value_parser!(u32).range(0..=16))]
    longest: u32,
    /// Exit 3 at a wait longer than this
    #[arg(long, value_name = "TIME")]
    stalled: Option<Nanos>,
    /// Number of rows at the end, longest waits first
    #[arg(long, value_name = "N", default_value = "40", value_parser = value_parser!(u32).range(1..))]
    rows: u32,
    /// Serve the counts as metrics for Prometheus at http://ADDRESS/metrics, such as 127.0.0.1:9760
    #[arg(long, value_name = "ADDRESS", conflicts_with = "of")]
    listen: Option<SocketAddr>,
    /// Print all counts as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress, only the result
    #[arg(short, long)]
    quiet: bool,
    /// Show an interactive view: all rows, keys to scroll and pause
    #[arg(long, conflicts_with = "quiet")]
    tui: bool,
}

/// An axis of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Cpu,
    Wakeups(WakeupAxis),
    Source,
}

/// The axes of `--by`, in the order of the columns.
const AXES: [(&str, Axis); 5] = [
    ("source", Axis::Source),
    (WakeupAxis::Cpu.name(), Axis::Cpu),
    (
        WakeupAxis::Priority.name(),
        Axis::Wakeups(WakeupAxis::Priority),
    ),
    (WakeupAxis::Comm.name(), Axis::Wakeups(WakeupAxis::Comm)),
    (WakeupAxis::Group.name(), Axis::Wakeups(WakeupAxis::Group)),
];

impl Watch {
    /// Returns the requested axes of wake-ups.
    fn wakeup_axes(&self) -> Result<Vec<WakeupAxis>> {
        if self.by.is_empty() {
            return Ok(vec![WakeupAxis::Cpu]);
        }
        let requested = AXES.iter().filter(|(_, axis)| self.by.contains(axis));
        requested
            .map(|(name, axis)| match axis {
                Axis::Cpu => Ok(WakeupAxis::Cpu),
                Axis::Wakeups(axis) => Ok(*axis),
                Axis::Source => Err(UsageError(format!(
                    "--by {name} needs --of; wake-ups can be grouped by cpu, priority, comm and \
                     cgroup"
                ))
                .into()),
            })
            .collect()
    }

    /// Returns the requested axes of activities.
    fn activity_axes(&self, kind: ActivityKind) -> Result<Vec<ActivityAxis>> {
        if self.by.is_empty() {
            return Ok(vec![ActivityAxis::Source, ActivityAxis::Cpu]);
        }
        let requested = AXES.iter().filter(|(_, axis)| self.by.contains(axis));
        requested
            .map(|(name, axis)| match axis {
                Axis::Cpu => Ok(ActivityAxis::Cpu),
                Axis::Source => Ok(ActivityAxis::Source),
                Axis::Wakeups(_) => Err(UsageError(format!(
                    "--by {name} is for wake-ups; --of {} can be grouped by source and cpu",
                    kind.name()
                ))
                .into()),
            })
            .collect()
    }
}

impl Run for Watch {
    fn run(self, context: &Context) -> Result<Exit> {
        if self.tui {
            tui::need_terminal()?;
        }
        if let Some(kind) = self.of {
            let axes = self.activity_axes(kind)?;
            return activities::run(&self, kind, &axes, context);
        }
        let axes = self.wakeup_axes()?;
        let request = WakeupRequest {
            by_comm: axes.contains(&WakeupAxis::Comm),
            by_group: axes.contains(&WakeupAxis::Group),
            group: self.cgroup,
            real_time_only: self.real_time,
            longest: self.longest as usize,
            source: self.no_bpf.then_some(WakeupSource::Events),
        };
        let (duration, limit) = (self.duration, self.stalled);
        let scrape = self.listen.map(Scrape::start).transpose()?;
        let stop = stop_flag()?;
        let host = Host::live();
        let mut session = WakeupSession::start(&request, &host)?;
        let group = request
            .group
            .as_deref()
            .and_then(|path| host.control_group(path));
        if let Some(group) = group {
            output::note(&host.group_facts(&group).describe());
        }
        if let (Some(why), false) = (session.why_events(), self.no_bpf) {
            output::note(&format!(
                "{why}; wake-ups are counted from trace events instead, which has more overhead"
            ));
        }
        if let Some(scrape) = &scrape {
            output::note(&format!("metrics: http://{}/metrics", scrape.address));
        }
        let view = View::new(self.quiet, self.tui, &stop);
        let (seen, stalled) = observe(&mut session, duration, &stop, limit, |seen| {
            if let Some(scrape) = &scrape {
                scrape.publish(seen, &axes);
            }
            let others = seen.longest.len() + seen.open.len().min(10) + 10;
            view.draw(others, context, |rows| document::wakeups(seen, &axes, rows));
        })?;
        view.clear();
        if let Err(error) = session.stop() {
            output::note(&error.to_string());
        }
        if self.json {
            output::print(&output::json(&seen))?;
        } else {
            let shown = document::wakeups(&seen, &axes, self.rows as usize);
            output::print(&text::render(&shown, &context.style()))?;
        }
        if let (Some(limit), true) = (limit, stalled) {
            let longest = seen.longest();
            output::note(&format!(
                "a thread waited {longest} for its CPU (limit: {limit})"
            ));
            return Ok(Exit::Broken);
        }
        Ok(ended(stop.load(Ordering::Relaxed), duration))
    }
}

/// Returns the exit code of a watch that ended.
const fn ended(stopped: bool, duration: Option<Nanos>) -> Exit {
    match (stopped, duration) {
        // If no duration was given, Ctrl-C is the normal way to end the watch.
        (true, Some(_)) => Exit::Interrupted,
        _ => Exit::Done,
    }
}

/// Watches until the time is over, `stop` is set, or a wait exceeds the limit. Returns the counts,
/// and whether a wait exceeded the limit.
fn observe(
    session: &mut WakeupSession,
    duration: Option<Nanos>,
    stop: &AtomicBool,
    limit: Option<Nanos>,
    mut draw: impl FnMut(&Wakeups),
) -> Result<(Wakeups, bool)> {
    let is_over = |seen: &Wakeups| limit.is_some_and(|limit| seen.longest() > limit);
    let end = Instant::now() + duration.map_or(FOR_EVER, Duration::from);
    let (mut drawn, mut looked) = (Instant::now(), Instant::now());
    loop {
        let redraw = drawn.elapsed() >= REDRAW;
        if redraw || (limit.is_some() && looked.elapsed() >= LOOK) {
            let seen = session.read()?;
            looked = Instant::now();
            if redraw {
                draw(&seen);
                drawn = looked;
            }
            if is_over(&seen) {
                return Ok((seen, true));
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            let seen = session.read()?;
            let stalled = is_over(&seen);
            return Ok((seen, stalled));
        }
        let turn = Nanos::from(left.min(TURN).min(session.turn()));
        watching::wait(Some(turn), stop, || Ok(session.keep_up()?))?;
    }
}
