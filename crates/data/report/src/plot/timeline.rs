//! Latency over time.

use punctual_model::{Histogram, Nanos, Recording};

use super::axis::{Axis, Unit};
use super::canvas::{Colour, Point, Shape, Stroke};
use super::curves::{LIMIT, headings, limits, quantity_of};
use super::frame::{Annotation, Entry, Frame, triangle};
use super::latency::{in_sight, latency_axis};
use super::percentiles::mark_limits;
use super::phases;
use super::{Plot, PlotOptions, Scale};

const BAND: Colour = Colour(0xcf, 0xe2, 0xf1);
const P99: Stroke = Stroke::solid(Colour(0x00, 0x72, 0xb2), 1.3);
const MEAN: Stroke = Stroke {
    colour: Colour::BLACK,
    width: 1.3,
    dash: &[4.0, 2.0],
};
const WORST: Colour = Colour(0xd5, 0x5e, 0x00);
const MISSED: Colour = Colour(0xa0, 0x00, 0x28);
/// With more intervals than this, adjacent ones are merged, since they would be narrower than a
/// pixel.
const INTERVALS: usize = 500;

/// One step of the plot: an interval, or several merged ones.
struct Step {
    start: Nanos,
    end: Nanos,
    missed: u64,
    /// `None` without samples.
    figures: Option<Figures>,
}

struct Figures {
    min: Nanos,
    mean: Nanos,
    p99: Nanos,
    max: Nanos,
}

/// The line between two phases of a run.
const BOUNDARY: Stroke = Stroke {
    colour: Colour::GREY,
    width: 1.0,
    dash: &[2.0, 3.0],
};

pub(super) fn draw(recording: &Recording, options: &PlotOptions) -> Plot {
    let steps = steps(recording, options);
    let largest = top_samples(recording, options);
    let figures = || steps.iter().filter_map(|step| step.figures.as_ref());
    let min = figures().map(|f| f.min).min().unwrap_or_default();
    let max = figures()
        .map(|f| f.max)
        .chain(largest.iter().map(|w| w.1))
        .max()
        .unwrap_or_default();
    let scale = chosen_scale(&steps, max, options.latency_scale);
    let limits: Vec<(String, Nanos)> = limits(&[recording])
        .into_iter()
        .filter(|(_, at)| in_sight(*at, max, scale))
        .collect();
    let top = limits.iter().map(|(_, at)| *at).fold(max, Nanos::max);
    let ends = steps.iter().map(|step| step.end);
    let whole = ends.fold(recording.duration_ns, Nanos::max);
    let span = options.x_max.map_or(whole, |x_max| whole.min(x_max));
    let time = Unit::for_time(span);
    let unit = Unit::for_latency(max);
    let x = Axis::span(
        time.scale(span.0 as f64),
        format!("time since the start [{}]", time.name),
    );
    let (heading, what) = quantity_of(&[recording]);
    let y = latency_axis(what, scale, min, top, unit);
    let legend = legend(recording, &steps, &largest);
    let headings = headings(&format!("{heading} over time"), &[recording], options);
    let mut frame = Frame::new(headings, x, y, &legend, options);
    bands(&mut frame, &steps, time, unit);
    frame.grid_lines();
    curves(&mut frame, &steps, time, unit);
    marks(&mut frame, &steps, &largest, time, unit);
    boundaries(&mut frame, recording, span, time);
    mark_limits(&mut frame, &limits, unit);
    if recording.series.rows.is_empty() {
        frame.note("no time series were kept", LIMIT.colour);
    }
    if span < whole {
        let text = format!("{whole} were measured →");
        frame.note(&text, LIMIT.colour);
    }
    frame.finish()
}

/// Draws the mean and p99.
fn curves(frame: &mut Frame, steps: &[Step], time: Unit, unit: Unit) {
    for (stroke, of) in [
        (MEAN, (|f| f.mean) as fn(&Figures) -> Nanos),
        (P99, |f| f.p99),
    ] {
        let lines = lines(frame, steps, time, unit, of);
        frame.canvas.lines(lines, stroke);
    }
}

/// Draws the top samples, and marks for missed periods.
fn marks(frame: &mut Frame, steps: &[Step], largest: &[(Nanos, Nanos)], time: Unit, unit: Unit) {
    let centres = largest
        .iter()
        .map(|(at, latency)| {
            (
                frame.x.at(time.scale(at.0 as f64)),
                frame.y.at(unit.scale(latency.0 as f64)),
            )
        })
        .collect();
    frame.canvas.shapes.push(Shape::Dots {
        centres,
        radius: 3.0,
        fill: WORST,
    });
    for step in steps.iter().filter(|step| step.missed > 0) {
        let middle = (step.start.0 / 2 + step.end.0 / 2) as f64;
        let at = (frame.x.at(time.scale(middle)), frame.y.from);
        frame.canvas.shapes.push(triangle(at, MISSED));
    }
}

/// Draws lines at the start of each phase of the run, with the name of the phase.
fn boundaries(frame: &mut Frame, recording: &Recording, span: Nanos, time: Unit) {
    let phases = phases::phase_spans(recording);
    let segments: Vec<(f64, f64, &str)> = phases
        .iter()
        .filter(|phase| phase.from < span)
        .map(|phase| {
            let at = |ns: Nanos| frame.x.at(time.scale(ns.0 as f64));
            (at(phase.from), at(phase.to), phase.name.as_str())
        })
        .collect();
    frame.segments(&segments, BOUNDARY);
}

