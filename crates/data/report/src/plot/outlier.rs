//! One outlier over time: its causes, the victim, and each CPU involved.

use std::collections::BTreeMap;

use punctual_model::{
    ActivitySpan, EventKind, Nanos, Segment, ShareKind, ThreadActivity, ThreadState, TraceEvent,
};

use super::canvas::{Anchor, Canvas, Colour, Stroke, fit, text_width};
use super::{Heading, Plot, PlotOptions};
use crate::outlier_timeline::{OutlierTimeline, closes, opened};

/// Space on the left of the tracks for their names.
const LEFT: f64 = 118.0;
const RIGHT: f64 = 20.0;
const TRACK_HEIGHT: f64 = 22.0;
const GAP: f64 = 10.0;
const SMALL: u32 = 11;
const BODY: u32 = 12;
/// Time shown before and after the outlier, as a fraction of the latency.
const AROUND: f64 = 0.06;
/// Maximum number of CPUs: the victim's CPU comes first, then those of the segments.
const CPUS: usize = 4;
/// Maximum number of contributions listed below.
const LISTED: usize = 8;

const VICTIM: Colour = Colour(0x00, 0x72, 0xb2);
const READY: Colour = Colour(0x9c, 0xcc, 0xe8);
/// Alternating colours of threads, so that adjacent ones differ.
const THREADS: [Colour; 2] = [Colour(0xb8, 0xb8, 0xb8), Colour(0xd6, 0xd6, 0xd6)];
const MARK: Stroke = Stroke::solid(Colour(0x33, 0x33, 0x33), 1.2);

/// Returns the colour of each kind. Related kinds have similar colours.
const fn colour(kind: ShareKind) -> Colour {
    match kind {
        ShareKind::Interrupt | ShareKind::Nmi => Colour(0xd5, 0x5e, 0x00),
        ShareKind::Softirq => Colour(0xe6, 0x9f, 0x00),
        ShareKind::HigherPriority | ShareKind::Competing | ShareKind::Unranked => {
            Colour(0x00, 0x9e, 0x73)
        }
        ShareKind::Blocking
        | ShareKind::IrqsOff
        | ShareKind::PreemptOff
        | ShareKind::LockHolder => Colour(0xcc, 0x79, 0xa7),
        ShareKind::Silence | ShareKind::Stolen => Colour(0x22, 0x22, 0x22),
        ShareKind::Undecided => Colour(0x55, 0x55, 0x55),
        ShareKind::Unexplained => Colour(0x99, 0x99, 0x99),
        ShareKind::PageFault
        | ShareKind::OwnWork
        | ShareKind::SystemCall
        | ShareKind::ReturnToUser => VICTIM,
        ShareKind::Device => Colour(0xa6, 0x76, 0x1d),
        ShareKind::IdleExit | ShareKind::TimerLate | ShareKind::TimerSlack => {
            Colour(0x56, 0xb4, 0xe9)
        }
        ShareKind::Scheduling | ShareKind::Migration | ShareKind::Throttled | ShareKind::NotRun => {
            Colour(0xf0, 0xe4, 0x42)
        }
        ShareKind::Waiting | ShareKind::OwnSleep | ShareKind::Stopped => Colour(0x80, 0x60, 0xa0),
    }
}

/// Returns whether white text is more legible on this colour than black.
const fn is_dark(Colour(r, g, b): Colour) -> bool {
    (r as u32 * 299 + g as u32 * 587 + b as u32 * 114) < 120_000
}

/// A block on a track.
struct Block {
    from: Nanos,
    to: Nanos,
    text: String,
    fill: Colour,
}

/// The conversion of times to pixels.
struct Scale {
    from: f64,
    per_ns: f64,
    expected: u64,
}

impl Scale {
    fn x(&self, time: Nanos) -> f64 {
        let ns = time.0 as f64 - self.expected as f64;
        LEFT + (ns - self.from) * self.per_ns
    }
}

