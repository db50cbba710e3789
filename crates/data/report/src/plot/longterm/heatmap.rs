//! A heat map of latency over time, with the number of periods as colour.

use std::collections::BTreeMap;

use punctual_model::Nanos;

use super::super::axis::{Axis, Unit};
use super::super::bins::Bins;
use super::super::canvas::{Anchor, Colour, Point};
use super::super::frame::{ABOVE, AXIS, BODY, Frame, SMALL};
use super::super::latency::latency_axis;
use super::super::matrix::{EMPTY, colour, colour_bar, level};
use super::super::percentiles::mark_limits;
use super::super::{Plot, PlotOptions, Scale};
use super::{LongTerm, times};

/// Width of the histogram of all runs, and of the colour scale.
const BESIDE: (f64, f64) = (96.0, 74.0);
/// Width of a bin in pixels.
const BIN: f64 = 3.0;
/// A run is drawn 1.5 times as wide as the typical distance to the next one. A longer time without
/// a run shows as a gap.
const WIDE: f64 = 1.5;
const BARS: Colour = Colour(0x3b, 0x52, 0x8b);

pub(super) fn draw(of: &LongTerm<'_>, options: &PlotOptions) -> Plot {
    let (scale, unit, max) = (of.scale(options), of.unit(), of.max());
    let limit = of.limit(scale);
    let top = limit.unwrap_or_default().max(max);
    let (heading, quantity) = of.quantity();
    let y = latency_axis(quantity, scale, of.min(), top, unit);
    let starts = starts(of);
    let (first, _) = of.span();
    let end = starts.last().map_or(60.0, |(_, end)| *end);
    let last = first + jiff::SignedDuration::from_secs(end.ceil() as i64);
    let x = times::axis((first, last), (options.width / 90) as usize);
    let headings = of.headings(&format!("{heading} over time"), options);
    let mut frame = Frame::new(headings, x, y, &[], options);
    // Makes space to the right of the map, and erases the grid there.
    let right = frame.x.to - BESIDE.0 - BESIDE.1;
    let rest = (
        (right, frame.y.to - 2.0),
        (frame.x.to - right, frame.y.from - frame.y.to + 4.0),
    );
    frame.canvas.cells(vec![rest], Colour::WHITE);
    frame.x.to = right;
    let high = frame.y.from - frame.y.to;
    let bins = match scale {
        Scale::Log => Bins::log(of.min(), top, Nanos(1)),
        _ => Bins::linear(top, (high / BIN).max(20.0) as usize, Nanos(1)),
    };
    let counts: Vec<Vec<u64>> = of
        .runs
        .iter()
        .map(|run| bins.count_rows(run.rows.iter()))
        .collect();
    let most = counts.iter().flatten().max().copied().unwrap_or(1).max(10);
    let mut colours = Axis::log(1.0, most as f64, "periods".to_owned());
    cells(&mut frame, &bins, &counts, &starts, &colours, unit);
    marginal(&mut frame, &bins, &counts, unit);
    if let Some(limit) = limit {
        mark_limits(&mut frame, &[(format!("limit {limit}"), limit)], unit);
    }
    maximum(&mut frame, of, &starts, unit);
    super::trend::notes(&mut frame, of, (first, last));
    // The colour scale is to the right of the histogram.
    (colours.from, colours.to) = (0.0, 1.0);
    frame.x.to = right + BESIDE.0;
    colour_bar(&mut frame, colours, options);
    frame.x.to = right;
    frame.finish()
}

/// Returns the time span to draw for each run, in seconds from the first run.
fn starts(of: &LongTerm<'_>) -> Vec<(f64, f64)> {
    let (first, _) = of.span();
    let starts: Vec<f64> = of
        .runs
        .iter()
        .map(|run| times::seconds(first, run.started))
        .collect();
    let mut gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(60.0).max(1.0);
    let next = starts.iter().skip(1).copied().chain([f64::INFINITY]);
    let end = |(start, next): (&f64, f64)| {
        if next - start > usual * WIDE {
            (*start, start + usual)
        } else {
            (*start, next)
        }
    };
    starts.iter().zip(next).map(end).collect()
}

