//! One explained outlier over time, which is the output of `explain`.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{
    ActivitySpan, EventKind, HardwareCounters, Nanos, Segment, Task, ThreadActivity, ThreadStack,
    ThreadState, TraceEvent, Window, grouped, interrupted_functions, stack_of,
};

use super::table::{Column, Fold, Row, Table};
use super::{Block, Document, Medium, Section, Tone};
use crate::outlier_timeline::OutlierTimeline;

/// Maximum number of events unless all are requested. Half of them are from the beginning, half
/// from the end.
const LINES: usize = 60;

/// Events are shown from one tenth of the latency before the expected time onwards. The last event
/// of each CPU before that is also shown.
const LEAD: u64 = 10;

/// Maximum number of kernel stacks.
const STACKS: usize = 3;

/// Width of a track in characters.
const TRACK_WIDTH: u64 = 40;

/// Length of the longest bar, in characters.
const BAR: u64 = 24;

/// Returns one outlier: a sentence that explains it, the contributions, and its events over time.
/// The victim's events are marked `>`, requested events `*`. Below an event is the cause of the
/// time that follows it. With `all`, every stored event is shown.
pub fn outlier(timeline: &OutlierTimeline, all: bool) -> Document {
    let outlier = &timeline.outlier;
    let victim = &timeline.window.victim;
    let scheduling =
        (victim.scheduling).map_or(String::new(), |scheduling| format!(", {scheduling}"));
    let name = Task {
        pid: victim.tid,
        comm: victim.comm,
        ..Task::default()
    };
    let thread = if victim.comm.is_empty() {
        format!("{name}{scheduling}")
    } else {
        format!("thread {name}{scheduling}")
    };
    let title = format!("{}, {}", timeline.title(), timeline.time());
    let mut events = vec![Block::Table(events(timeline, all))];
    let left_out = timeline.window.left_out;
    if timeline.window.events.iter().any(TraceEvent::is_requested) {
        events.push(Block::faint("* requested by --event"));
    }
    if left_out > 0 {
        let count = punctual_model::counted(left_out, "event", "events");
        events.push(Block::faint(format!(
            "{count} in the middle were not stored"
        )));
    }
    let mut answer = vec![Block::text(outlier.blame.sentence())];
    if outlier.light_stage {
        answer.push(Block::faint(
            "seen in the light stage: system calls, page faults and interrupts were not recorded. The \
             time of interrupts is part of the time of the threads that they interrupted. This may be \
             several jobs without a wait between them",
        ));
    }
    Document {
        sections: vec![
            Section::titled(title, vec![Block::text(thread)]),
            Section::new(answer),
            Section::new(vec![Block::Table(shares(timeline))]),
            Section::new(activity(timeline)),
            Section::new(stacks_of(timeline)),
            Section::new(events),
        ]
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .collect(),
        ..Document::default()
    }
}

/// Returns the activity of each thread involved in a job.
fn activity(timeline: &OutlierTimeline) -> Vec<Block> {
    if timeline.activity.is_empty() {
        return Vec::new();
    }
    let columns = vec![
        Column::left("thread").cut_to(8).most(20),
        Column::left(format!("0 to {}", timeline.window.latency())),
    ];
    let rows = timeline.activity.iter().map(|thread| {
        let cells = (0..TRACK_WIDTH).map(|cell| sign(timeline, thread, cell));
        Row::new([thread.task.label(), cells.collect()])
    });
    vec![
        Block::Table(Table::new(columns, rows.collect())),
        Block::faint("# running, = waiting for a CPU, . asleep, T stopped, ? unknown"),
    ]
}

/// Returns the hardware counters of a job, and the stacks of an outlier: where a job waited and was
/// woken, what a late timer interrupted, and where a thread was switched out late. The result is
/// empty if none of them was recorded.
pub(crate) fn stacks_of(timeline: &OutlierTimeline) -> Vec<Block> {
    let mut blocks = counters(timeline);
    let waits = wait_stacks(timeline);
    blocks.extend(if waits.is_empty() {
        stacks(timeline)
    } else {
        waits
    });
    blocks.extend(late_stacks(timeline));
    blocks
}

