//! `watch`: watches all wake-ups of the machine live.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, value_parser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_host::Host;
use punctual_model::{Nanos, WakeupAxis, Wakeups};
use punctual_report::document;
use punctual_report::text::{self, TextStyle};
use punctual_session::{WakeupRequest, WakeupSession};

use super::{Run, Verb, measure, named, watching};
use crate::context::Context;
use crate::exit::Exit;
use crate::{live, output};

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
    written, read and counted. Lost events are counted. Threads of SCHED_IDLE count as threads of \
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
    that has more groups with members.";

/// Watch all wake-ups: which threads wait, and what delays them
#[derive(Parser)]
#[command(long_about = LONG)]
struct Watch {
    /// Group by: cpu, priority (scheduling class), comm (name), cgroup
    #[arg(
        long,
        value_name = "AXIS,…",
        value_delimiter = ',',
        default_value = "cpu"
    )]
    #[arg(value_parser = named(AXES.to_vec()))]
    by: Vec<WakeupAxis>,
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
    /// Print all counts as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress, only the result
    #[arg(short, long)]
    quiet: bool,
}

/// The axes of `--by`, in the order of the columns.
const AXES: [(&str, WakeupAxis); 4] = [
    ("cpu", WakeupAxis::Cpu),
    ("priority", WakeupAxis::Priority),
    ("comm", WakeupAxis::Comm),
    ("cgroup", WakeupAxis::Group),
];

impl Run for Watch {
    fn run(self, context: &Context) -> Result<Exit> {
        let axes = AXES.map(|(_, axis)| axis).into_iter();
        let axes: Vec<WakeupAxis> = axes.filter(|axis| self.by.contains(axis)).collect();
        let request = WakeupRequest {
            by_comm: axes.contains(&WakeupAxis::Comm),
            by_group: axes.contains(&WakeupAxis::Group),
            group: self.cgroup,
            real_time_only: self.real_time,
            longest: self.longest as usize,
            no_bpf: self.no_bpf,
        };
        let (duration, limit) = (self.duration, self.stalled);
        let stop = measure::stop_flag()?;
        let host = Host::live();
        let mut session = WakeupSession::start(&request, &host)?;
        let group = request
            .group
            .as_deref()
            .and_then(|path| host.control_group(path));
        if let Some(group) = group {
            output::note(&host.group_facts(&group).describe());
        }
        if let (Some(why), false) = (session.why_not_programs(), request.no_bpf) {
            output::note(&format!(
                "{why}; wake-ups are counted from trace events instead, which has more overhead"
            ));
        }
        let view = View::new(self.quiet);
        let (seen, stalled) = observe(&mut session, duration, &stop, limit, |seen| {
            view.draw(seen, &axes, context);
        })?;
        view.clear();
        if let Err(error) = session.stop() {
            output::note(&error.to_string());
        }
        if self.json {
            output::print(&output::json(&seen)?)?;
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
        Ok(match (stop.load(Ordering::Relaxed), duration) {
            // If no duration was given, Ctrl-C is the normal way to end the watch.
            (true, Some(_)) => Exit::Interrupted,
            _ => Exit::Done,
        })
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
        let turn = Nanos::from(left.min(TURN));
        watching::wait(Some(turn), stop, || Ok(session.keep_up()?))?;
    }
}

/// The text that is also printed at the end. On a terminal, it is redrawn during the watch.
struct View(Option<ProgressBar>);

impl View {
    fn new(quiet: bool) -> Self {
        if !live::is_shown(quiet) {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self(Some(bar))
    }

    fn draw(&self, seen: &Wakeups, axes: &[WakeupAxis], context: &Context) {
        let Some(bar) = &self.0 else { return };
        let height = live::terminal_height();
        // If there were too many lines, they would scroll each time the view is drawn.
        let others = seen.longest.len() + seen.open.len().min(10) + 10;
        let rows = height.saturating_sub(others).max(1);
        // The view is drawn on stderr, so its width does not depend on stdout.
        let style = TextStyle {
            width: live::terminal_width(),
            ..context.style()
        };
        let text = text::render(&document::wakeups(seen, axes, rows), &style);
        let lines: Vec<&str> = text.lines().take(height.saturating_sub(1)).collect();
        bar.set_message(output::safe(&lines.join("\n")).into_owned());
        bar.tick();
    }

    fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
