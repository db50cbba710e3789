//! A heat map of latency from each CPU to each CPU.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{Histogram, Nanos, Recording, ThreadRecord, counted, grouped};

use super::axis::{Axis, Tick, Unit};
use super::canvas::{Anchor, Colour, Point, fit, text_width};
use super::curves::headings;
use super::frame::{ABOVE, AXIS, BODY, Frame, SMALL, label_width};
use super::{CellFigure, Plot, PlotOptions, Scale};

/// Viridis (van der Walt and Smith, 2015, CC0), reversed, in steps of an eighth. Its lightness
/// changes evenly, so the order of the colours is the same for colour-blind readers and in
/// greyscale print, and more ink means more latency.
const MAP: [Colour; 9] = [
    Colour(0xfd, 0xe7, 0x25),
    Colour(0xad, 0xdc, 0x30),
    Colour(0x5e, 0xc9, 0x62),
    Colour(0x28, 0xae, 0x80),
    Colour(0x21, 0x91, 0x8c),
    Colour(0x2c, 0x72, 0x8e),
    Colour(0x3b, 0x52, 0x8b),
    Colour(0x47, 0x2d, 0x7b),
    Colour(0x44, 0x01, 0x54),
];
/// The number of distinct colours. Cells of one colour are drawn together.
pub(super) const LEVELS: usize = 64;
/// The colour of cells without samples.
pub(super) const EMPTY: Colour = Colour(0xee, 0xee, 0xee);
/// The colour scale is logarithmic if the largest value exceeds the smallest by more than this
/// factor.
const WIDE: u64 = 10;
/// Maximum ratio of a cell's width to its height.
const WIDEST: f64 = 2.0;

/// The pairs of CPUs, and notes on threads that are not among them.
struct Pairs {
    cpus: Vec<u32>,
    /// The latencies by the indices of both CPUs in `cpus`: (from, to).
    cells: BTreeMap<(usize, usize), Histogram>,
    notes: Vec<String>,
}

pub(super) fn draw(recording: &Recording, figure: CellFigure, options: &PlotOptions) -> Plot {
    let pairs = pairs(recording, options);
    let values: Vec<((usize, usize), Option<Nanos>)> = pairs
        .cells
        .iter()
        .map(|(place, histogram)| (*place, value(histogram, figure)))
        .collect();
    let known = || values.iter().filter_map(|(_, value)| *value);
    let (low, high) = (
        known().min().unwrap_or_default(),
        known().max().unwrap_or_default(),
    );
    let scale = match options.latency_scale {
        Scale::Auto if high.0 > low.0.max(1).saturating_mul(WIDE) => Scale::Log,
        Scale::Auto => Scale::Linear,
        asked => asked,
    };
    let unit = Unit::for_costs(low, high, scale);
    let colours = colour_axis(figure, scale, low, high, unit);

    let names: Vec<String> = pairs.cpus.iter().map(u32::to_string).collect();
    let x = across(&names, "to CPU");
    let y = Axis::list(&names, BODY, "from CPU".to_owned());
    let what = format!("{} latency from CPU to CPU", figure.title());
    let headings = headings(&what, &[recording], options);
    let mut frame = Frame::new(headings, x, y, &[], options);
    let cell = lay_out(&mut frame, &colours, names.len());
    thin_out(&mut frame, cell);
    draw_cells(&mut frame, &values, cell, &colours, unit);
    colour_bar(&mut frame, colours, options);
    let grey = match names.len() {
        0 => "no pair of CPUs was measured",
        count if known().count() < count * count => "grey: not measured",
        _ => "",
    };
    note(&mut frame, 0, grey, options);
    note(&mut frame, 1, &pairs.notes.join("; "), options);
    frame.finish()
}

/// Returns the figure of a cell, if there are enough samples.
fn value(histogram: &Histogram, figure: CellFigure) -> Option<Nanos> {
    match figure.quantile() {
        Some(quantile) => histogram.supported_quantile(quantile),
        None => histogram.max(),
    }
}

fn pairs(recording: &Recording, options: &PlotOptions) -> Pairs {
    let asked = |index: &usize| options.thread.is_none_or(|thread| thread == *index);
    let threads = recording.threads.iter().enumerate();
    let threads: Vec<&ThreadRecord> = threads
        .filter(|(index, _)| asked(index))
        .map(|(_, thread)| thread)
        .collect();
    let ends: Vec<(u32, u32, &ThreadRecord)> = threads
        .iter()
        .filter_map(|thread| Some((thread.from_cpu?, thread.cpu?, *thread)))
        .collect();
    let cpus: BTreeSet<u32> = ends.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
    let cpus: Vec<u32> = cpus.into_iter().collect();
    let place = |cpu: u32| cpus.partition_point(|known| *known < cpu);
    let mut cells: BTreeMap<(usize, usize), Histogram> = BTreeMap::new();
    for (from, to, thread) in &ends {
        let cell = cells.entry((place(*from), place(*to))).or_default();
        cell.merge(&thread.histogram);
    }
    let mut notes = Vec::new();
    if cells.len() < ends.len() {
        notes.push("threads of one pair merged".to_owned());
    }
    let without = (threads.len() - ends.len()) as u64;
    if without > 0 {
        let threads = counted(without, "thread is", "threads are");
        notes.push(format!("{threads} no pair"));
    }
    Pairs { cpus, cells, notes }
}

