//! The latency plot.

use punctual_model::{Histogram, MAX_TRACKABLE_NS, Nanos, Recording, counted};

use super::axis::{Axis, Unit};
use super::bins::Bins;
use super::canvas::{Point, Shape};
use super::curves::{Curves, LIMIT, headings, limits, quantity_of};
use super::frame::{Frame, inner_height};
use super::legend::legend;
use super::{Plot, PlotOptions, Scale};

/// A limit that exceeds the maximum by more than this factor (linear, log) is only listed and not
/// drawn, because the curves would otherwise become too small.
const LIMIT_IN_SIGHT: (u64, u64) = (2, 20);

pub(super) fn draw(recordings: &[&Recording], options: &PlotOptions) -> Plot {
    let curves = Curves::new(recordings, options);
    let scale = chosen_scale(&curves.all, options.latency_scale);
    let max = last_drawn(&curves.all, options);
    let min = curves.all.min().unwrap_or_default();
    let limits = limits(recordings);
    let end = match options.x_max {
        Some(x_max) => x_max,
        None => limits
            .iter()
            .map(|(_, at)| *at)
            .filter(|at| in_sight(*at, max, scale))
            .fold(max, Nanos::max),
    };
    let unit = Unit::for_latency(max);
    let row = (curves.all.resolution()).map_or(Nanos(1), |resolution| resolution.row_ns);
    let bins = match scale {
        Scale::Log => Bins::log(min, max, row),
        // With many curves, wider steps are easier to see and keep the file small.
        _ if curves.list.len() > 12 => Bins::linear(max, 250, row),
        _ => Bins::linear(max, 600, row),
    };
    let (heading, what) = quantity_of(recordings);
    let x = latency_axis(what, scale, min, end, unit)
        .ending(options.x_max.map(|at| unit.scale(at.0 as f64)));
    let counts: Vec<Vec<u64>> = curves
        .list
        .iter()
        .map(|curve| bins.count(&curve.histogram, options.x_max))
        .collect();
    let most = counts.iter().flatten().max().copied().unwrap_or(0);
    let y = Axis::counts(most as f64, samples_title(&bins, unit));
    let headings = headings(heading, recordings, options);
    let legend = legend(&curves, inner_height(&headings, options), options);
    let mut frame = Frame::new(headings, x, y, &legend, options);
    for (curve, counts) in curves.list.iter().zip(&counts) {
        let steps = steps(&frame, &bins, counts, unit);
        frame.canvas.lines(steps, curve.stroke);
    }
    for (curve, counts) in curves.list.iter().zip(&counts) {
        // The maximum is drawn only if it is within the axis.
        let whole = curve.histogram.max() <= Some(end);
        if curve.name.is_some() && whole {
            let colour = curve.stroke.colour;
            let mark = end_mark(&frame, &bins, counts, unit, colour);
            frame.canvas.shapes.extend(mark);
        }
    }
    mark_limits(&mut frame, &limits, max, scale, unit, options.x_max);
    for text in not_drawn(&curves.all, options.x_max) {
        frame.note(&text, LIMIT.colour);
    }
    frame.finish()
}

/// Returns the largest latency that the plot shows.
fn last_drawn(all: &Histogram, options: &PlotOptions) -> Nanos {
    // Samples beyond the range of the histogram are drawn at its end. The legend shows the true
    // maximum.
    let max = all.max().unwrap_or_default().min(Nanos(MAX_TRACKABLE_NS));
    // If the rows of another tool end before its maximum, the plot ends there as well.
    let last = all.rows().last().map(|(lower, ..)| Nanos(lower));
    let max = match all.unplaced() {
        0 => max,
        _ => last.unwrap_or(max),
    };
    options.x_max.map_or(max, |x_max| max.min(x_max))
}

/// Returns notes on samples that are counted but not drawn.
fn not_drawn(all: &Histogram, x_max: Option<Nanos>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(x_max) = x_max {
        let beyond = all.rows().filter(|(lower, ..)| *lower > x_max.0);
        let samples = beyond.fold(all.overflow(), |sum, (_, _, count)| {
            sum.saturating_add(count)
        });
        if samples > 0 {
            let max = all
                .max()
                .map_or_else(String::new, |max| format!(", max {max}"));
            let samples = counted(samples, "sample", "samples");
            notes.push(format!("{samples} beyond {x_max} not drawn{max} →"));
        }
    } else if all.overflow() > 0 {
        let samples = counted(all.overflow(), "sample", "samples");
        notes.push(format!("{samples} beyond 1000 s, drawn at the end"));
    }
    if let Some(from) = all.unplaced_from() {
        let samples = counted(all.unplaced(), "sample", "samples");
        notes.push(match from {
            Nanos::ZERO => format!("{samples} of unknown latency, not drawn"),
            from => format!("{samples} of unknown latency from {from} on, not drawn"),
        });
    }
    notes
}

