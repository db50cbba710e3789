//! The latency plot.

use punctual_model::{Histogram, MAX_TRACKABLE_NS, Nanos, Recording};

use super::axis::{Axis, Unit};
use super::bins::Bins;
use super::canvas::{Point, Shape};
use super::curves::{Curves, LIMIT, headings, limits};
use super::frame::{Entry, Frame, Mark};
use super::{Plot, PlotOptions, Scale};
use crate::figures::counted;

/// A limit further out than so many times the maximum is told, not drawn: the
/// curves would shrink to nothing.
const LIMIT_IN_SIGHT: (u64, u64) = (2, 20);

pub(super) fn draw(recordings: &[&Recording], options: &PlotOptions) -> Plot {
    let curves = Curves::of(recordings, options);
    let scale = chosen_scale(&curves.all, options.latency_scale);
    // Samples beyond the histogram's range stand at its end; the legend has
    // the true maximum.
    let max = curves
        .all
        .max()
        .unwrap_or_default()
        .min(Nanos(MAX_TRACKABLE_NS));
    // Where the rows of another tool end before its maximum, so does the plot.
    let last = curves.all.rows().last().map(|(lower, ..)| Nanos(lower));
    let max = match curves.all.unplaced() {
        0 => max,
        _ => last.unwrap_or(max),
    };
    let min = curves.all.min().unwrap_or_default();
    let limits = limits(recordings);
    let end = limits
        .iter()
        .map(|(_, at)| *at)
        .filter(|at| in_sight(*at, max, scale))
        .fold(max, Nanos::max);
    let unit = Unit::for_latency(max);
    let row = (curves.all.grain()).map_or(Nanos(1), |grain| grain.row_ns);
    let bins = match scale {
        Scale::Log => Bins::log(min, max, row),
        // Of many curves each step must be wider to be seen, and to keep the
        // file small.
        _ if curves.list.len() > 12 => Bins::linear(max, 250, row),
        _ => Bins::linear(max, 600, row),
    };
    let x = latency_axis(scale, min, end, unit);
    let counts: Vec<Vec<u64>> = curves
        .list
        .iter()
        .map(|curve| bins.count(&curve.histogram))
        .collect();
    let most = counts.iter().flatten().max().copied().unwrap_or(0);
    let y = Axis::counts(most as f64, samples_title(&bins, unit));
    let legend = legend(&curves);
    let mut frame = Frame::new(
        headings("Latency", recordings, options),
        x,
        y,
        &legend,
        options,
    );
    for (curve, counts) in curves.list.iter().zip(&counts) {
        let steps = steps(&frame, &bins, counts, unit);
        frame.canvas.lines(steps, curve.stroke);
    }
    for (curve, counts) in curves.list.iter().zip(&counts) {
        if curve.name.is_some() {
            frame
                .canvas
                .shapes
                .extend(end_mark(&frame, &bins, counts, unit, curve.stroke.colour));
        }
    }
    let beyond = mark_limits(&mut frame, &limits, max, scale, unit);
    if curves.all.overflow() > 0 {
        let samples = counted(curves.all.overflow(), "sample", "samples");
        let text = format!("{samples} beyond 1000 s, drawn at the end");
        frame.note(beyond, &text, LIMIT.colour);
    }
    if let Some(from) = curves.all.unplaced_from() {
        let samples = counted(curves.all.unplaced(), "sample", "samples");
        let text = match from {
            Nanos::ZERO => format!("{samples} of unknown latency, not drawn"),
            from => format!("{samples} of unknown latency from {from} on, not drawn"),
        };
        let place = beyond + usize::from(curves.all.overflow() > 0);
        frame.note(place, &text, LIMIT.colour);
    }
    frame.finish()
}

/// Whether a limit is near enough to figures up to `max` to be drawn.
pub(super) fn in_sight(limit: Nanos, max: Nanos, scale: Scale) -> bool {
    let factor = match scale {
        Scale::Log => LIMIT_IN_SIGHT.1,
        _ => LIMIT_IN_SIGHT.0,
    };
    limit.0 <= max.0.max(1).saturating_mul(factor)
}

/// Draws each limit that is in sight as a vertical line and tells the others;
/// gives back how many these are.
pub(super) fn mark_limits(
    frame: &mut Frame,
    limits: &[(String, Nanos)],
    max: Nanos,
    scale: Scale,
    unit: Unit,
) -> usize {
    let mut beyond = 0;
    for (name, at) in limits {
        match in_sight(*at, max, scale) {
            true => {
                let x = frame.x.at(unit.of(at.0 as f64));
                frame.vertical(x, name, LIMIT);
            }
            false => {
                frame.note(beyond, &format!("{name}, beyond this axis →"), LIMIT.colour);
                beyond += 1;
            }
        }
    }
    beyond
}

