//! The parts that all plots share: headings, axes, grid, legend.

use super::PlotOptions;
use super::axis::{Axis, Label, Tick};
use super::canvas::{Anchor, Canvas, Colour, Point, Shape, Stroke, fit, text_width};
use super::room::{Rect, Room};

const HEADING: u32 = 15;
pub(super) const BODY: u32 = 12;
pub(super) const SMALL: u32 = 11;
/// Space below the plot for the labels and the title of the axis.
const BELOW: f64 = 52.0;
/// Distance of the vertical axis title from the top of the plot.
pub(super) const ABOVE: f64 = 12.0;
pub(super) const AXIS: Stroke = Stroke::solid(Colour(0x33, 0x33, 0x33), 1.0);

/// Returns the upper end of the plot, below its headings and the title of the vertical axis. That
/// title is horizontal and above the plot, so that it is easy to read.
fn top(heading: &str, line: &str) -> f64 {
    let headings = match (heading.is_empty(), line.is_empty()) {
        (true, true) => 18.0,
        (false, true) => 42.0,
        (_, false) => 58.0,
    };
    headings + 20.0
}

/// Returns the height of the plot area with these headings.
pub(super) fn inner_height((heading, line): &(String, String), options: &PlotOptions) -> f64 {
    f64::from(options.height) - BELOW - top(heading, line)
}

impl Axis {
    /// Returns the font size of the labels.
    fn size(&self) -> u32 {
        self.list.unwrap_or(BODY)
    }

    /// Returns the length of a tick mark.
    fn mark(&self, tick: &Tick) -> Option<f64> {
        match (&self.list, &tick.label) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(6.0),
            (None, None) => Some(3.0),
        }
    }
}

/// An entry of the legend.
pub(super) struct Entry {
    pub(super) mark: Annotation,
    pub(super) text: String,
}

/// The symbol before an entry.
pub(super) enum Annotation {
    Line(Stroke),
    Swatch(Colour),
    Dot(Colour),
    Triangle(Colour),
    /// No symbol, but small texts in columns of this width.
    Columns(Vec<String>, f64),
}

/// Distance between two entries of the legend.
pub(super) const ENTRY: f64 = 18.0;
/// Distance between two rows of small texts.
pub(super) const SMALL_ENTRY: f64 = 13.0;
/// Distance between two rows of names in the plot.
const ROW: f64 = 15.0;
/// Maximum number of rows to try for the position of a name.
const ROWS: usize = 12;

impl Entry {
    /// Returns a row of small texts in columns.
    pub(super) fn columns(texts: Vec<String>, each: f64) -> Self {
        Self {
            mark: Annotation::Columns(texts, each),
            text: String::new(),
        }
    }

    /// Returns the width of the entry, measured from the start of its text.
    fn width(&self) -> f64 {
        match &self.mark {
            Annotation::Columns(texts, each) => texts.len() as f64 * each,
            _ => text_width(&self.text, BODY),
        }
    }
}

/// A plot under construction: the axes, whose pixels are already set, and the canvas.
pub(super) struct Frame {
    pub(super) canvas: Canvas,
    pub(super) x: Axis,
    pub(super) y: Axis,
    room: Room,
}

