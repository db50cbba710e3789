//! What all plots share: headings, axes, grid, legend.

use super::PlotOptions;
use super::axis::{Axis, Label, Tick};
use super::canvas::{Anchor, Canvas, Colour, Point, Shape, Stroke, fit, text_width};

const HEADING: u32 = 15;
pub(super) const BODY: u32 = 12;
pub(super) const SMALL: u32 = 11;
/// Room below the plot, for the names and the title of its axis.
const BELOW: f64 = 52.0;
/// The title of the upward axis stands so far above it.
pub(super) const ABOVE: f64 = 12.0;
pub(super) const AXIS: Stroke = Stroke::solid(Colour(0x33, 0x33, 0x33), 1.0);

/// The upper end of the plot, below its headings and the title of the upward
/// axis: that lies above it and is read without turning the head.
fn top(heading: &str, line: &str) -> f64 {
    let headings = match (heading.is_empty(), line.is_empty()) {
        (true, true) => 18.0,
        (false, true) => 42.0,
        (_, false) => 58.0,
    };
    headings + 20.0
}

/// How high the plot itself is, with these headings.
pub(super) fn inner_height((heading, line): &(String, String), options: &PlotOptions) -> f64 {
    f64::from(options.height) - BELOW - top(heading, line)
}

impl Axis {
    /// The size of its names.
    fn size(&self) -> u32 {
        self.list.unwrap_or(BODY)
    }

    /// How long the mark of a tick is.
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
    pub(super) mark: Mark,
    pub(super) text: String,
}

/// What stands before an entry.
pub(super) enum Mark {
    Line(Stroke),
    Swatch(Colour),
    Dot(Colour),
    Triangle(Colour),
}

/// A plot under construction: axes with their pixels set, and the canvas.
pub(super) struct Frame {
    pub(super) canvas: Canvas,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Frame {
    /// Lays out the picture and draws all that lies below the curves, and the
    /// legend to the right of them, where it can cover nothing.
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
        let names = legend.iter().map(|entry| text_width(&entry.text, BODY));
        let widest = names.fold(0.0, f64::max).min(width * 0.34);
        let right = match legend.is_empty() {
            true => width - 24.0,
            false => width - widest - 56.0,
        };
        let left = 26.0
            + y.ticks
                .iter()
                .map(|tick| label_width(&tick.label, y.size()))
                .fold(0.0, f64::max);
        (x.from, x.to) = (left, right.max(left + 60.0));
        (y.from, y.to) = (height - BELOW, top);
        let mut frame = Self { canvas, x, y };
        frame.grid();
        frame.legend(legend, widest);
        frame
    }

    /// The grid; again over a filled area, which would hide it.
    pub(super) fn grid(&mut self) {
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

    /// Draws the axes over the curves and gives back the picture.
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
            // A name that would touch the one before it is left out.
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

    /// A power is drawn in two pieces; their joint follows from the anchor.
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
            match entry.mark {
                Mark::Line(stroke) => {
                    let stroke = Stroke {
                        width: stroke.width.max(1.2) * 1.25,
                        ..stroke
                    };
                    canvas.line((left, y - 4.0), (left + 22.0, y - 4.0), stroke);
                }
                Mark::Swatch(fill) => canvas.shapes.push(Shape::Area {
                    outline: vec![
                        (left, y - 9.0),
                        (left + 22.0, y - 9.0),
                        (left + 22.0, y + 1.0),
                        (left, y + 1.0),
                    ],
                    fill,
                }),
                Mark::Dot(fill) => canvas.shapes.push(Shape::Dots {
                    centres: vec![(left + 11.0, y - 4.0)],
                    radius: 3.0,
                    fill,
                }),
                Mark::Triangle(fill) => canvas.shapes.push(triangle((left + 11.0, y), fill)),
            }
            let text = fit(&entry.text, BODY, widest + 2.0);
            canvas.text((left + 28.0, y), &text, BODY, Anchor::Start, Colour::BLACK);
            y += 18.0;
        }
    }

    /// A vertical line with its name at its upper end.
    pub(super) fn vertical(&mut self, x: f64, name: &str, stroke: Stroke) {
        let (bottom, top) = (self.y.from, self.y.to);
        self.canvas.line((x, bottom), (x, top), stroke);
        // On the side where there is room.
        let (at, anchor) = match x - text_width(name, SMALL) - 8.0 > self.x.from {
            true => (x - 6.0, Anchor::End),
            false => (x + 6.0, Anchor::Start),
        };
        self.canvas
            .text((at, top + 12.0), name, SMALL, anchor, stroke.colour);
    }

    /// A horizontal line with its name above it.
    pub(super) fn horizontal(&mut self, y: f64, name: &str, stroke: Stroke) {
        let (left, right) = (self.x.from, self.x.to);
        self.canvas.line((left, y), (right, y), stroke);
        let at = if y - 16.0 > self.y.to {
            y - 5.0
        } else {
            y + 14.0
        };
        self.canvas
            .text((left + 8.0, at), name, SMALL, Anchor::Start, stroke.colour);
    }

    /// A note in the upper right corner.
    pub(super) fn note(&mut self, row: usize, text: &str, colour: Colour) {
        let at = (self.x.to - 8.0, self.y.to + 14.0 + row as f64 * 16.0);
        self.canvas.text(at, text, SMALL, Anchor::End, colour);
    }
}

/// A small triangle that stands on `at`.
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
