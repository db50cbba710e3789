//! A surface plot of many runs, seen from the front. Its three dimensions are the latency, the run
//! and the number of periods.

use jiff::Timestamp;
use punctual_model::Nanos;

use super::super::axis::{Axis, Label, Unit};
use super::super::bins::Bins;
use super::super::canvas::{Anchor, Canvas, Colour, Point, Shape, Stroke, fit, text_width};
use super::super::curves::LIMIT;
use super::super::frame::{AXIS, BODY, SMALL};
use super::super::latency::latency_axis;
use super::super::matrix::{LEVELS, colour, level};
use super::super::{Plot, PlotOptions, Scale};
use super::{LongTerm, times};
use crate::figures::wall;

/// If there are more runs than this, adjacent ones are drawn as one.
const SLICES: usize = 240;
/// Width of a bin in pixels.
const BIN: f64 = 3.0;
/// Shift of the back to the right and upwards, as fractions of the plot size.
const DEEP: (f64, f64) = (0.20, 0.34);
/// Height of the largest count above its floor, as a fraction of the plot height.
const HIGH: f64 = 0.34;
const OUTLINE: Stroke = Stroke::solid(Colour(0x44, 0x55, 0x66), 0.4);
const MARK: Colour = Colour(0xd5, 0x5e, 0x00);
/// Maximum number of marks that are numbered and listed at the top left, where the plot is empty.
const NAMED: usize = 6;
/// Top of that list, in pixels.
const LIST: f64 = 66.0;

/// Several runs drawn as one.
struct Slice {
    started: Timestamp,
    counts: Vec<u64>,
}

/// The position of the surface, and the projection of its points.
struct Scene {
    /// Latency, along the front edge.
    x: Axis,
    /// Counts: height above the floor, in pixels.
    z: Axis,
    bottom: f64,
    shift: Point,
    slices: usize,
}

impl Scene {
    /// Returns the depth of a slice: 0 at the front, 1 at the back.
    fn depth(&self, slice: f64) -> f64 {
        match self.slices {
            0 | 1 => 0.0,
            several => 1.0 - slice / (several - 1) as f64,
        }
    }

    fn at(&self, x: f64, depth: f64, height: f64) -> Point {
        (
            x + depth * self.shift.0,
            self.bottom - depth * self.shift.1 - height,
        )
    }
}

pub(super) fn draw(of: &LongTerm<'_>, options: &PlotOptions) -> Plot {
    let (scale, unit, max) = (of.scale(options), of.unit(), of.max());
    let (width, height) = (f64::from(options.width), f64::from(options.height));
    let limit = of.limit(scale);
    let top = limit.unwrap_or_default().max(max);
    let (what, quantity) = of.quantity();
    let what = format!("{what} over the runs");
    let mut x = latency_axis(quantity, scale, of.min(), top, unit);
    let shift = (width * DEEP.0, height * DEEP.1);
    (x.from, x.to) = (58.0, width - shift.0 - 92.0);
    let most = ((x.to - x.from) / BIN).max(20.0) as usize;
    let bins = match scale {
        Scale::Log => Bins::log(of.min(), top, Nanos(1)),
        _ => Bins::linear(top, most, Nanos(1)),
    };
    let slices = slices(of, &bins);
    let most = slices
        .iter()
        .flat_map(|slice| &slice.counts)
        .max()
        .copied()
        .unwrap_or(1);
    let mut z = Axis::counts(most as f64, "periods".to_owned());
    (z.from, z.to) = (0.0, height * HIGH);
    let scene = Scene {
        x,
        z,
        bottom: height - 54.0,
        shift,
        slices: slices.len(),
    };
    let (heading, line) = of.headings(&what, options);
    let mut canvas = Canvas {
        width: options.width,
        height: options.height,
        title: if heading.is_empty() {
            what
        } else {
            heading.clone()
        },
        shapes: Vec::new(),
    };
    canvas.text(
        (16.0, 24.0),
        &fit(&heading, 15, width - 32.0),
        15,
        Anchor::Start,
        Colour::BLACK,
    );
    canvas.text(
        (16.0, 41.0),
        &fit(&line, SMALL, width - 32.0),
        SMALL,
        Anchor::Start,
        Colour::GREY,
    );
    walls(&mut canvas, &scene);
    if let Some(limit) = limit {
        requirement(&mut canvas, &scene, unit.scale(limit.0 as f64), limit);
    }
    for (place, slice) in slices.iter().enumerate() {
        let depth = scene.depth(place as f64);
        layer(&mut canvas, &scene, &bins, &slice.counts, depth, unit);
    }
    axes(&mut canvas, &scene, &slices);
    marks(&mut canvas, &scene, of, unit);
    Plot { canvas }
}