/// Returns the comparison of the processor's counters with those of the usual job.
fn counters(timeline: &OutlierTimeline) -> Vec<Block> {
    let counters = timeline.window.evidence.counters.as_ref();
    let text = counters.map(|counters| format!("hardware counters: {counters}"));
    text.map(|text| match counters {
        Some(HardwareCounters::Unknown(_)) => Block::faint(text),
        _ => Block::text(text),
    })
    .into_iter()
    .collect()
}

/// Returns the longest waits of a job, with the stacks of its thread and of its waker.
fn wait_stacks(timeline: &OutlierTimeline) -> Vec<Block> {
    let window = &timeline.window;
    let waits = &window.evidence.waits;
    if waits.is_empty() {
        return Vec::new();
    }
    let row = |title: String, role: &str, stack: &ThreadStack| {
        let thread = format!("{role} {}-{}", stack.comm, stack.tid);
        let kernel = match stack.kernel.as_slice() {
            [] => "unknown".to_owned(),
            frames => named(stack_of(frames, window)),
        };
        [
            Row::new([title, thread.clone(), "user".to_owned(), stack.user_text()]),
            Row::new([String::new(), String::new(), "kernel".to_owned(), kernel]),
        ]
    };
    let rows = waits.iter().flat_map(|wait| {
        let length = (wait.to - wait.from).to_string();
        let waker = match &wait.waker {
            Some(waker) => row(String::new(), "woken by", waker).to_vec(),
            None => Vec::new(),
        };
        row(length, "waiting:", &wait.waiting)
            .into_iter()
            .chain(waker)
    });
    let columns = vec![
        Column::right("wait"),
        Column::left("thread").cut_to(16).most(30),
        Column::left("stack"),
        Column::left("functions, innermost first").fold(Fold::Wrap(24)),
    ];
    vec![Block::Table(Table::new(columns, rows.collect()))]
}

/// Returns the kernel stacks of the longest sleeps of a job's thread.
fn stacks(timeline: &OutlierTimeline) -> Vec<Block> {
    let Some(own) = timeline.activity.first() else {
        return Vec::new();
    };
    let window = &timeline.window;
    let stacks = window.events.iter().filter_map(|event| match &event.kind {
        EventKind::KernelStack { frames } if event.pid == window.victim.tid => {
            let asleep = |span: &&ActivitySpan| {
                span.state == ThreadState::Asleep && (span.from..span.to).contains(&event.time)
            };
            let span = own.spans.iter().find(asleep)?;
            Some((span.to - span.from, stack_of(frames, window)))
        }
        _ => None,
    });
    let mut stacks: Vec<(Nanos, String)> = stacks.collect();
    if stacks.is_empty() {
        return Vec::new();
    }
    stacks.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    let columns = vec![
        Column::right("blocked for"),
        Column::left("kernel stack, innermost first").fold(Fold::Wrap(24)),
    ];
    let rows = stacks
        .into_iter()
        .take(STACKS)
        .map(|(length, stack)| Row::new([length.to_string(), named(stack)]));
    vec![Block::Table(Table::new(columns, rows.collect()))]
}

/// Returns the kernel stack that a late timer interrupted, and the stack of the thread that was
/// switched out for the victim.
fn late_stacks(timeline: &OutlierTimeline) -> Vec<Block> {
    let window = &timeline.window;
    let rows = window.events.iter().filter_map(|event| {
        let (what, stack) = match &event.kind {
            EventKind::TimerLate { late, frames, .. } => (
                format!("timer late by {late}, interrupts"),
                interrupted_stack(frames, window),
            ),
            EventKind::TimerlatStack { frames } => (
                "timerlat's interrupt came upon".to_owned(),
                interrupted_stack(frames, window),
            ),
            EventKind::SwitchedOut { task, frames, .. } => (
                format!("{} switched out at", task.label()),
                stack_of(frames, window),
            ),
            _ => return None,
        };
        Some(Row::new([what, named(stack)]))
    });
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let columns = vec![
        Column::left("when it was late").cut_to(16).most(44),
        Column::left("kernel stack, innermost first").fold(Fold::Wrap(24)),
    ];
    vec![Block::Table(Table::new(columns, rows))]
}

