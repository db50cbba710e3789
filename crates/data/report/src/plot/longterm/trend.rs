//! The figures of each run over time.

use punctual_model::Nanos;
use punctual_stats::trend::{ChangePoint, FactChange, FactDifference, Followed};

use super::super::axis::Unit;
use super::super::canvas::{Colour, Point, Shape, Stroke};
use super::super::frame::{Annotation, Entry, Frame, triangle};
use super::super::latency::latency_axis;
use super::super::percentiles::mark_limits;
use super::super::{Plot, PlotOptions};
use super::{LongTerm, times};

const MAX: Stroke = Stroke::solid(Colour(0x55, 0x55, 0x55), 1.0);
const P99: Stroke = Stroke::solid(Colour(0x00, 0x72, 0xb2), 1.3);
const P50: Stroke = Stroke {
    colour: Colour::BLACK,
    width: 1.3,
    dash: &[4.0, 2.0],
};
const WORSE: Stroke = Stroke {
    colour: Colour(0xa0, 0x00, 0x28),
    width: 1.4,
    dash: &[],
};
const BETTER: Stroke = Stroke {
    colour: Colour(0x00, 0x7a, 0x58),
    width: 1.4,
    dash: &[],
};
const FACTS: Stroke = Stroke {
    colour: Colour(0x99, 0x99, 0x99),
    width: 1.0,
    dash: &[2.0, 3.0],
};
/// Style of the median of the maxima between two change points.
const LEVEL: Stroke = Stroke::solid(Colour(0xe6, 0x9f, 0x00), 2.4);
const SPIKE: Colour = Colour(0xd5, 0x5e, 0x00);
const NOTE: Colour = Colour(0x00, 0x72, 0xb2);
const HOLE: Colour = Colour(0x7b, 0x3f, 0xa0);
/// Runs farther apart than this multiple of the typical distance are not connected by a line.
const APART: f64 = 2.5;

pub(super) fn draw(of: &LongTerm<'_>, options: &PlotOptions) -> Plot {
    let (scale, unit) = (of.scale(options), of.unit());
    let limit = of.limit(scale);
    let top = limit.unwrap_or_default().max(of.max());
    let least = of
        .runs
        .iter()
        .filter_map(|run| run.p50)
        .min()
        .unwrap_or_default();
    let y = latency_axis(of.quantity().1, scale, least, top, unit);
    let x = times::axis(of.span(), (options.width / 110) as usize);
    let headings = of.headings("Trend", options);
    let mut frame = Frame::new(headings, x, y, &legend(of), options);
    for (stroke, figure) in [
        (MAX, (|run| run.max) as Figure),
        (P99, |run| run.p99),
        (P50, |run| run.p50),
    ] {
        let lines = lines(&frame, of, unit, figure);
        frame.canvas.lines(lines, stroke);
    }
    levels(&mut frame, of, unit);
    marks(&mut frame, of, unit);
    changes(&mut frame, of);
    if let Some(limit) = limit {
        mark_limits(&mut frame, &[(format!("limit {limit}"), limit)], unit);
    }
    frame.finish()
}

type Figure = fn(&punctual_stats::trend::Run) -> Option<Nanos>;

fn lines(frame: &Frame, of: &LongTerm<'_>, unit: Unit, figure: Figure) -> Vec<Vec<Point>> {
    let (first, _) = of.span();
    let at: Vec<f64> = of
        .runs
        .iter()
        .map(|run| times::seconds(first, run.started))
        .collect();
    let mut gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(0.0);
    let mut lines: Vec<Vec<Point>> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for (run, at) in of.runs.iter().zip(at) {
        let Some(value) = figure(run) else { continue };
        let point = (frame.x.at(at), frame.y.at(unit.scale(value.0 as f64)));
        match lines.last_mut().filter(|_| at - last <= usual * APART) {
            Some(line) => line.push(point),
            // Each line begins with a short dash, so that even a single run is visible.
            None => lines.push(vec![(point.0 - 1.0, point.1), point]),
        }
        last = at;
    }
    lines
}

/// Draws the median of the maxima of each segment of the tail.
fn levels(frame: &mut Frame, of: &LongTerm<'_>, unit: Unit) {
    let tail = of
        .group
        .changes
        .iter()
        .filter(|change| change.followed == Followed::Tail);
    let mut starts: Vec<usize> = tail.map(|change| change.run).collect();
    if starts.is_empty() {
        return;
    }
    starts.insert(0, 0);
    let ends = starts.iter().skip(1).copied().chain([of.runs.len()]);
    let (first, _) = of.span();
    let mut lines = Vec::new();
    for (from, to) in starts.iter().copied().zip(ends) {
        let runs = of.runs.get(from..to).unwrap_or_default();
        let mut maxima: Vec<Nanos> = runs.iter().filter_map(|run| run.max).collect();
        maxima.sort_unstable();
        let (Some(median), Some(start), Some(end)) =
            (maxima.get(maxima.len() / 2), runs.first(), runs.last())
        else {
            continue;
        };
        let y = frame.y.at(unit.scale(median.0 as f64));
        let x = [start, end].map(|run| frame.x.at(times::seconds(first, run.started)));
        lines.push(vec![(x[0], y), (x[1], y)]);
    }
    for line in &lines {
        frame.keep_clear(line[0], line[1]);
    }
    frame.canvas.lines(lines, LEVEL);
}