fn colour_axis(figure: CellFigure, scale: Scale, low: Nanos, high: Nanos, unit: Unit) -> Axis {
    let of = |ns: Nanos| unit.scale(ns.0 as f64);
    let title = format!("{} [{}]", figure.name(), unit.name);
    match scale {
        Scale::Log => {
            let title = format!("{title}, log scale");
            Axis::log(of(low.max(Nanos(1))), of(high.max(Nanos(1))), title)
        }
        _ => Axis::range(of(low), of(high), title),
    }
}

/// Returns an axis of the CPUs from left to right, with the first at the start.
fn across(names: &[String], title: &str) -> Axis {
    let mut axis = Axis::list(names, BODY, title.to_owned());
    for tick in &mut axis.ticks {
        tick.value = axis.high - tick.value;
    }
    axis
}

/// Makes space for the colour scale, and returns the size of a cell.
fn lay_out(frame: &mut Frame, colours: &Axis, count: usize) -> Point {
    let count = count.max(1) as f64;
    let labels = colours.ticks.iter();
    let widest = labels
        .map(|tick| label_width(&tick.label, BODY))
        .fold(0.0, f64::max);
    let room = frame.x.to - frame.x.from - 48.0 - widest;
    let height = (frame.y.from - frame.y.to) / count;
    let width = (room.max(60.0) / count).min(height * WIDEST);
    frame.x.to = frame.x.from + width * count;
    (width, height)
}

/// Keeps only every second (or fourth, and so on) name if names would touch.
fn thin_out(frame: &mut Frame, (width, height): Point) {
    let widest = frame
        .x
        .ticks
        .iter()
        .map(|tick| label_width(&tick.label, BODY))
        .fold(0.0, f64::max);
    let thin = |ticks: &mut [Tick], each: f64, needed: f64| {
        let mut step = 1;
        while each * (step as f64) < needed && step < ticks.len() {
            step *= 2;
        }
        for (index, tick) in ticks.iter_mut().enumerate() {
            if index % step != 0 {
                tick.label = None;
            }
        }
    };
    thin(&mut frame.x.ticks, width, widest + 6.0);
    thin(&mut frame.y.ticks, height, f64::from(BODY) + 2.0);
}

fn draw_cells(
    frame: &mut Frame,
    values: &[((usize, usize), Option<Nanos>)],
    (width, height): Point,
    colours: &Axis,
    unit: Unit,
) {
    let (left, top) = (frame.x.from, frame.y.to);
    let whole = ((left, top), (frame.x.to - left, frame.y.from - top));
    frame.canvas.cells(vec![whole], EMPTY);
    // Cells are on whole pixels, with a white line between them if there is enough space. Otherwise
    // they overlap slightly, so that no seam is visible.
    let line = if width.min(height) > 10.0 { 1.0 } else { -0.5 };
    let edge = |start: f64, each: f64, place: usize| (start + each * place as f64).round();
    let mut levels: BTreeMap<usize, Vec<(Point, Point)>> = BTreeMap::new();
    let mut texts = Vec::new();
    for ((from, to), value) in values {
        let (x, y) = (edge(left, width, *to), edge(top, height, *from));
        let right = (edge(left, width, to + 1) - line).min(frame.x.to);
        let bottom = (edge(top, height, from + 1) - line).min(frame.y.from);
        let middle = ((x + right) / 2.0, (y + bottom) / 2.0);
        match value {
            Some(value) => {
                let value = unit.scale(value.0 as f64);
                let level = level(colours.at(value));
                let cell = ((x, y), (right - x, bottom - y));
                levels.entry(level).or_default().push(cell);
                texts.push((middle, three_digits(value), ink(colour(level))));
            }
            None => texts.push((middle, "-".to_owned(), Colour::GREY)),
        }
    }
    for (level, cells) in levels {
        frame.canvas.cells(cells, colour(level));
    }
    let fits = |size: &u32| {
        let widest = texts.iter().map(|(_, text, _)| text_width(text, *size));
        widest.fold(0.0, f64::max) + 6.0 <= width && f64::from(*size) + 4.0 <= height
    };
    // All numbers have the same size, or none is drawn, because a partial set would be misleading.
    if let Some(size) = [14, 12, 11, 10, 9, 8].into_iter().find(fits) {
        for ((x, y), text, ink) in texts {
            let at = (x, y + (f64::from(size) / 3.0).round());
            frame.canvas.text(at, &text, size, Anchor::Middle, ink);
        }
    }
}