impl Frame {
    /// Lays out the plot. Draws everything that is behind the curves, and the legend, which is to
    /// the right of the plot so that it cannot hide any curve.
    pub(super) fn new(
        (heading, line): (String, String),
        mut x: Axis,
        mut y: Axis,
        legend: &[Entry],
        options: &PlotOptions,
    ) -> Self {
        let (width, height) = (f64::from(options.width), f64::from(options.height));
        let title = match (heading.is_empty(), y.title.is_empty()) {
            (true, true) => x.title.clone(),
            (true, false) => format!("{} by {}", y.title, x.title),
            (false, _) => heading.clone(),
        };
        let mut canvas = Canvas {
            width: options.width,
            height: options.height,
            title,
            shapes: Vec::new(),
        };
        if !heading.is_empty() {
            let text = fit(&heading, HEADING, width - 32.0);
            canvas.text((16.0, 24.0), &text, HEADING, Anchor::Start, Colour::BLACK);
        }
        if !line.is_empty() {
            let text = fit(&line, SMALL, width - 32.0);
            canvas.text((16.0, 41.0), &text, SMALL, Anchor::Start, Colour::GREY);
        }
        let top = top(&heading, &line);
        let names = legend.iter().map(Entry::width);
        let widest = names.fold(0.0, f64::max).min(legend_width(options));
        let right = if legend.is_empty() {
            width - 24.0
        } else {
            width - widest - 56.0
        };
        let left = 26.0
            + y.ticks
                .iter()
                .map(|tick| label_width(&tick.label, y.size()))
                .fold(0.0, f64::max);
        (x.from, x.to) = (left, right.max(left + 60.0));
        (y.from, y.to) = (height - BELOW, top);
        let room = Room::default();
        let mut frame = Self { canvas, x, y, room };
        frame.grid_lines();
        frame.legend(legend, widest);
        frame
    }

    /// Draws the grid. A filled area hides the grid, so it is drawn again on top.
    pub(super) fn grid_lines(&mut self) {
        let grid = Stroke::solid(Colour::GRID, 1.0);
        let mut lines = Vec::new();
        let lined = |tick: &&Tick| tick.label.is_some();
        let x_ticks = self.x.ticks.iter().filter(|_| self.x.list.is_none());
        for tick in x_ticks.filter(lined) {
            let x = self.x.at(tick.value);
            lines.push(vec![(x, self.y.from), (x, self.y.to)]);
        }
        let y_ticks = self.y.ticks.iter().filter(|_| self.y.list.is_none());
        for tick in y_ticks.filter(lined) {
            let y = self.y.at(tick.value);
            lines.push(vec![(self.x.from, y), (self.x.to, y)]);
        }
        self.canvas.lines(lines, grid);
    }

    /// Draws the axes over the curves and returns the plot.
    pub(super) fn finish(mut self) -> super::Plot {
        let (left, right, bottom, top) = (self.x.from, self.x.to, self.y.from, self.y.to);
        let mut lines = vec![vec![(left, top), (left, bottom), (right, bottom)]];
        let mut labels = Vec::new();
        let mut free_from = f64::NEG_INFINITY;
        for tick in &self.x.ticks {
            let x = self.x.at(tick.value);
            if let Some(length) = self.x.mark(tick) {
                lines.push(vec![(x, bottom), (x, bottom + length)]);
            }
            // A label that would touch the previous one is left out.
            let size = self.x.size();
            let half = label_width(&tick.label, size) / 2.0;
            if let Some(label) = tick.label.clone().filter(|_| x - half > free_from) {
                free_from = x + half + 6.0;
                labels.push(((x, bottom + 19.0), label, size, Anchor::Middle));
            }
        }
        for tick in &self.y.ticks {
            let y = self.y.at(tick.value);
            if let Some(length) = self.y.mark(tick) {
                lines.push(vec![(left, y), (left - length, y)]);
            }
            if let Some(label) = tick.label.clone() {
                let size = self.y.size();
                let at = (left - 9.0, y + (f64::from(size) / 3.0).round());
                labels.push((at, label, size, Anchor::End));
            }
        }
        self.canvas.lines(lines, AXIS);
        for (at, label, size, anchor) in labels {
            self.label(at, &label, size, anchor);
        }
        let middle = (left + right) / 2.0;
        let x_title = self.x.title.clone();
        self.canvas.text(
            (middle, bottom + 42.0),
            &x_title,
            BODY + 1,
            Anchor::Middle,
            Colour::BLACK,
        );
        let y_title = self.y.title.clone();
        if !y_title.is_empty() {
            let at = (16.0, top - ABOVE);
            self.canvas
                .text(at, &y_title, BODY + 1, Anchor::Start, Colour::BLACK);
        }
        super::Plot {
            canvas: self.canvas,
        }
    }