pub(super) fn draw(timeline: &OutlierTimeline, options: &PlotOptions) -> Plot {
    let width = f64::from(options.width);
    let latency = timeline.window.latency().0.max(1) as f64;
    let scale = Scale {
        from: -latency * AROUND,
        per_ns: (width - LEFT - RIGHT) / (latency * (1.0 + 2.0 * AROUND)),
        expected: timeline.window.expected.0,
    };
    let shares = timeline.outlier.blame.shares.len().min(LISTED);
    let cpus = cpus(timeline);
    let top = match options.heading {
        Heading::None => 14.0,
        _ => 46.0,
    };
    let threads = timeline.activity.len().max(1) as f64;
    let asked = requested(timeline);
    let more = if asked.is_empty() { 0.0 } else { 1.0 };
    let tracks = 1.0 + threads + 2.0 * cpus.len() as f64 + more;
    let bottom = top + tracks * (TRACK_HEIGHT + GAP) + 6.0;
    let height = bottom + 46.0 + 18.0 * shares as f64 + 8.0;
    let title = timeline.title().replacen('o', "O", 1);
    let mut canvas = Canvas {
        width: options.width,
        height: height as u32,
        title: title.clone(),
        shapes: Vec::new(),
    };
    headings(&mut canvas, timeline, &title, options);
    axis(&mut canvas, timeline, &scale, top, bottom, width - RIGHT);
    let mut y = top;
    let mut track = |canvas: &mut Canvas, label: &str, blocks: &[Block]| {
        track(canvas, label, blocks, &scale, y, width - RIGHT);
        y += TRACK_HEIGHT + GAP;
    };
    track(&mut canvas, "taken by", &takers(&timeline.segments));
    for of in &timeline.activity {
        let label = fit(&of.task.label(), BODY, LEFT - 16.0);
        track(&mut canvas, &label, &thread_blocks(timeline, of));
    }
    if timeline.activity.is_empty() {
        track(&mut canvas, "the thread", &victim(timeline));
    }
    for cpu in cpus {
        let (running, handlers) = cpu_blocks(timeline, cpu);
        track(&mut canvas, &format!("CPU {cpu} handlers"), &handlers);
        track(&mut canvas, &format!("CPU {cpu} threads"), &running);
    }
    if !asked.is_empty() {
        track(&mut canvas, "--event", &asked);
    }
    legend(&mut canvas, timeline, bottom + 46.0, width);
    Plot { canvas }
}

fn headings(canvas: &mut Canvas, timeline: &OutlierTimeline, title: &str, options: &PlotOptions) {
    let (title, line) = match &options.heading {
        Heading::None => return,
        Heading::Auto => (title.to_owned(), timeline.time()),
        Heading::Text(text) => (text.clone(), title.to_owned()),
    };
    let room = f64::from(canvas.width) - 32.0;
    let title = fit(&title, 15, room);
    canvas.text((16.0, 22.0), &title, 15, Anchor::Start, Colour::BLACK);
    let line = fit(&line, SMALL, room);
    canvas.text((16.0, 38.0), &line, SMALL, Anchor::Start, Colour::GREY);
}

/// Draws ticks at round times, and lines at the two times of the outlier.
fn axis(
    canvas: &mut Canvas,
    timeline: &OutlierTimeline,
    scale: &Scale,
    top: f64,
    bottom: f64,
    right: f64,
) {
    let window = &timeline.window;
    let step = step(window.latency().0);
    let mut lines = Vec::new();
    let first = (scale.from / step as f64).ceil() as i64;
    for n in first..first.saturating_add(40) {
        let ns = n.saturating_mul(i64::try_from(step).unwrap_or(i64::MAX));
        let time = Nanos(window.expected.0.saturating_add_signed(ns));
        let x = scale.x(time);
        if x > right {
            break;
        }
        lines.push(vec![(x, top), (x, bottom)]);
        let label = timeline.when(time);
        canvas.text(
            (x, bottom + 17.0),
            &label,
            SMALL,
            Anchor::Middle,
            Colour::BLACK,
        );
    }
    canvas.lines(lines, Stroke::solid(Colour::GRID, 1.0));
    let (due, came) = (scale.x(window.expected), scale.x(window.actual));
    let marks = [due, came].map(|x| vec![(x, top - 6.0), (x, bottom)]);
    canvas.lines(marks.to_vec(), MARK);
    let y = bottom + 33.0;
    let ends = timeline.ends();
    for (x, (name, _)) in [(due, ends.from), (came, ends.to)] {
        canvas.text((x, y), name, SMALL, Anchor::Middle, Colour::GREY);
    }
}