/// Draws the colour scale to the right of the cells.
pub(super) fn colour_bar(frame: &mut Frame, mut colours: Axis, options: &PlotOptions) {
    let (bottom, top) = (frame.y.from, frame.y.to);
    let left = frame.x.to.round() + 24.0;
    let each = (bottom - top) / LEVELS as f64;
    for step in 0..LEVELS {
        // Each step extends to the top, and the next step covers part of it, so that no seam is
        // visible at any plot size.
        let height = (each * (LEVELS - step) as f64).round();
        let cell = ((left, top), (16.0, height));
        frame.canvas.cells(vec![cell], colour(step));
    }
    (colours.from, colours.to) = (bottom, top);
    let mut lines = Vec::new();
    for tick in &colours.ticks {
        let y = colours.at(tick.value);
        let length = if tick.label.is_some() { 5.0 } else { 3.0 };
        lines.push(vec![(left + 16.0, y), (left + 16.0 + length, y)]);
        if let Some(label) = &tick.label {
            frame.label((left + 24.0, y + 4.0), label, BODY, Anchor::Start);
        }
    }
    frame.canvas.lines(lines, AXIS);
    let end = f64::from(options.width) - 16.0;
    let (at, anchor) = if left + text_width(&colours.title, BODY + 1) <= end {
        (left, Anchor::Start)
    } else {
        (end, Anchor::End)
    };
    let at = (at, top - ABOVE);
    let title = &colours.title;
    frame
        .canvas
        .text(at, title, BODY + 1, anchor, Colour::BLACK);
}

/// Draws one of two lines at the lower right, next to the axis title.
fn note(frame: &mut Frame, row: usize, text: &str, options: &PlotOptions) {
    if text.is_empty() {
        return;
    }
    let end = f64::from(options.width) - 16.0;
    let title = text_width(&frame.x.title, BODY + 1);
    let start = (frame.x.from + frame.x.to + title) / 2.0 + 12.0;
    let text = fit(text, SMALL, end - start);
    let at = (end, frame.y.from + 33.0 + 13.0 * row as f64);
    frame
        .canvas
        .text(at, &text, SMALL, Anchor::End, Colour::GREY);
}

/// Returns the index of the colour for this fraction of the axis.
pub(super) fn level(share: f64) -> usize {
    ((share * LEVELS as f64) as usize).min(LEVELS - 1)
}

pub(super) fn colour(level: usize) -> Colour {
    let place = level as f64 / (LEVELS - 1) as f64 * (MAP.len() - 1) as f64;
    let below = (place as usize).min(MAP.len() - 2);
    let share = place - below as f64;
    let (Colour(r, g, b), Colour(to_r, to_g, to_b)) = (MAP[below], MAP[below + 1]);
    let mix = |from: u8, to: u8| {
        (f64::from(from) + (f64::from(to) - f64::from(from)) * share).round() as u8
    };
    Colour(mix(r, to_r), mix(g, to_g), mix(b, to_b))
}

/// Returns the relative luminance, 0 to 1 (WCAG 2.2).
fn luminance(Colour(r, g, b): Colour) -> f64 {
    let linear = |part: u8| match f64::from(part) / 255.0 {
        low if low <= 0.04045 => low / 12.92,
        high => ((high + 0.055) / 1.055).powf(2.4),
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/// Returns black or white, whichever is more legible on this background.
fn ink(ground: Colour) -> Colour {
    // At this luminance, black and white have the same contrast.
    if luminance(ground) > 0.179 {
        Colour::BLACK
    } else {
        Colour::WHITE
    }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => grouped(v.round() as u64),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.9995 => format!("{v:.2}"),
        0.0 => "0".to_owned(),
        v => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_latency_is_always_darker() {
        let shades: Vec<f64> = (0..LEVELS).map(|step| luminance(colour(step))).collect();
        assert!(
            shades.windows(2).all(|pair| pair[1] < pair[0]),
            "{shades:?}"
        );
        assert_eq!((level(0.0), level(1.0)), (0, LEVELS - 1));
        assert_eq!((colour(0), colour(LEVELS - 1)), (MAP[0], MAP[8]));
    }

    #[test]
    fn figures_are_read_on_every_colour() {
        for step in 0..LEVELS {
            let ground = luminance(colour(step));
            let ink = luminance(ink(colour(step)));
            let contrast = (ground.max(ink) + 0.05) / (ground.min(ink) + 0.05);
            assert!(contrast >= 4.5, "{step}: {contrast}");
        }
    }

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0, 0.0123, 1.0, 9.999, 28.549, 99.97, 12_345.6].map(three_digits);
        assert_eq!(
            shown,
            ["0", "0.012", "1.00", "10.0", "28.5", "100", "12,346"]
        );
    }
}