fn legend(recording: &Recording, steps: &[Step], largest: &[(Nanos, Nanos)]) -> Vec<Entry> {
    let missed = steps
        .iter()
        .map(|step| step.missed)
        .fold(0, u64::saturating_add);
    let widest = steps.iter().map(|step| step.end - step.start).max();
    let interval = widest.unwrap_or(recording.series.interval_ns);
    let mut entries = vec![
        Entry {
            mark: Annotation::Swatch(BAND),
            text: format!("min to max, per {interval}"),
        },
        Entry {
            mark: Annotation::Line(P99),
            text: "p99".to_owned(),
        },
        Entry {
            mark: Annotation::Line(MEAN),
            text: "mean".to_owned(),
        },
    ];
    if !largest.is_empty() {
        let text = format!("the {} largest", largest.len());
        entries.push(Entry {
            mark: Annotation::Dot(WORST),
            text,
        });
    }
    if missed > 0 {
        let text = punctual_model::counted(missed, "missed period", "missed periods");
        entries.push(Entry {
            mark: Annotation::Triangle(MISSED),
            text,
        });
    }
    entries
}

/// Returns the scale, which is logarithmic if the maximum would otherwise push all other values
/// down to the floor.
fn chosen_scale(steps: &[Step], max: Nanos, asked: Scale) -> Scale {
    if asked != Scale::Auto {
        return asked;
    }
    let mut means: Vec<Nanos> = steps
        .iter()
        .filter_map(|s| Some(s.figures.as_ref()?.mean))
        .collect();
    means.sort_unstable();
    match means.get(means.len() / 2) {
        Some(usual) if max.0 > usual.0.saturating_mul(5) => Scale::Log,
        _ => Scale::Linear,
    }
}

/// Returns the rows of the series over time, merged over threads and to at most [`INTERVALS`]
/// steps.
fn steps(recording: &Recording, options: &PlotOptions) -> Vec<Step> {
    let series = &recording.series;
    let interval = series.interval_ns.0.max(1);
    let wanted = |thread: u32| options.thread.is_none_or(|asked| asked == thread as usize);
    let mut rows: Vec<_> = series
        .rows
        .iter()
        .filter(|row| wanted(row.thread))
        .filter(|row| options.x_max.is_none_or(|x_max| row.start_ns < x_max))
        .collect();
    rows.sort_by_key(|row| row.start_ns);
    let last = rows.last().map_or(0, |row| row.start_ns.0 / interval);
    let each = interval.saturating_mul(last / INTERVALS as u64 + 1);
    let mut steps = Vec::new();
    let mut merged = Histogram::new();
    for group in rows.chunk_by(|a, b| a.start_ns.0 / each == b.start_ns.0 / each) {
        merged.clear();
        for row in group {
            merged.add_interval(row);
        }
        // The step spans the time of its rows, which need not be a multiple of the merged interval.
        let start = group.first().map_or(Nanos::ZERO, |row| row.start_ns);
        let end = group.last().map_or(Nanos::ZERO, |row| row.start_ns) + Nanos(interval);
        steps.push(Step {
            start,
            end,
            missed: group
                .iter()
                .map(|row| row.missed)
                .fold(0, u64::saturating_add),
            figures: figures(&merged),
        });
    }
    steps
}

fn figures(merged: &Histogram) -> Option<Figures> {
    Some(Figures {
        min: merged.min()?,
        mean: merged.mean()?,
        p99: merged.quantile(0.99)?,
        max: merged.max()?,
    })
}

/// Returns the top samples as (time since the start, latency).
fn top_samples(recording: &Recording, options: &PlotOptions) -> Vec<(Nanos, Nanos)> {
    recording
        .top_samples
        .iter()
        .filter(|sample| {
            options
                .thread
                .is_none_or(|asked| asked == sample.thread as usize)
        })
        .map(|sample| {
            let since = sample.time.duration_since(recording.started).as_nanos();
            (Nanos(u64::try_from(since).unwrap_or(0)), sample.latency_ns)
        })
        .filter(|(at, _)| options.x_max.is_none_or(|x_max| *at <= x_max))
        .collect()
}

/// Returns groups of consecutive steps with samples.
fn runs(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    steps
        .chunk_by(|a, b| a.end >= b.start && a.figures.is_some() == b.figures.is_some())
        .filter(|run| run.iter().all(|step| step.figures.is_some()))
}

fn stepped(
    frame: &Frame,
    run: &[Step],
    time: Unit,
    unit: Unit,
    of: fn(&Figures) -> Nanos,
) -> Vec<Point> {
    let mut points = Vec::with_capacity(run.len() * 2);
    for step in run {
        let Some(figures) = &step.figures else {
            continue;
        };
        let y = frame.y.at(unit.scale(of(figures).0 as f64));
        points.push((frame.x.at(time.scale(step.start.0 as f64)), y));
        points.push((frame.x.at(time.scale(step.end.0 as f64)), y));
    }
    points
}

fn bands(frame: &mut Frame, steps: &[Step], time: Unit, unit: Unit) {
    for run in runs(steps) {
        let mut outline = stepped(frame, run, time, unit, |f| f.max);
        let mut lower = stepped(frame, run, time, unit, |f| f.min);
        lower.reverse();
        outline.extend(lower);
        frame.canvas.shapes.push(Shape::Area {
            outline,
            fill: BAND,
        });
    }
}

fn lines(
    frame: &Frame,
    steps: &[Step],
    time: Unit,
    unit: Unit,
    of: fn(&Figures) -> Nanos,
) -> Vec<Vec<Point>> {
    runs(steps)
        .map(|run| stepped(frame, run, time, unit, of))
        .collect()
}