    /// Draws a label. A power is drawn in two parts, which meet at a point that depends on the
    /// anchor.
    pub(super) fn label(&mut self, at: Point, label: &Label, size: u32, anchor: Anchor) {
        match label {
            Label::Text(text) => self.canvas.text(at, text, size, anchor, Colour::BLACK),
            Label::Power(exponent) => {
                let raised = exponent.to_string().replace('-', "−");
                let room = text_width(&raised, 9);
                let joint = match anchor {
                    Anchor::Start => at.0 + text_width("10", BODY),
                    Anchor::Middle => at.0 + (text_width("10", BODY) - room) / 2.0,
                    Anchor::End => at.0 - room,
                };
                self.canvas
                    .text((joint, at.1), "10", BODY, Anchor::End, Colour::BLACK);
                let up = (joint + 0.5, at.1 - 5.0);
                self.canvas
                    .text(up, &raised, 9, Anchor::Start, Colour::BLACK);
            }
        }
    }

    fn legend(&mut self, entries: &[Entry], widest: f64) {
        let left = self.x.to + 14.0;
        let mut y = self.y.to + 8.0;
        for entry in entries {
            if y > self.y.from {
                break;
            }
            let canvas = &mut self.canvas;
            match &entry.mark {
                Annotation::Line(stroke) => {
                    let stroke = Stroke {
                        width: stroke.width.max(1.2) * 1.25,
                        ..*stroke
                    };
                    canvas.line((left, y - 4.0), (left + 22.0, y - 4.0), stroke);
                }
                Annotation::Swatch(fill) => canvas.shapes.push(Shape::Area {
                    outline: vec![
                        (left, y - 9.0),
                        (left + 22.0, y - 9.0),
                        (left + 22.0, y + 1.0),
                        (left, y + 1.0),
                    ],
                    fill: *fill,
                }),
                Annotation::Dot(fill) => canvas.shapes.push(Shape::Dots {
                    centres: vec![(left + 11.0, y - 4.0)],
                    radius: 3.0,
                    fill: *fill,
                }),
                Annotation::Triangle(fill) => canvas.shapes.push(triangle((left + 11.0, y), *fill)),
                Annotation::Columns(texts, each) => {
                    let mut x = left + 28.0;
                    for text in texts {
                        let text = fit(text, SMALL, *each);
                        let at = (x, y - 2.0);
                        canvas.text(at, &text, SMALL, Anchor::Start, Colour::GREY);
                        x += each;
                    }
                    y += SMALL_ENTRY;
                    continue;
                }
            }
            let text = fit(&entry.text, BODY, widest + 2.0);
            canvas.text((left + 28.0, y), &text, BODY, Anchor::Start, Colour::BLACK);
            y += ENTRY;
        }
    }

    /// Draws vertical lines, each with its name near the upper end, on whichever side and in
    /// whichever row has enough space.
    pub(super) fn verticals(&mut self, lines: &[(f64, &str)], stroke: Stroke) {
        let lines: Vec<_> = lines.iter().map(|(x, name)| (*x, *name, stroke)).collect();
        self.verticals_of(&lines);
    }

    /// Draws vertical lines, each in a different style.
    pub(super) fn verticals_of(&mut self, lines: &[(f64, &str, Stroke)]) {
        let (bottom, top) = (self.y.from, self.y.to);
        for (x, _, stroke) in lines {
            self.canvas.line((*x, bottom), (*x, top), *stroke);
            self.room.take_line((*x, top), (*x, bottom));
        }
        for (x, name, stroke) in lines {
            let rows = (0..ROWS).map(|row| top + 12.0 + ROW * row as f64);
            let places: Vec<(Point, Anchor)> = rows
                .flat_map(|y| [((x - 6.0, y), Anchor::End), ((x + 6.0, y), Anchor::Start)])
                .collect();
            self.name(&places, name, stroke.colour);
        }
    }