/// Returns the functions that an interrupt interrupted, from the stack inside it.
fn interrupted_stack(frames: &[u64], window: &Window) -> String {
    match interrupted_functions(frames, window) {
        Some(functions) if functions.is_empty() => "user space".to_owned(),
        Some(functions) => functions.join(" < "),
        None => stack_of(frames, window),
    }
}

/// Returns the stack, or an explanation if its functions have no names.
fn named(stack: String) -> String {
    if stack.is_empty() || stack.starts_with("0x") {
        "unknown: kernel symbols cannot be read".to_owned()
    } else {
        stack
    }
}

/// Returns the character for the state in which a thread spent most of this part of the job.
fn sign(timeline: &OutlierTimeline, thread: &ThreadActivity, cell: u64) -> char {
    let window = &timeline.window;
    let at = |cell: u64| {
        let part = u128::from(window.latency().0) * u128::from(cell) / u128::from(TRACK_WIDTH);
        window.expected + Nanos(part as u64)
    };
    let (from, to) = (at(cell), at(cell + 1));
    let within = |span: &&ActivitySpan| span.to.min(to).saturating_sub(span.from.max(from));
    let most = thread.spans.iter().max_by_key(within);
    match most.map(|span| span.state) {
        Some(ThreadState::Running) => '#',
        Some(ThreadState::Ready) => '=',
        Some(ThreadState::Asleep) => '.',
        Some(ThreadState::Stopped) => 'T',
        Some(ThreadState::Unknown) | None => '?',
    }
}

fn shares(timeline: &OutlierTimeline) -> Table {
    let latency = timeline.outlier.latency_ns.0.max(1);
    let columns = vec![
        Column::right("share"),
        Column::right("").drop(1),
        Column::left("taken by").fold(Fold::Wrap(20)),
        // A page shows a plot instead.
        Column::left("").drop(2).only(Medium::Terminal),
    ];
    let rows = timeline.outlier.blame.shares.iter().map(|share| {
        let times = match share.count {
            0 | 1 => String::new(),
            n => format!(", {} times", grouped(n.into())),
        };
        let bar = (u128::from(share.ns.0) * u128::from(BAR) / u128::from(latency)) as usize;
        Row::new([
            share.ns.to_string(),
            format!("{:.1}%", share.ns.0 as f64 * 100.0 / latency as f64),
            share.cause.label() + &times,
            "#".repeat(bar.min(BAR as usize)),
        ])
    });
    Table::new(columns, rows.collect())
}

