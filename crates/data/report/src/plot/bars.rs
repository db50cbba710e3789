//! Bar plots, with a bar for each mechanism or kind.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_model::{Histogram, Nanos, Recording, ThreadRecord, counted};

use super::axis::{Axis, Unit};
use super::canvas::{Canvas, Colour, Shape, Stroke, fit, text_width};
use super::curves::{LIMIT, badness, headings, limits, quantity_of, recording_name};
use super::frame::{Annotation, BODY, Entry, Frame, inner_height};
use super::latency::{in_sight, latency_axis, mark_limits};
use super::{Plot, PlotOptions, Scale};
use crate::figures::or_dash;

/// The colours of Okabe and Ito, reordered so that text is legible next to the first ones.
const FILLS: [Colour; 7] = [
    Colour(0x00, 0x72, 0xb2),
    Colour(0xe6, 0x9f, 0x00),
    Colour(0x00, 0x9e, 0x73),
    Colour(0xcc, 0x79, 0xa7),
    Colour(0x56, 0xb4, 0xe9),
    Colour(0xd5, 0x5e, 0x00),
    Colour(0x00, 0x00, 0x00),
];
const WHISKER: Stroke = Stroke::solid(Colour(0x33, 0x33, 0x33), 1.3);
const MAX: Colour = Colour(0xd5, 0x5e, 0x00);
/// The axis is logarithmic if the largest maximum exceeds the smallest median by more than this
/// factor.
const WIDE: u64 = 20;
/// The minimum height of a group, and of each bar in it; anything smaller is illegible.
const GROUP: f64 = 12.0;
const BAR: f64 = 4.0;

/// The figures of a bar.
struct Bar {
    median: Option<Nanos>,
    p99: Option<Nanos>,
    max: Option<Nanos>,
}

/// The bars of one name, one for each recording that has it.
struct Group {
    name: String,
    bars: Vec<Option<Bar>>,
    all: Histogram,
}

pub(super) fn draw(recordings: &[&Recording], options: &PlotOptions) -> Plot {
    let (heading, what) = quantity_of(recordings);
    let headings = headings(heading, recordings, options);
    let groups = groups(recordings, options);
    let count = groups.len();
    let least = GROUP.max(BAR * (recordings.len() + 1) as f64);
    let room = inner_height(&headings, options);
    let groups = largest(groups, ((room / least) as usize).max(1));

    let bars = || groups.iter().flat_map(|group| group.bars.iter().flatten());
    let low = bars().filter_map(|bar| bar.median).min();
    let low = low.unwrap_or_default();
    let high = bars().filter_map(|bar| bar.max).max().unwrap_or_default();
    let scale = match options.latency_scale {
        Scale::Auto if high.0 > low.0.max(1).saturating_mul(WIDE) => Scale::Log,
        Scale::Auto => Scale::Linear,
        asked => asked,
    };
    let limits = limits(recordings);
    let end = limits.iter().map(|(_, at)| *at);
    let end = end.filter(|at| in_sight(*at, high, scale));
    let end = options.x_max.unwrap_or(end.fold(high, Nanos::max));
    let unit = Unit::for_costs(low, high.min(end), scale);
    // The axis starts below the shortest bar, because a log axis has no zero.
    let start = Nanos(low.0 - low.0 / 3);
    let x_max = options.x_max.map(|at| unit.scale(at.0 as f64));
    let x = latency_axis(what, scale, start, end, unit).ending(x_max);
    let pitch = room / groups.len().max(1) as f64;
    let (names, size) = names(&groups, recordings.len(), pitch, options);
    let title = match count - groups.len() {
        0 => String::new(),
        _ => format!("the {} of {count} with the largest maximum", groups.len()),
    };
    let y = Axis::list(&names, size, title);
    let legend = legend(recordings, options);
    let mut frame = Frame::new(headings, x, y, &legend, options);
    for (index, group) in groups.iter().enumerate() {
        let middle = frame.y.at(groups.len() as f64 - index as f64 - 0.5);
        draw_group(&mut frame, group, middle, pitch, unit);
    }
    mark_limits(&mut frame, &limits, high, scale, unit, options.x_max);
    if options.x_max.is_some() && high > end {
        let beyond = bars().filter(|bar| bar.max > Some(end)).count() as u64;
        let maxima = counted(beyond, "maximum", "maxima");
        frame.note(&format!("{maxima} beyond this axis →"), LIMIT.colour);
    }
    frame.finish()
}

/// Groups the threads of all recordings by name, in order of appearance. Threads of one recording
/// with the same name stay separate.
fn groups(recordings: &[&Recording], options: &PlotOptions) -> Vec<Group> {
    let mut places: BTreeMap<(String, usize), usize> = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (place, recording) in recordings.iter().enumerate() {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (thread, record) in recording.threads.iter().enumerate() {
            if options.thread.is_some_and(|asked| asked != thread) {
                continue;
            }
            let name = record.title();
            let nth = seen.entry(name.clone()).or_default();
            let index = *places.entry((name.clone(), *nth)).or_insert(groups.len());
            *nth += 1;
            if index == groups.len() {
                groups.push(Group {
                    name,
                    bars: recordings.iter().map(|_| None).collect(),
                    all: Histogram::new(),
                });
            }
            groups[index].all.merge(&record.histogram);
            groups[index].bars[place] = Some(bar(record));
        }
    }
    groups
}