/// Returns 1, 2 or 5 times a power of ten, so that about six steps fit.
fn step(latency: u64) -> u64 {
    let rough = (latency / 6).max(1);
    let power = 10_u64.pow(rough.ilog10());
    [1, 2, 5, 10]
        .into_iter()
        .map(|n: u64| n.saturating_mul(power))
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

fn track(canvas: &mut Canvas, label: &str, blocks: &[Block], scale: &Scale, y: f64, right: f64) {
    let at = (LEFT - 10.0, y + TRACK_HEIGHT / 2.0 + 4.0);
    canvas.text(at, label, BODY, Anchor::End, Colour::BLACK);
    for block in blocks {
        let (from, to) = (scale.x(block.from).max(LEFT), scale.x(block.to).min(right));
        if to <= LEFT || from >= right {
            continue;
        }
        // Blocks that are too short to be visible are drawn wider.
        let width = (to - from).max(0.7);
        canvas.cells(vec![((from, y), (width, TRACK_HEIGHT))], block.fill);
        let text = fit(&block.text, SMALL, width - 6.0);
        if text != "…" && text_width(&text, SMALL) <= width - 6.0 {
            let ink = if is_dark(block.fill) {
                Colour::WHITE
            } else {
                Colour::BLACK
            };
            let at = (from + 3.0, y + TRACK_HEIGHT / 2.0 + 4.0);
            canvas.text(at, &text, SMALL, Anchor::Start, ink);
        }
    }
}

fn takers(segments: &[Segment]) -> Vec<Block> {
    let block = |segment: &Segment| Block {
        from: segment.from,
        to: segment.to,
        text: segment.cause.source.label(),
        fill: colour(segment.cause.kind()),
    };
    segments.iter().map(block).collect()
}

/// Returns the blocks of a thread involved in a job. Sleep has no block.
fn thread_blocks(timeline: &OutlierTimeline, track: &ThreadActivity) -> Vec<Block> {
    let own = track.task.pid == timeline.window.victim.tid;
    let block = |span: &ActivitySpan| {
        let (text, fill) = match span.state {
            ThreadState::Running if own => (span.cpu.map(|cpu| format!("CPU {cpu}")), VICTIM),
            ThreadState::Running => (span.cpu.map(|cpu| format!("CPU {cpu}")), THREADS[0]),
            ThreadState::Ready => (Some("waits for a CPU".to_owned()), READY),
            ThreadState::Stopped => (Some("stopped".to_owned()), colour(ShareKind::Stopped)),
            ThreadState::Unknown => (Some("unknown".to_owned()), Colour::GRID),
            ThreadState::Asleep => return None,
        };
        Some(Block {
            from: span.from,
            to: span.to,
            text: text.unwrap_or_default(),
            fill,
        })
    };
    track.spans.iter().filter_map(block).collect()
}

/// Returns the times when the victim was ready to run, and when it ran.
fn victim(timeline: &OutlierTimeline) -> Vec<Block> {
    let tid = timeline.window.victim.tid;
    let end = after(timeline);
    let mut blocks = Vec::new();
    let mut open: Option<(Nanos, bool)> = None;
    let mut close = |open: &mut Option<(Nanos, bool)>, at: Nanos| {
        if let Some((from, runs)) = open.take() {
            let (text, fill) = if runs {
                ("runs", VICTIM)
            } else {
                ("ready to run", READY)
            };
            blocks.push(Block {
                from,
                to: at,
                text: text.to_owned(),
                fill,
            });
        }
    };
    for event in &timeline.window.events {
        match &event.kind {
            EventKind::Waking { task, .. } if task.pid == tid && open.is_none() => {
                open = Some((event.time, false));
            }
            EventKind::Switch { next, .. } if next.pid == tid => {
                close(&mut open, event.time);
                open = Some((event.time, true));
            }
            EventKind::Switch {
                prev, prev_state, ..
            } if prev.pid == tid => {
                let open_before = open.get_or_insert((Nanos::ZERO, true));
                open_before.1 = true;
                close(&mut open, event.time);
                open = prev_state.is_runnable().then_some((event.time, false));
            }
            _ => {}
        }
    }
    close(&mut open, end);
    blocks
}

/// Returns the end of the plotted time.
fn after(timeline: &OutlierTimeline) -> Nanos {
    let window = &timeline.window;
    window.actual + Nanos((window.latency().0 as f64 * AROUND) as u64)
}

/// Returns the requested events. Each is a mark with a text, which has space up to the next mark.
fn requested(timeline: &OutlierTimeline) -> Vec<Block> {
    let events = timeline.window.events.iter();
    let (from, end) = (timeline.window.expected, after(timeline));
    let shown: Vec<&TraceEvent> = events
        .filter(|event| event.is_requested() && event.time >= from && event.time <= end)
        .collect();
    let next = shown.iter().skip(1).map(|event| event.time);
    let ends = next.chain([end]);
    let blocks = shown.iter().zip(ends).flat_map(|(event, to)| {
        let mark = Block {
            from: event.time,
            to: event.time,
            text: String::new(),
            fill: VICTIM,
        };
        let text = Block {
            from: event.time,
            to,
            text: event.kind.describe(&timeline.window),
            fill: Colour::WHITE,
        };
        [text, mark]
    });
    blocks.collect()
}

/// Returns the CPUs to show.
fn cpus(timeline: &OutlierTimeline) -> Vec<u32> {
    let mut cpus = vec![timeline.window.victim.cpu];
    let decided = timeline.segments.iter().map(|segment| segment.cpu);
    for cpu in decided {
        if !cpus.contains(&cpu) {
            cpus.push(cpu);
        }
    }
    cpus.truncate(CPUS);
    cpus
}

/// Returns the threads of a CPU, and the handlers to draw over them.
fn cpu_blocks(timeline: &OutlierTimeline, cpu: u32) -> (Vec<Block>, Vec<Block>) {
    let on_cpu: Vec<&TraceEvent> = (timeline.window.events.iter())
        .filter(|event| event.cpu == cpu)
        .collect();
    let end = after(timeline);
    let (mut running, mut handlers) = (Vec::new(), Vec::new());
    let mut current: Option<(Nanos, String, bool)> = None;
    let mut stack: Vec<(Nanos, String, Colour)> = Vec::new();
    let mut put = |open: Option<(Nanos, String, bool)>, to: Nanos| {
        if let Some((from, text, own)) = open.filter(|(_, text, _)| text != "idle") {
            let fill = if own {
                VICTIM
            } else {
                THREADS[running.len() % THREADS.len()]
            };
            running.push(Block {
                from,
                to,
                text,
                fill,
            });
        }
    };
    for event in &on_cpu {
        match &event.kind {
            EventKind::Switch { prev, next, .. } => {
                let own = |pid: u32| pid == timeline.window.victim.tid;
                let before = current
                    .take()
                    .unwrap_or_else(|| (Nanos::ZERO, prev.label(), own(prev.pid)));
                put(Some(before), event.time);
                current = Some((event.time, next.label(), own(next.pid)));
                stack.clear();
            }
            kind if closes(kind) => {
                if let Some((from, text, fill)) = stack.pop() {
                    handlers.push(Block {
                        from,
                        to: event.time,
                        text,
                        fill,
                    });
                }
            }
            kind => {
                let begun = opened(kind).map(|(name, of)| (event.time, name, colour(of)));
                stack.extend(begun);
            }
        }
    }
    put(current, end);
    // Inner handlers end first, so they come first here. They must be drawn last, over the outer
    // ones.
    handlers.sort_by_key(|block: &Block| block.from);
    (merged(running), handlers)
}

/// Merges adjacent blocks of the same name.
fn merged(blocks: Vec<Block>) -> Vec<Block> {
    let mut merged: Vec<Block> = Vec::new();
    for block in blocks {
        match merged.last_mut() {
            Some(last) if last.text == block.text && last.to == block.from => last.to = block.to,
            _ => merged.push(block),
        }
    }
    merged
}

/// Draws the contributions, the largest first.
fn legend(canvas: &mut Canvas, timeline: &OutlierTimeline, top: f64, width: f64) {
    let latency = timeline.outlier.latency_ns.0.max(1) as f64;
    let mut shares: BTreeMap<_, _> = BTreeMap::new();
    for (place, share) in timeline.outlier.blame.shares.iter().enumerate() {
        shares.insert((std::cmp::Reverse(share.ns), place), share);
    }
    for (line, share) in shares.into_values().take(LISTED).enumerate() {
        let y = top + 18.0 * line as f64;
        canvas.cells(vec![((16.0, y), (12.0, 12.0))], colour(share.kind()));
        let percent = share.ns.0 as f64 * 100.0 / latency;
        let length = format!("{}  ({percent:.1}%)", share.ns);
        canvas.text(
            (36.0, y + 10.5),
            &length,
            BODY,
            Anchor::Start,
            Colour::BLACK,
        );
        let text = fit(&share.cause.label(), BODY, width - 180.0 - RIGHT);
        canvas.text((180.0, y + 10.5), &text, BODY, Anchor::Start, Colour::BLACK);
    }
}