/// Returns whether a limit is close enough to the figures up to `max` to be drawn.
pub(super) fn in_sight(limit: Nanos, max: Nanos, scale: Scale) -> bool {
    let factor = match scale {
        Scale::Log => LIMIT_IN_SIGHT.1,
        _ => LIMIT_IN_SIGHT.0,
    };
    limit.0 <= max.0.max(1).saturating_mul(factor)
}

/// Draws each limit within the axis as a vertical line, and lists the others.
pub(super) fn mark_limits(
    frame: &mut Frame,
    limits: &[(String, Nanos)],
    max: Nanos,
    scale: Scale,
    unit: Unit,
    x_max: Option<Nanos>,
) {
    let fits = |at: Nanos| x_max.map_or_else(|| in_sight(at, max, scale), |x_max| at <= x_max);
    let drawn: Vec<(f64, &str)> = limits
        .iter()
        .filter(|(_, at)| fits(*at))
        .map(|(name, at)| (frame.x.at(unit.scale(at.0 as f64)), name.as_str()))
        .collect();
    frame.verticals(&drawn, LIMIT);
    for (name, _) in limits.iter().filter(|(_, at)| !fits(*at)) {
        frame.note(&format!("{name}, beyond this axis →"), LIMIT.colour);
    }
}

/// Returns the scale. It is linear, as is customary, unless the tail would compress the other
/// samples, which happens if the maximum is far above p99 or if most samples are in the first
/// hundredth of the axis.
fn chosen_scale(all: &Histogram, asked: Scale) -> Scale {
    if asked != Scale::Auto {
        return asked;
    }
    let Some(max) = all.max() else {
        return Scale::Linear;
    };
    let far = |quantile: f64, factor: u64| {
        let body = all.quantile(quantile);
        body.is_some_and(|body| max.0 > body.0.max(1).saturating_mul(factor))
    };
    if far(0.99, 10) || far(0.5, 100) {
        Scale::Log
    } else {
        Scale::Linear
    }
}

/// Returns the axis of the samples, which are called `what`. A scale that is not linear is named in
/// the title.
pub(super) fn latency_axis(what: &str, scale: Scale, min: Nanos, max: Nanos, unit: Unit) -> Axis {
    let of = |ns: Nanos| unit.scale(ns.0 as f64);
    match scale {
        Scale::Log => {
            // A log axis has no zero, so values below 1 ns are drawn at its end.
            let (low, high) = (of(min.max(Nanos(1))), of(max.max(Nanos(1))));
            Axis::log(low, high, format!("{what} [{}], log scale", unit.name))
        }
        _ => Axis::linear(of(max), format!("{what} [{}]", unit.name)),
    }
}

fn samples_title(bins: &Bins, unit: Unit) -> String {
    match bins.width {
        Some(width) if width == unit.ns => format!("samples per {}", unit.name),
        Some(width) => format!("samples per {}", short(Nanos(width))),
        None => "samples per bin (40 bins per decade)".to_owned(),
    }
}

/// Formats the width of a bin, which has one digit: `100 ns` or `2 µs`.
fn short(width: Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    match units.iter().find(|(ns, _)| width.0 >= *ns) {
        Some((ns, name)) => format!("{} {name}", width.0 / ns),
        None => format!("{} ns", width.0),
    }
}

/// Returns the stepped outline of the non-empty bins. Empty bins have no line, because the floor
/// already means zero.
fn steps(frame: &Frame, bins: &Bins, counts: &[u64], unit: Unit) -> Vec<Vec<Point>> {
    let floor = frame.y.from;
    let x = |edge: u64| frame.x.at(unit.scale(edge as f64));
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
            // If the step has the same height as the previous one, it extends the line. Otherwise,
            // the line goes up or down first, and then along.
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

/// Draws a dot on the last non-empty bin, because the maximum is easily overlooked.
fn end_mark(
    frame: &Frame,
    bins: &Bins,
    counts: &[u64],
    unit: Unit,
    fill: super::canvas::Colour,
) -> Option<Shape> {
    let last = counts.iter().rposition(|count| *count > 0)?;
    let middle = (frame.x.at(unit.scale(bins.edges[last] as f64))
        + frame.x.at(unit.scale(bins.edges[last + 1] as f64)))
        / 2.0;
    Some(Shape::Dots {
        centres: vec![(middle, frame.y.at(counts[last] as f64))],
        radius: 3.0,
        fill,
    })
}