    /// Keeps names away from a line that has already been drawn.
    pub(super) fn keep_clear(&mut self, from: Point, to: Point) {
        self.room.take_line(from, to);
    }

    /// Draws horizontal lines, each with its name above or below, at the leftmost free position.
    pub(super) fn horizontals(&mut self, lines: &[(f64, &str)], stroke: Stroke) {
        let (left, right) = (self.x.from, self.x.to);
        for (y, _) in lines {
            self.canvas.line((left, *y), (right, *y), stroke);
            self.room.take_line((left, *y), (right, *y));
        }
        for (y, name) in lines {
            let each = text_width(name, SMALL) + 24.0;
            let columns = (0..ROWS).map(|place| left + 8.0 + each * place as f64);
            let places: Vec<(Point, Anchor)> = columns
                .flat_map(|x| [(x, y - 5.0), (x, y + 14.0)])
                .map(|at| (at, Anchor::Start))
                .collect();
            self.name(&places, name, stroke.colour);
        }
    }

    /// Draws segments from left to right: a line at the start of each, and its name in the middle
    /// at the top.
    pub(super) fn segments(&mut self, segments: &[(f64, f64, &str)], stroke: Stroke) {
        let (bottom, top) = (self.y.from, self.y.to);
        for (from, to, name) in segments {
            if *from > self.x.from + 1.0 {
                self.canvas.line((*from, bottom), (*from, top), stroke);
                self.room.take_line((*from, top), (*from, bottom));
            }
            let middle = ((from + to) / 2.0, top + 12.0);
            let name = fit(name, SMALL, to - from - 8.0);
            self.name(&[(middle, Anchor::Middle)], &name, stroke.colour);
        }
    }

    /// Draws a note in the upper right corner, below earlier notes.
    pub(super) fn note(&mut self, text: &str, colour: Colour) {
        let rows = (0..ROWS).map(|row| self.y.to + 14.0 + ROW * row as f64);
        let places: Vec<(Point, Anchor)> =
            rows.map(|y| ((self.x.to - 8.0, y), Anchor::End)).collect();
        let text = fit(text, SMALL, self.x.to - self.x.from - 16.0);
        self.name(&places, &text, colour);
    }

    /// Draws a small text at the first free position.
    fn name(&mut self, places: &[(Point, Anchor)], text: &str, colour: Colour) {
        let width = text_width(text, SMALL);
        let covered: Vec<Rect> = places
            .iter()
            .map(|(at, anchor)| Rect::of_text(*at, width, SMALL, *anchor))
            .collect();
        let plot = Rect((self.x.from, self.y.to), (self.x.to, self.y.from));
        let found = self.room.place(&covered, &plot);
        let (Some((at, anchor)), Some(place)) = (places.get(found), covered.get(found)) else {
            return;
        };
        if self.room.is_crossed(place) {
            // The line is interrupted to keep the name legible.
            self.canvas.cells(vec![place.cell()], Colour::WHITE);
        }
        self.canvas.text(*at, text, SMALL, *anchor, colour);
    }
}

/// Returns the maximum width of the legend texts.
pub(super) fn legend_width(options: &PlotOptions) -> f64 {
    f64::from(options.width) * 0.34
}

/// Returns a small triangle whose base is centred at `at`.
pub(super) fn triangle(at: Point, fill: Colour) -> Shape {
    Shape::Area {
        outline: vec![(at.0 - 4.0, at.1), (at.0 + 4.0, at.1), (at.0, at.1 - 8.0)],
        fill,
    }
}

pub(super) fn label_width(label: &Option<Label>, size: u32) -> f64 {
    match label {
        None => 0.0,
        Some(Label::Text(text)) => text_width(text, size),
        Some(Label::Power(exponent)) => {
            text_width("10", BODY) + text_width(&exponent.to_string(), 9)
        }
    }
}