/// Returns the runs, oldest first. Adjacent runs are combined if there are too many.
fn slices(of: &LongTerm<'_>, bins: &Bins) -> Vec<Slice> {
    let together = of.runs.len().div_ceil(SLICES).max(1);
    let slice = |runs: &[&punctual_stats::trend::Run]| {
        let mut counts = vec![0u64; bins.edges.len().saturating_sub(1)];
        for run in runs {
            for (sum, count) in counts.iter_mut().zip(bins.count_rows(run.rows.iter())) {
                *sum = sum.saturating_add(count);
            }
        }
        let started = runs
            .first()
            .map_or(Timestamp::UNIX_EPOCH, |run| run.started);
        Slice { started, counts }
    };
    of.runs.chunks(together).map(slice).collect()
}

/// Draws the floor and the grid on the back walls. The surface is drawn over them.
fn walls(canvas: &mut Canvas, scene: &Scene) {
    let grid = Stroke::solid(Colour::GRID, 1.0);
    let (left, right) = (scene.x.from, scene.x.to);
    let mut lines = Vec::new();
    for tick in scene.x.ticks.iter().filter(|tick| tick.label.is_some()) {
        let x = scene.x.at(tick.value);
        lines.push(vec![
            scene.at(x, 0.0, 0.0),
            scene.at(x, 1.0, 0.0),
            scene.at(x, 1.0, scene.z.to),
        ]);
    }
    for tick in scene.z.ticks.iter().filter(|tick| tick.label.is_some()) {
        let height = scene.z.at(tick.value);
        lines.push(vec![
            scene.at(left, 0.0, height),
            scene.at(left, 1.0, height),
            scene.at(right, 1.0, height),
        ]);
    }
    canvas.lines(lines, grid);
}

/// Draws the requirement on the floor and up the back wall.
fn requirement(canvas: &mut Canvas, scene: &Scene, value: f64, limit: Nanos) {
    let x = scene.x.at(value);
    let top = scene.at(x, 1.0, scene.z.to);
    canvas.lines(
        vec![vec![scene.at(x, 0.0, 0.0), scene.at(x, 1.0, 0.0), top]],
        LIMIT,
    );
    let text = format!("limit {limit}");
    let room = f64::from(canvas.width) - 12.0 - text_width(&text, SMALL) / 2.0;
    canvas.text(
        (top.0.min(room), top.1 - 5.0),
        &text,
        SMALL,
        Anchor::Middle,
        LIMIT.colour,
    );
}

/// Draws one run. Its filled outline hides the runs behind it.
fn layer(canvas: &mut Canvas, scene: &Scene, bins: &Bins, counts: &[u64], depth: f64, unit: Unit) {
    let x = |bin: usize| scene.x.at(unit.scale(bins.edges[bin] as f64));
    let filled: Vec<usize> = (0..counts.len()).filter(|bin| counts[*bin] > 0).collect();
    for adjacent in filled.chunk_by(|a, b| a + 1 == *b) {
        let mut outline = Vec::new();
        let mut highest = 0.0f64;
        for bin in adjacent {
            let height = scene.z.at(counts[*bin] as f64);
            highest = highest.max(height);
            outline.push(scene.at(x(*bin), depth, height));
            outline.push(scene.at(x(bin + 1), depth, height));
        }
        let line = outline.clone();
        outline.push(scene.at(x(adjacent[adjacent.len() - 1] + 1), depth, 0.0));
        outline.push(scene.at(x(adjacent[0]), depth, 0.0));
        canvas.shapes.push(Shape::Area {
            outline,
            fill: fill(highest / scene.z.to),
        });
        canvas.lines(vec![line], OUTLINE);
    }
}

/// Returns a fill colour that is light enough for the lines on it, even in greyscale print.
fn fill(share: f64) -> Colour {
    let Colour(r, g, b) = colour(level(share).min(LEVELS - 1));
    let light = |part: u8| (f64::from(part) * 0.35 + 255.0 * 0.65).round() as u8;
    Colour(light(r), light(g), light(b))
}

fn axes(canvas: &mut Canvas, scene: &Scene, slices: &[Slice]) {
    let (left, right) = (scene.x.from, scene.x.to);
    canvas.lines(
        vec![
            vec![
                scene.at(left, 0.0, scene.z.to),
                scene.at(left, 0.0, 0.0),
                scene.at(right, 0.0, 0.0),
            ],
            vec![scene.at(right, 0.0, 0.0), scene.at(right, 1.0, 0.0)],
        ],
        AXIS,
    );
    latencies(canvas, scene);
    let middle = (left + right) / 2.0;
    canvas.text(
        (middle, scene.bottom + 40.0),
        &scene.x.title,
        BODY + 1,
        Anchor::Middle,
        Colour::BLACK,
    );
    for tick in scene.z.ticks.iter().filter(|tick| tick.label.is_some()) {
        let at = scene.at(left, 0.0, scene.z.at(tick.value));
        canvas.line(at, (at.0 - 5.0, at.1), AXIS);
        power(canvas, (at.0 - 9.0, at.1 + 4.0), tick.value);
    }
    let title = scene.at(left, 0.0, scene.z.to);
    // The title takes two short lines, because the surface begins to the right of it.
    for (text, above) in [("periods,", 32.0), ("log scale", 12.0)] {
        canvas.text(
            (16.0, title.1 - above),
            text,
            BODY + 1,
            Anchor::Start,
            Colour::BLACK,
        );
    }
    dates(canvas, scene, slices);
}

