//! One explained outlier as text: what `explain` prints.

use std::collections::BTreeMap;

use punctual_model::{Nanos, Segment, Task, TraceEvent, grouped};

use super::table::{self, Column};
use super::{TextStyle, Tone, wrap};
use crate::clean::{clean, shorten};
use crate::figures;
use crate::story::{Story, name, taker};

/// How many lines of events are shown at most, unless all are wanted: half of
/// them from the beginning, half from the end.
const LINES: usize = 60;

/// How long before the expected time the first lines are, in parts of the
/// latency; the last event of each CPU before that is shown, too.
const LEAD: u64 = 10;

/// The longest bar behind a share.
const BAR: u64 = 24;

/// One outlier: the sentence, the shares, and its events by time. The victim's
/// own are marked with `>`; below an event stands who takes the time from there
/// on. `all`: every event that is kept.
pub fn story(story: &Story, style: &TextStyle, all: bool) -> String {
    let mut lines = Vec::new();
    heading(&mut lines, story, *style);
    lines.push(String::new());
    shares(&mut lines, story, *style);
    lines.push(String::new());
    timeline(&mut lines, story, *style, all);
    let mut out = String::new();
    for line in lines {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn heading(lines: &mut Vec<String>, story: &Story, style: TextStyle) {
    let outlier = &story.outlier;
    let victim = &story.window.victim;
    let scheduling = victim
        .scheduling
        .map_or(String::new(), |scheduling| format!(", {scheduling}"));
    let title = format!("{}, {}", story.title(), figures::wall(outlier.time, 6));
    lines.push(style.paint(Tone::Heading, &title));
    lines.push(
        clean(&format!(
            "thread {}-{}{scheduling}",
            victim.comm, victim.tid
        ))
        .into_owned(),
    );
    lines.push(String::new());
    lines.extend(wrap(&clean(&outlier.blame.sentence), style.columns()));
}

fn shares(lines: &mut Vec<String>, story: &Story, style: TextStyle) {
    let latency = story.outlier.latency_ns.0.max(1);
    let columns = [
        Column::right("share", 0),
        Column::right("", 1),
        Column::left("taken by", 0).cut_to(20),
        Column::left("", 2),
    ];
    let rows = story.outlier.blame.shares.iter().map(|share| {
        let times = match share.count {
            0 | 1 => String::new(),
            n => format!(", {} times", grouped(n.into())),
        };
        let bar = (u128::from(share.ns.0) * u128::from(BAR) / u128::from(latency)) as usize;
        vec![
            share.ns.to_string(),
            format!("{:.1}%", share.ns.0 as f64 * 100.0 / latency as f64),
            taker(share.kind, &share.who, share.detail.as_deref()) + &times,
            "#".repeat(bar.min(BAR as usize)),
        ]
    });
    lines.extend(table::lines(
        &columns,
        rows.collect(),
        style.columns(),
        style,
    ));
}

/// A line of the timeline.
enum Line<'a> {
    Event(&'a TraceEvent),
    From(&'a Segment),
    Due,
    Came,
    LeftOut(usize),
}

fn timeline(lines: &mut Vec<String>, story: &Story, style: TextStyle, all: bool) {
    let names = names(story);
    let shown = chosen(story, all);
    let head = format!("{:>10}  CPU  {:<20}   {}", "time", "thread", "event");
    lines.push(style.paint(Tone::Faint, &head));
    for line in &shown {
        lines.extend(match line {
            Line::Event(event) => vec![event_line(story, event, &names, style)],
            Line::From(segment) => {
                let text = taker(segment.kind, &segment.who, segment.detail.as_deref());
                let text = format!("{:>18} {}  {text}", "|", segment.length());
                wrapped(&text, 20, style, Tone::Warning)
            }
            Line::Due => vec![mark_line("0", story.ends().from, style)],
            Line::Came => {
                let when = story.when(story.window.actual);
                vec![mark_line(&when, story.ends().to, style)]
            }
            Line::LeftOut(count) => {
                let text = figures::counted(*count as u64, "event", "events");
                vec![style.paint(Tone::Faint, &format!("{:>10}  {text} not shown", "..."))]
            }
        });
    }
    if story.window.left_out > 0 {
        let text = format!(
            "{} in the middle are not kept",
            figures::counted(story.window.left_out, "event", "events")
        );
        lines.push(style.paint(Tone::Faint, &text));
    }
}

/// A long line, its further ones below its text.
fn wrapped(text: &str, indent: usize, style: TextStyle, tone: Tone) -> Vec<String> {
    let (first, rest) = text.split_at(text.len() - text.trim_start().len());
    let width = style.columns().saturating_sub(indent).max(20);
    wrap(rest, width)
        .iter()
        .enumerate()
        .map(|(n, part)| match n {
            0 => format!("{first}{}", style.paint(tone, part)),
            _ => format!("{:indent$}{}", "", style.paint(tone, part)),
        })
        .collect()
}

fn mark_line(when: &str, (name, text): (&str, &str), style: TextStyle) -> String {
    style.paint(Tone::Heading, &format!("{when:>10}  ---  {name}: {text}"))
}

fn event_line(
    story: &Story,
    event: &TraceEvent,
    names: &BTreeMap<u32, Task>,
    style: TextStyle,
) -> String {
    let own = story.is_own(event);
    let thread = names
        .get(&event.pid)
        .map_or_else(|| event.pid.to_string(), name);
    let thread = shorten(&clean(&thread), 20);
    let mark = if own { '>' } else { ' ' };
    let line = format!(
        "{:>10}  {:>3}  {thread:<20} {mark} {}",
        story.when(event.time),
        event.cpu,
        story.tell(event)
    );
    let line = shorten(&line, style.columns());
    match own {
        true => style.paint(Tone::Good, &line),
        false => line,
    }
}

fn names(story: &Story) -> BTreeMap<u32, Task> {
    let mut names = BTreeMap::new();
    for event in &story.window.events {
        if let punctual_model::EventKind::Switch { prev, next, .. } = &event.kind {
            names.entry(prev.pid).or_insert(*prev);
            names.entry(next.pid).or_insert(*next);
        }
    }
    names
}

/// What is shown, by time: events, where stretches begin, and the two times.
fn chosen(story: &Story, all: bool) -> Vec<Line<'_>> {
    let window = &story.window;
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
    let hidden = match all || beyond == 0 {
        true => events.len()..events.len(),
        false => LINES / 2..LINES / 2 + beyond,
    };
    if let Some(first) = events.get(hidden.start) {
        lines.push((first.time, 1, Line::LeftOut(hidden.len())));
    }
    let is_hidden = |time: Nanos| {
        let bounds = (events.get(hidden.start), events.get(hidden.end));
        matches!(bounds, (Some(first), Some(last)) if first.time < time && time < last.time)
    };
    for (place, event) in events.iter().enumerate() {
        if !hidden.contains(&place) {
            lines.push((event.time, 1, Line::Event(event)));
        }
    }
    let stretches = story
        .segments
        .iter()
        .filter(|segment| !is_hidden(segment.from));
    lines.extend(stretches.map(|segment| (segment.from, 2, Line::From(segment))));
    lines.push((window.expected, 0, Line::Due));
    lines.push((window.actual, 3, Line::Came));
    // Stable: events of one time stay in their order.
    lines.sort_by_key(|(time, rank, _)| (*time, *rank));
    lines.into_iter().map(|(_, _, line)| line).collect()
}