/// A line in the table of events.
enum Line<'a> {
    Event(&'a TraceEvent),
    From(&'a Segment),
    Due,
    Came,
    LeftOut(usize),
}

fn events(timeline: &OutlierTimeline, all: bool) -> Table {
    let names = names(timeline);
    let columns = vec![
        Column::right("time"),
        Column::right("CPU"),
        Column::left("thread").cut_to(8).most(20),
        Column::left(""),
        Column::left("event").fold(Fold::Wrap(24)),
    ];
    let mark = |when: String, (name, text): (&str, &str)| Row {
        tone: Tone::Heading,
        ..Row::new([
            when,
            "---".to_owned(),
            name.to_owned(),
            "-".to_owned(),
            text.to_owned(),
        ])
    };
    let rows = chosen(timeline, all).into_iter().map(|line| match line {
        Line::Event(event) => event_row(timeline, event, &names),
        Line::From(segment) => {
            let taker = segment.cause.label();
            let length = segment.length().to_string();
            Row {
                tone: Tone::Warning,
                ..Row::new(["", "", &format!("  {length}"), "|", &taker])
            }
        }
        Line::Due => mark("0".to_owned(), timeline.ends().from),
        Line::Came => mark(timeline.when(timeline.window.actual), timeline.ends().to),
        Line::LeftOut(count) => {
            let text = punctual_model::counted(count as u64, "event", "events");
            Row {
                tone: Tone::Faint,
                ..Row::new(["...", "", "", "", &format!("{text} not shown")])
            }
        }
    });
    Table::new(columns, rows.collect())
}

fn event_row(timeline: &OutlierTimeline, event: &TraceEvent, names: &BTreeMap<u32, Task>) -> Row {
    let own = timeline.is_own(event);
    let thread = names.get(&event.pid);
    Row {
        tone: if own || event.is_requested() {
            Tone::Good
        } else {
            Tone::Plain
        },
        ..Row::new([
            timeline.when(event.time),
            event.cpu.to_string(),
            thread.map_or_else(|| event.pid.to_string(), Task::label),
            match own {
                true => ">",
                false if event.is_requested() => "*",
                false => "",
            }
            .to_owned(),
            event.kind.describe(&timeline.window),
        ])
    }
}

fn names(timeline: &OutlierTimeline) -> BTreeMap<u32, Task> {
    let mut names = BTreeMap::new();
    for event in &timeline.window.events {
        if let EventKind::Switch { prev, next, .. } = &event.kind {
            names.entry(prev.pid).or_insert(*prev);
            names.entry(next.pid).or_insert(*next);
        }
    }
    names
}

/// Returns the lines to show in order of time: events, starts of segments, and the two times.
fn chosen(timeline: &OutlierTimeline, all: bool) -> Vec<Line<'_>> {
    let window = &timeline.window;
    let lead = window.latency().0 / LEAD;
    let from = Nanos(window.expected.0.saturating_sub(lead));
    let first_of_cpu: BTreeMap<u32, Nanos> = window
        .events
        .iter()
        .filter(|event| event.time < from)
        .map(|event| (event.cpu, event.time))
        .collect();
    let wanted = |event: &&TraceEvent| {
        all || (event.time >= from && event.time <= window.actual)
            || first_of_cpu.get(&event.cpu) == Some(&event.time)
    };
    let events: Vec<&TraceEvent> = window.events.iter().filter(wanted).collect();
    let beyond = events.len().saturating_sub(LINES);
    let mut lines: Vec<(Nanos, u8, Line<'_>)> = Vec::new();
    let hidden = if all || beyond == 0 {
        events.len()..events.len()
    } else {
        LINES / 2..LINES / 2 + beyond
    };
    // Requested events are never hidden.
    let requested = |place: &usize| events[*place].is_requested();
    let spared: BTreeSet<usize> = (hidden.clone().rev())
        .filter(requested)
        .take(LINES)
        .collect();
    if let Some(first) = events.get(hidden.start)
        && hidden.len() > spared.len()
    {
        let count = hidden.len() - spared.len();
        lines.push((first.time, 1, Line::LeftOut(count)));
    }
    let is_hidden = |time: Nanos| {
        let bounds = (events.get(hidden.start), events.get(hidden.end));
        matches!(bounds, (Some(first), Some(last)) if first.time < time && time < last.time)
    };
    for (place, event) in events.iter().enumerate() {
        if !hidden.contains(&place) || spared.contains(&place) {
            lines.push((event.time, 1, Line::Event(event)));
        }
    }
    let segments = timeline
        .segments
        .iter()
        .filter(|segment| !is_hidden(segment.from));
    lines.extend(segments.map(|segment| (segment.from, 2, Line::From(segment))));
    lines.push((window.expected, 0, Line::Due));
    lines.push((window.actual, 3, Line::Came));
    // The sort is stable: simultaneous events keep their order.
    lines.sort_by_key(|(time, rank, _)| (*time, *rank));
    lines.into_iter().map(|(_, _, line)| line).collect()
}
