//! The percentile plot.

use punctual_model::{Histogram, Nanos, Recording};

use super::axis::{Axis, Unit};
use super::canvas::{Point, Shape};
use super::curves::{Curves, LIMIT, headings, limits, quantity_of};
use super::frame::{Frame, inner_height};
use super::latency::latency_axis;
use super::legend::legend;
use super::{Plot, PlotOptions, Scale};

pub(super) fn draw(recordings: &[&Recording], options: &PlotOptions) -> Plot {
    let curves = Curves::new(recordings, options);
    let scale = match options.latency_scale {
        Scale::Auto => Scale::Log,
        asked => asked,
    };
    let max = curves.all.max().unwrap_or_default();
    let min = curves.all.min().unwrap_or_default();
    let limits: Vec<(String, Nanos)> = limits(recordings)
        .into_iter()
        .filter(|(_, at)| at.0 <= max.0.max(1).saturating_mul(20))
        .collect();
    let end = limits.iter().map(|(_, at)| *at).fold(max, Nanos::max);
    let unit = Unit::for_latency(max);
    let most = curves
        .list
        .iter()
        .map(|curve| curve.histogram.count())
        .max()
        .unwrap_or(0);
    let x = Axis::nines(nines(1, most.max(10)), "percentile".to_owned());
    let y = latency_axis(quantity_of(recordings).1, scale, min, end, unit);
    let headings = headings("Percentiles", recordings, options);
    let legend = legend(&curves, inner_height(&headings, options), options);
    let mut frame = Frame::new(headings, x, y, &legend, options);
    for curve in &curves.list {
        // Background curves are numerous, so they may be drawn with less precision.
        let tolerance = if curve.name.is_some() { 0.4 } else { 2.0 };
        let line = line(&frame, &curve.histogram, unit, tolerance);
        if let (Some(at), true) = (line.last().copied(), curve.name.is_some()) {
            frame.canvas.lines(vec![line], curve.stroke);
            frame.canvas.shapes.push(Shape::Dots {
                centres: vec![at],
                radius: 3.0,
                fill: curve.stroke.colour,
            });
        } else if line.len() > 1 {
            frame.canvas.lines(vec![line], curve.stroke);
        }
    }
    mark_limits(&mut frame, &limits, unit);
    frame.finish()
}

/// Draws each limit as a horizontal line.
pub(super) fn mark_limits(frame: &mut Frame, limits: &[(String, Nanos)], unit: Unit) {
    let lines: Vec<(f64, &str)> = limits
        .iter()
        .map(|(name, at)| (frame.y.at(unit.scale(at.0 as f64)), name.as_str()))
        .collect();
    frame.horizontals(&lines, LIMIT);
}

/// Returns, in nines, the quantile that has `above` of `count` samples above it.
fn nines(above: u64, count: u64) -> f64 {
    -(above.max(1) as f64 / count.max(1) as f64).log10()
}

/// Returns the quantile function. For each bucket, the line covers its fraction of the samples,
/// then rises to the next bucket. It ends at the maximum, where one sample is left. Steps smaller
/// than `tolerance` pixels are drawn as a slope.
fn line(frame: &Frame, histogram: &Histogram, unit: Unit, tolerance: f64) -> Vec<Point> {
    let count = histogram.count();
    let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else {
        return Vec::new();
    };
    let mut points: Vec<Point> = Vec::new();
    let mut below = 0;
    let unplaced_from = histogram.unplaced_from().unwrap_or(Nanos(u64::MAX));
    for (lower, width, in_bucket) in histogram.rows() {
        // How the remaining samples are distributed is unknown.
        if lower >= unplaced_from.0 {
            break;
        }
        // `clamp` would panic here, because an imported recording may have a minimum above its
        // maximum.
        let upper = lower.saturating_add(width - 1).max(min.0).min(max.0);
        let y = frame.y.at(unit.scale(upper as f64));
        let left = frame.x.at(nines(count.saturating_sub(below), count));
        below = u64::saturating_add(below, in_bucket);
        let right = frame.x.at(nines(count.saturating_sub(below), count));
        match points.last() {
            Some((x, last)) if right - x < tolerance && (last - y).abs() < tolerance => {}
            Some(_) if right - left < tolerance => points.push((right, y)),
            _ => points.extend([(left, y), (right, y)]),
        }
    }
    if histogram.unplaced() > 0 {
        return points;
    }
    let end = (
        frame.x.at(nines(1, count)),
        frame.y.at(unit.scale(max.0 as f64)),
    );
    points.push(end);
    points
}