fn bar(thread: &ThreadRecord) -> Bar {
    let histogram = &thread.histogram;
    Bar {
        median: histogram.supported_quantile(0.5),
        p99: histogram.supported_quantile(0.99),
        max: histogram.max(),
    }
}

/// Returns the groups with the largest maxima, at most `most`, in their order.
fn largest(groups: Vec<Group>, most: usize) -> Vec<Group> {
    if groups.len() <= most {
        return groups;
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_cached_key(|index| Reverse(badness(&groups[*index].all)));
    let mut chosen = vec![false; groups.len()];
    for index in &order[..most] {
        chosen[*index] = true;
    }
    let numbered = groups.into_iter().zip(chosen);
    numbered
        .filter_map(|(g, chosen)| chosen.then_some(g))
        .collect()
}

/// Returns the names of the groups and their font size, which is smaller for long names. With one
/// recording, the names include the median, because a log axis only shows it roughly.
fn names(
    groups: &[Group],
    recordings: usize,
    pitch: f64,
    options: &PlotOptions,
) -> (Vec<String>, u32) {
    let room = f64::from(options.width) * 0.4;
    let median = |group: &Group| match group.bars.first() {
        Some(Some(bar)) if recordings == 1 => format!("  {}", or_dash(bar.median)),
        _ => String::new(),
    };
    let largest = (pitch * 0.8).clamp(9.0, BODY.into()) as u32;
    let fits = |size: &u32| {
        groups.iter().all(|group| {
            let width = text_width(&group.name, *size) + text_width(&median(group), *size);
            width <= room
        })
    };
    let size = (9..=largest).rev().find(fits).unwrap_or(9);
    let name = |group: &Group| {
        let median = median(group);
        let left = room - text_width(&median, size);
        format!("{}{median}", fit(&group.name, size, left))
    };
    (groups.iter().map(name).collect(), size)
}

fn legend(recordings: &[&Recording], options: &PlotOptions) -> Vec<Entry> {
    let entry = |mark, text: String| Entry { mark, text };
    let mut entries = Vec::new();
    let (median, max) = match recordings {
        [_] => (FILLS[0], MAX),
        several => {
            entries.extend(several.iter().enumerate().map(|(place, recording)| {
                let fill = FILLS[place % FILLS.len()];
                let name = recording_name(recording, several, options);
                entry(Annotation::Swatch(fill), name)
            }));
            (Colour::GREY, Colour::GREY)
        }
    };
    entries.push(entry(Annotation::Swatch(median), "median".to_owned()));
    entries.push(entry(Annotation::Line(WHISKER), "to p99".to_owned()));
    entries.push(entry(Annotation::Dot(max), "max".to_owned()));
    entries
}

fn draw_group(frame: &mut Frame, group: &Group, middle: f64, pitch: f64, unit: Unit) {
    let count = group.bars.len().max(1) as f64;
    let each = (pitch * 0.72).min(26.0 * count) / count;
    for (place, bar) in group.bars.iter().enumerate() {
        let Some(bar) = bar else {
            continue;
        };
        let y = middle + (place as f64 - (count - 1.0) / 2.0) * each;
        // Bars of different recordings touch each other, so a thin white line separates them.
        let height = if count > 1.0 { each * 0.9 } else { each };
        let at = |latency: Nanos| frame.x.at(unit.scale(latency.0 as f64));
        let fill = FILLS[place % FILLS.len()];
        let from = frame.x.from;
        let ends = [bar.median, bar.p99, bar.max].map(|end| end.map(at));
        let [median, p99, max] = ends;
        let end = frame.x.high;
        let canvas = &mut frame.canvas;
        if let Some(median) = median {
            let cell = ((from, y - height / 2.0), (median - from, height));
            canvas.cells(vec![cell], fill);
        }
        if let (Some(median), Some(p99)) = (median, p99) {
            whisker(canvas, median, p99, y, (height * 0.3).min(5.0));
        }
        // Maxima beyond the end of the axis are counted instead of drawn.
        let whole = bar.max.map(|max| unit.scale(max.0 as f64)) <= Some(end);
        if let Some(max) = max.filter(|_| whole) {
            canvas.shapes.push(Shape::Dots {
                centres: vec![(max, y)],
                radius: (height * 0.45).clamp(1.5, 3.5),
                fill: if count > 1.0 { fill } else { MAX },
            });
        }
    }
}

/// Draws a line from the median to p99, with a cap at its end.
fn whisker(canvas: &mut Canvas, from: f64, to: f64, y: f64, half: f64) {
    let lines = vec![
        vec![(from, y), (to, y)],
        vec![(to, y - half), (to, y + half)],
    ];
    canvas.lines(lines, WHISKER);
}