/// Draws the ticks of the latency axis, wherever there is enough space.
fn latencies(canvas: &mut Canvas, scene: &Scene) {
    let mut free = f64::NEG_INFINITY;
    for tick in &scene.x.ticks {
        let at = scene.at(scene.x.at(tick.value), 0.0, 0.0);
        let half = match &tick.label {
            Some(Label::Text(text)) => text_width(text, BODY) / 2.0,
            Some(Label::Power(exponent)) => {
                (text_width("10", BODY) + text_width(&exponent.to_string(), 9)) / 2.0
            }
            None => continue,
        };
        if at.0 - half <= free {
            continue;
        }
        free = at.0 + half + 6.0;
        canvas.line(at, (at.0, at.1 + 5.0), AXIS);
        let below = at.1 + 18.0;
        match &tick.label {
            Some(Label::Text(text)) => {
                canvas.text((at.0, below), text, BODY, Anchor::Middle, Colour::BLACK);
            }
            _ => power(canvas, (at.0 + half, below), tick.value),
        }
    }
}

/// Draws `1` and `10` as numbers, and larger values as powers with a superscript exponent.
fn power(canvas: &mut Canvas, at: Point, value: f64) {
    let exponent = value.log10().round() as i32;
    if exponent < 2 {
        let text = format!("{}", value.round());
        canvas.text(at, &text, BODY, Anchor::End, Colour::BLACK);
        return;
    }
    let raised = exponent.to_string();
    let joint = at.0 - text_width(&raised, 9);
    canvas.text((joint, at.1), "10", BODY, Anchor::End, Colour::BLACK);
    canvas.text(
        (joint + 0.5, at.1 - 5.0),
        &raised,
        9,
        Anchor::Start,
        Colour::BLACK,
    );
}

/// Draws the dates of some runs along the right edge. All runs are the same distance apart.
fn dates(canvas: &mut Canvas, scene: &Scene, slices: &[Slice]) {
    let (Some(first), Some(last)) = (slices.first(), slices.last()) else {
        return;
    };
    let axis = times::axis((first.started, last.started), 8);
    let mut above = f64::INFINITY;
    for tick in axis.ticks {
        let Some(Label::Text(text)) = tick.label else {
            continue;
        };
        let is_before = |slice: &&Slice| times::seconds(first.started, slice.started) < tick.value;
        let place = slices.iter().take_while(is_before).count();
        let at = scene.at(
            scene.x.to,
            scene.depth(place.min(slices.len() - 1) as f64),
            0.0,
        );
        // The front is drawn last and is lowest.
        if (above - at.1).abs() < 13.0 {
            continue;
        }
        above = at.1;
        canvas.line(at, (at.0 + 5.0, at.1), AXIS);
        canvas.text(
            (at.0 + 9.0, at.1 + 4.0),
            &text,
            SMALL,
            Anchor::Start,
            Colour::BLACK,
        );
    }
}

/// Returns the date, with the time of day if all runs are within two days.
fn when(of: &LongTerm<'_>, started: Timestamp) -> String {
    let (first, last) = of.span();
    let digits = if times::seconds(first, last) < 2.0 * times::DAY {
        16
    } else {
        10
    };
    wall(started, 0).chars().take(digits).collect()
}

/// Draws marks for the maximum of all runs and for each run that stands out. The marks are on top
/// of the surface, so that none of them is hidden.
fn marks(canvas: &mut Canvas, scene: &Scene, of: &LongTerm<'_>, unit: Unit) {
    let together = of.runs.len().div_ceil(SLICES).max(1);
    let largest = (0..of.runs.len()).max_by_key(|place| of.runs[*place].max);
    let spikes = of
        .group
        .spikes
        .iter()
        .filter(|spike| spike.by_max)
        .map(|spike| spike.run);
    let mut marked: Vec<usize> = spikes
        .chain(largest)
        .filter(|place| *place < of.runs.len())
        .collect();
    marked.sort_unstable_by_key(|place| std::cmp::Reverse(of.runs[*place].max));
    marked.dedup();
    for (number, place) in marked.into_iter().enumerate() {
        let run = of.runs[place];
        let Some(max) = run.max else { continue };
        let depth = scene.depth((place / together) as f64);
        let x = scene.x.at(unit.scale(max.0 as f64));
        let (foot, head) = (
            scene.at(x, depth, 0.0),
            scene.at(x, depth, scene.z.to * 0.30),
        );
        canvas.line(foot, head, Stroke::solid(MARK, 1.0));
        canvas.shapes.push(Shape::Dots {
            centres: vec![head],
            radius: 3.0,
            fill: MARK,
        });
        if number < NAMED {
            let name = (number + 1).to_string();
            let at = (head.0 + 6.0, head.1 + 4.0);
            canvas.text(at, &name, SMALL, Anchor::Start, MARK);
            let text = format!("{name}  {max}, {}", when(of, run.started));
            let at = (16.0, LIST + 15.0 * number as f64);
            canvas.text(at, &text, SMALL, Anchor::Start, MARK);
        }
    }
}