fn cells(
    frame: &mut Frame,
    bins: &Bins,
    counts: &[Vec<u64>],
    starts: &[(f64, f64)],
    colours: &Axis,
    unit: Unit,
) {
    let (left, top) = (frame.x.from, frame.y.to);
    let whole = ((left, top), (frame.x.to - left, frame.y.from - top));
    frame.canvas.cells(vec![whole], EMPTY);
    let mut columns = Vec::new();
    let mut levels: BTreeMap<usize, Vec<(Point, Point)>> = BTreeMap::new();
    let edge = |bin: usize| frame.y.at(unit.scale(bins.edges[bin] as f64));
    for (counts, (from, to)) in counts.iter().zip(starts) {
        let (x, end) = (frame.x.at(*from).floor(), frame.x.at(*to).ceil());
        let wide = (end - x).max(1.0);
        columns.push(((x, top), (wide, frame.y.from - top)));
        let levels_of = |bin: &usize| level(colours_at(colours, counts[*bin]));
        let filled: Vec<usize> = (0..counts.len()).filter(|bin| counts[*bin] > 0).collect();
        for alike in filled.chunk_by(|a, b| a + 1 == *b && levels_of(a) == levels_of(b)) {
            let (low, high) = (edge(alike[0]), edge(alike[alike.len() - 1] + 1));
            let cell = (
                (x, high.min(low - 1.0)),
                (wide, (low - high).max(1.0) + 0.5),
            );
            levels.entry(levels_of(&alike[0])).or_default().push(cell);
        }
    }
    frame.canvas.cells(columns, Colour::WHITE);
    for (level, cells) in levels {
        frame.canvas.cells(cells, colour(level));
    }
}

fn colours_at(colours: &Axis, count: u64) -> f64 {
    let share = (count.max(1) as f64 / colours.low).ln() / (colours.high / colours.low).ln();
    share.clamp(0.0, 1.0)
}

/// Draws the histogram of all runs together, with log counts to the right.
fn marginal(frame: &mut Frame, bins: &Bins, counts: &[Vec<u64>], unit: Unit) {
    let left = frame.x.to + 10.0;
    let mut sums = vec![0u64; bins.edges.len().saturating_sub(1)];
    for run in counts {
        for (sum, count) in sums.iter_mut().zip(run) {
            *sum = sum.saturating_add(*count);
        }
    }
    let most = sums.iter().max().copied().unwrap_or(1).max(1);
    let mut axis = Axis::counts(most as f64, String::new());
    (axis.from, axis.to) = (left, left + BESIDE.0 - 24.0);
    let edge = |bin: usize| frame.y.at(unit.scale(bins.edges[bin] as f64));
    let bars = sums
        .iter()
        .enumerate()
        .filter(|(_, sum)| **sum > 0)
        .map(|(bin, sum)| {
            let (low, high) = (edge(bin), edge(bin + 1));
            let wide = axis.at(*sum as f64) - left;
            ((left, high.min(low - 1.0)), (wide, (low - high).max(1.0)))
        });
    let bars: Vec<(Point, Point)> = bars.collect();
    frame.canvas.cells(bars, BARS);
    let (bottom, top) = (frame.y.from, frame.y.to);
    frame.canvas.lines(
        vec![vec![(left, top), (left, bottom), (axis.to, bottom)]],
        AXIS,
    );
    let at = (left, top - ABOVE);
    frame
        .canvas
        .text(at, "all runs, log", BODY, Anchor::Start, Colour::BLACK);
}

/// Draws a ring around the largest latency, because a single period is only a pale cell.
fn maximum(frame: &mut Frame, of: &LongTerm<'_>, starts: &[(f64, f64)], unit: Unit) {
    let largest = (0..of.runs.len()).max_by_key(|place| of.runs[*place].max);
    let Some((place, max)) = largest.and_then(|place| Some((place, of.runs[place].max?))) else {
        return;
    };
    let (from, to) = starts[place];
    let centre = (
        frame.x.at((from + to) / 2.0),
        frame.y.at(unit.scale(max.0 as f64)),
    );
    let ring: Vec<Point> = (0..=24)
        .map(|step| f64::from(step) / 24.0 * std::f64::consts::TAU)
        .map(|angle| (centre.0 + 6.0 * angle.cos(), centre.1 + 6.0 * angle.sin()))
        .collect();
    let stroke = super::super::canvas::Stroke::solid(Colour(0xd5, 0x5e, 0x00), 1.4);
    frame.canvas.lines(vec![ring], stroke);
    let (at, anchor) = if centre.0 + 90.0 < frame.x.to {
        ((centre.0 + 10.0, centre.1 + 4.0), Anchor::Start)
    } else {
        ((centre.0 - 10.0, centre.1 + 4.0), Anchor::End)
    };
    frame
        .canvas
        .text(at, &max.to_string(), SMALL, anchor, stroke.colour);
}