/// Draws spikes, notes and slots that did not run.
fn marks(frame: &mut Frame, of: &LongTerm<'_>, unit: Unit) {
    let (first, last) = of.span();
    let runs = of
        .group
        .spikes
        .iter()
        .filter_map(|spike| Some((spike.at, spike.max_ns?)));
    let centres = runs.map(|(at, max)| {
        (
            frame.x.at(times::seconds(first, at)),
            frame.y.at(unit.scale(max.0 as f64)),
        )
    });
    let centres: Vec<Point> = centres.collect();
    frame.canvas.shapes.push(Shape::Dots {
        centres,
        radius: 3.5,
        fill: SPIKE,
    });
    let within = |at: &jiff::Timestamp| (first..=last).contains(at);
    let holes = of.holes.iter().map(|hole| hole.due).filter(within);
    let holes = holes.map(|due| {
        let x = frame.x.at(times::seconds(first, due));
        vec![(x, frame.y.from), (x, frame.y.from - 7.0)]
    });
    let holes: Vec<Vec<Point>> = holes.collect();
    frame.canvas.lines(holes, Stroke::solid(HOLE, 1.2));
    notes(frame, of, (first, last));
}

/// Draws the notes of this time span at the upper end of the plot.
pub(super) fn notes(
    frame: &mut Frame,
    of: &LongTerm<'_>,
    (first, last): (jiff::Timestamp, jiff::Timestamp),
) {
    let within = |at: &jiff::Timestamp| (first..=last).contains(at);
    for note in of.notes.iter().filter(|note| within(&note.at)) {
        let at = (frame.x.at(times::seconds(first, note.at)), frame.y.to + 9.0);
        frame.canvas.shapes.push(triangle(at, NOTE));
    }
}

/// Draws change points with the facts that changed exactly there, and facts that changed at other
/// times.
fn changes(frame: &mut Frame, of: &LongTerm<'_>) {
    let (first, _) = of.span();
    let x = |frame: &Frame, at| frame.x.at(times::seconds(first, at));
    let changes = &of.group.changes;
    let mut drawn: Vec<&ChangePoint> = Vec::new();
    for change in changes {
        // p50, p99 and the tail often change at the same run, so they share a line and a name.
        if !drawn
            .iter()
            .any(|other| other.at == change.at && other.worse == change.worse)
        {
            drawn.push(change);
        }
    }
    let steps = drawn.iter().map(|change| {
        let stroke = if change.worse { WORSE } else { BETTER };
        (x(frame, change.at), name(change), stroke)
    });
    let facts = facts_apart(of).into_iter().map(|change| {
        let name = change.facts.first().map_or_else(String::new, name_of_fact);
        (x(frame, change.at), name, FACTS)
    });
    let lines: Vec<(f64, String, Stroke)> = steps.chain(facts).collect();
    let lines: Vec<(f64, &str, Stroke)> = (lines.iter())
        .map(|(x, name, stroke)| (*x, name.as_str(), *stroke))
        .collect();
    frame.verticals_of(&lines);
}

/// Returns the facts that changed at a time for which no change point is drawn.
fn facts_apart<'a>(of: &'a LongTerm<'_>) -> Vec<&'a FactChange> {
    let changes = &of.group.changes;
    let is_apart = |fact: &&FactChange| !changes.iter().any(|change| change.at == fact.at);
    of.facts.iter().filter(is_apart).collect()
}

/// Maximum length of a line's name.
const LONGEST: usize = 34;

/// Returns the fact that changed exactly at this change point. If there is none, returns the size
/// of the change.
fn name(change: &ChangePoint) -> String {
    let size = format!(
        "{} ×{}",
        change.followed.name(),
        punctual_stats::trend::short(change.ratio)
    );
    let mut facts = change.facts.iter();
    match facts.find(|fact| fact.runs_away == 0) {
        None => size,
        Some(fact) => name_of_fact(&fact.difference),
    }
}

/// Formats a fact, such as `+ processor.max_cstate=1`.
fn name_of_fact(fact: &FactDifference) -> String {
    let text = match fact {
        fact if !fact.added.is_empty() => format!("+ {}", fact.added.join(" ")),
        fact if !fact.removed.is_empty() => format!("− {}", fact.removed.join(" ")),
        fact => fact.sentence(),
    };
    crate::sanitize::shorten(&text, LONGEST)
}

fn legend(of: &LongTerm<'_>) -> Vec<Entry> {
    let entry = |mark: Annotation, text: &str| Entry {
        mark,
        text: text.to_owned(),
    };
    let mut entries = vec![
        entry(Annotation::Line(MAX), "max"),
        entry(Annotation::Line(P99), "p99"),
        entry(Annotation::Line(P50), "p50"),
    ];
    let changes = &of.group.changes;
    if changes
        .iter()
        .any(|change| change.followed == Followed::Tail)
    {
        entries.push(entry(Annotation::Line(LEVEL), "median max"));
    }
    if changes.iter().any(|change| change.worse) {
        entries.push(entry(Annotation::Line(WORSE), "worse"));
    }
    if changes.iter().any(|change| !change.worse) {
        entries.push(entry(Annotation::Line(BETTER), "better"));
    }
    if !facts_apart(of).is_empty() {
        entries.push(entry(Annotation::Line(FACTS), "facts changed"));
    }
    if !of.group.spikes.is_empty() {
        entries.push(entry(Annotation::Dot(SPIKE), "spike"));
    }
    if !of.notes.is_empty() {
        entries.push(entry(Annotation::Triangle(NOTE), "note"));
    }
    if !of.holes.is_empty() {
        entries.push(entry(
            Annotation::Line(Stroke::solid(HOLE, 1.2)),
            "did not run",
        ));
    }
    entries
}