/// Linear as in the field, unless the tail would leave the body no room.
fn chosen_scale(all: &Histogram, asked: Scale) -> Scale {
    match (asked, all.max(), all.quantile(0.999)) {
        (Scale::Auto, Some(max), Some(p999)) if max.0 > p999.0.max(1).saturating_mul(20) => {
            Scale::Log
        }
        (Scale::Auto, ..) => Scale::Linear,
        (asked, ..) => asked,
    }
}

/// The axis of latencies, with its scale in the title where it is not linear.
pub(super) fn latency_axis(scale: Scale, min: Nanos, max: Nanos, unit: Unit) -> Axis {
    let of = |ns: Nanos| unit.of(ns.0 as f64);
    match scale {
        Scale::Log => {
            // There is no zero on a log axis: below 1 ns lies on its end.
            let (low, high) = (of(min.max(Nanos(1))), of(max.max(Nanos(1))));
            Axis::log(low, high, format!("latency [{}], log scale", unit.name))
        }
        _ => Axis::linear(of(max), format!("latency [{}]", unit.name)),
    }
}

fn samples_title(bins: &Bins, unit: Unit) -> String {
    match bins.width {
        Some(width) if width == unit.ns => format!("samples per {}", unit.name),
        Some(width) => format!("samples per {}", short(Nanos(width))),
        None => "samples per step, 40 steps a decade".to_owned(),
    }
}

/// `100 ns` or `2 µs`: a bin's width has one digit.
fn short(width: Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    match units.iter().find(|(ns, _)| width.0 >= *ns) {
        Some((ns, name)) => format!("{} {name}", width.0 / ns),
        None => format!("{} ns", width.0),
    }
}

pub(super) fn legend(curves: &Curves) -> Vec<Entry> {
    // Drawn from the back to the front; read from the front to the back.
    let mut entries: Vec<Entry> = curves
        .list
        .iter()
        .rev()
        .filter_map(|curve| {
            let text = curve.name.clone()?;
            Some(Entry {
                mark: Mark::Line(curve.stroke),
                text,
            })
        })
        .collect();
    entries.extend(curves.others.iter().map(|(text, stroke)| Entry {
        mark: Mark::Line(*stroke),
        text: text.clone(),
    }));
    entries
}

/// The stepped outline of the filled bins; where bins are empty there is no
/// line, for the floor means none.
fn steps(frame: &Frame, bins: &Bins, counts: &[u64], unit: Unit) -> Vec<Vec<Point>> {
    let floor = frame.y.from;
    let x = |edge: u64| frame.x.at(unit.of(edge as f64));
    let mut lines: Vec<Vec<Point>> = Vec::new();
    let mut open = false;
    for (index, count) in counts.iter().enumerate() {
        let (left, right) = (x(bins.edges[index]), x(bins.edges[index + 1]));
        if *count == 0 {
            open = false;
            continue;
        }
        let y = frame.y.at(*count as f64);
        if !open {
            lines.push(vec![(left, floor)]);
            open = true;
        }
        if let Some(line) = lines.last_mut() {
            // A step on the same height goes on; else up or down, then along.
            match line.last().copied() {
                Some((_, height)) if height == y && line.len() > 1 => {
                    line.pop();
                }
                _ => line.push((left, y)),
            }
            line.push((right, y));
        }
        if counts.get(index + 1).copied().unwrap_or(0) == 0
            && let Some(line) = lines.last_mut()
        {
            line.push((right, floor));
        }
    }
    lines
}

/// A dot on the last filled bin: the maximum, which is easily overlooked.
fn end_mark(
    frame: &Frame,
    bins: &Bins,
    counts: &[u64],
    unit: Unit,
    fill: super::canvas::Colour,
) -> Option<Shape> {
    let last = counts.iter().rposition(|count| *count > 0)?;
    let middle = (frame.x.at(unit.of(bins.edges[last] as f64))
        + frame.x.at(unit.of(bins.edges[last + 1] as f64)))
        / 2.0;
    Some(Shape::Dots {
        centres: vec![(middle, frame.y.at(counts[last] as f64))],
        radius: 3.0,
        fill,
    })
}
