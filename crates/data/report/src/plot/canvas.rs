//! The drawing surface of a plot, which consists of a few kinds of shapes, in pixels.

use crate::sanitize::sanitize;

/// An opaque colour. Without transparency, a plot looks the same in print and on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour(pub(super) u8, pub(super) u8, pub(super) u8);

impl Colour {
    pub(super) const BLACK: Self = Self(0, 0, 0);
    pub(super) const WHITE: Self = Self(255, 255, 255);
    /// For less important text.
    pub(super) const GREY: Self = Self(0x55, 0x55, 0x55);
    /// For grid lines.
    pub(super) const GRID: Self = Self(0xe4, 0xe4, 0xe4);
}

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stroke {
    pub(super) colour: Colour,
    pub(super) width: f64,
    /// Alternating lengths of dashes and gaps; empty for a solid line.
    pub(super) dash: &'static [f64],
}

impl Stroke {
    pub(super) const fn solid(colour: Colour, width: f64) -> Self {
        Self {
            colour,
            width,
            dash: &[],
        }
    }
}

/// The part of a text that is placed at the given point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) type Point = (f64, f64);

#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Polylines of one style, each a list of points.
    Lines {
        lines: Vec<Vec<Point>>,
        stroke: Stroke,
    },
    /// A filled polygon.
    Area { outline: Vec<Point>, fill: Colour },
    /// Rectangles of one colour, each with its upper left corner and its size.
    Cells {
        cells: Vec<(Point, Point)>,
        fill: Colour,
    },
    /// Filled circles with a thin white outline.
    Dots {
        centres: Vec<Point>,
        radius: f64,
        fill: Colour,
    },
    Text {
        at: Point,
        text: String,
        size: u32,
        anchor: Anchor,
        colour: Colour,
    },
}

/// The shapes of a plot, from back to front.
#[derive(Clone, Debug)]
pub(super) struct Canvas {
    pub(super) width: u32,
    pub(super) height: u32,
    /// Title for screen readers.
    pub(super) title: String,
    pub(super) shapes: Vec<Shape>,
}

impl Canvas {
    pub(super) fn text(
        &mut self,
        at: Point,
        text: &str,
        size: u32,
        anchor: Anchor,
        colour: Colour,
    ) {
        self.shapes.push(Shape::Text {
            at,
            text: text.to_owned(),
            size,
            anchor,
            colour,
        });
    }

    /// Adds the shapes of another canvas, with its upper left corner at `at`.
    pub(super) fn place(&mut self, at: Point, other: Self) {
        let moved = |(x, y): Point| (x + at.0, y + at.1);
        let each = |points: Vec<Point>| points.into_iter().map(moved).collect::<Vec<_>>();
        let shapes = other.shapes.into_iter().map(|shape| match shape {
            Shape::Lines { lines, stroke } => Shape::Lines {
                lines: lines.into_iter().map(each).collect(),
                stroke,
            },
            Shape::Area { outline, fill } => Shape::Area {
                outline: each(outline),
                fill,
            },
            Shape::Cells { cells, fill } => Shape::Cells {
                cells: cells
                    .into_iter()
                    .map(|(corner, size)| (moved(corner), size))
                    .collect(),
                fill,
            },
            Shape::Dots {
                centres,
                radius,
                fill,
            } => Shape::Dots {
                centres: each(centres),
                radius,
                fill,
            },
            Shape::Text {
                at,
                text,
                size,
                anchor,
                colour,
            } => Shape::Text {
                at: moved(at),
                text,
                size,
                anchor,
                colour,
            },
        });
        self.shapes.extend(shapes);
    }

    pub(super) fn line(&mut self, from: Point, to: Point, stroke: Stroke) {
        self.lines(vec![vec![from, to]], stroke);
    }

    pub(super) fn cells(&mut self, cells: Vec<(Point, Point)>, fill: Colour) {
        if !cells.is_empty() {
            self.shapes.push(Shape::Cells { cells, fill });
        }
    }

    pub(super) fn lines(&mut self, lines: Vec<Vec<Point>>, stroke: Stroke) {
        if !lines.is_empty() {
            self.shapes.push(Shape::Lines { lines, stroke });
        }
    }
}

/// Draws the parts of a canvas in an output format.
pub(super) trait Painter {
    fn lines(&mut self, lines: &[Vec<Point>], stroke: &Stroke);

    /// Fills closed outlines.
    fn areas(&mut self, outlines: &[&[Point]], fill: Colour);

    /// Fills a circle.
    fn disc(&mut self, centre: Point, radius: f64, fill: Colour);

    /// Draws the outline of a circle.
    fn circle(&mut self, centre: Point, radius: f64, stroke: &Stroke);

    /// Draws text with its baseline at `at`. The text contains no control characters.
    fn text(&mut self, at: Point, text: &str, size: u32, anchor: Anchor, colour: Colour);
}

impl Canvas {
    /// Draws all shapes.
    pub(super) fn paint(&self, painter: &mut impl Painter) {
        for shape in &self.shapes {
            match shape {
                Shape::Lines { lines, stroke } => painter.lines(lines, stroke),
                Shape::Area { outline, fill } => painter.areas(&[outline], *fill),
                Shape::Cells { cells, fill } => {
                    let corners: Vec<_> = cells.iter().map(|cell| corners(*cell)).collect();
                    let outlines: Vec<&[Point]> = corners.iter().map(|one| &one[..]).collect();
                    painter.areas(&outlines, *fill);
                }
                Shape::Dots {
                    centres,
                    radius,
                    fill,
                } => {
                    let edge = Stroke::solid(Colour::WHITE, 0.6);
                    for centre in centres {
                        painter.disc(*centre, *radius, *fill);
                        painter.circle(*centre, *radius, &edge);
                    }
                }
                Shape::Text {
                    at,
                    text,
                    size,
                    anchor,
                    colour,
                } => painter.text(*at, &sanitize(text), *size, *anchor, *colour),
            }
        }
    }
}

/// Returns the corners of a cell, in order around it.
pub(super) fn corners(((x, y), (width, height)): (Point, Point)) -> [Point; 4] {
    [
        (x, y),
        (x + width, y),
        (x + width, y + height),
        (x, y + height),
    ]
}

/// Returns the approximate width of `text` at `size` pixels. It uses the character widths of DejaVu
/// Sans, which is the font of PNG images. This is one of the widest fonts, so text in other fonts
/// fits as well.
pub(super) fn text_width(text: &str, size: u32) -> f64 {
    let thousandths: u32 = text.chars().map(char_width).sum();
    f64::from(thousandths) * f64::from(size) / 1000.0
}

fn char_width(c: char) -> u32 {
    match c {
        'i' | 'j' | 'l' | 'I' | 'J' | '\'' => 295,
        ' ' | '.' | ',' | ':' | ';' | '/' | '|' | '·' => 337,
        'f' | 'r' | 't' | '-' | '(' | ')' | '"' => 411,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 990,
        'A'..='Z' | '=' | '+' | '<' | '>' | '~' => 760,
        'a'..='z' | '0'..='9' | 'µ' | '_' => 636,
        c if c.is_ascii() => 640,
        _ => 900,
    }
}

/// Returns as much of `text` as fits into the width `room`. It reads no more of the text than fits.
pub(super) fn fit(text: &str, size: u32, room: f64) -> String {
    let wide = |thousandths: u32| f64::from(thousandths) * f64::from(size) / 1000.0;
    let (mut used, mut cut) = (0, 0);
    for (at, c) in text.char_indices() {
        used += char_width(c);
        if wide(used + char_width('…')) <= room {
            cut = at + c.len_utf8();
        }
        if wide(used) > room {
            return format!("{}…", text[..cut].trim_end());
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_available_room() {
        assert_eq!(fit("short", 10, 100.0), "short");
        for text in ["a longer text with words", "µµµµµµµµµµ", "漢字漢字漢字漢字"]
        {
            for room in [1.0, 12.0, 20.0, 33.0, 50.0] {
                let short = fit(text, 10, room);
                assert!(short.ends_with('…') && short.chars().count() < text.chars().count());
                assert!(
                    short == "…" || text_width(&short, 10) <= room,
                    "{short} {room}"
                );
            }
        }
    }

    #[test]
    fn long_text_costs_only_its_visible_part() {
        // The width of the whole text, in thousandths, would overflow, so the part that is cut off
        // must not be measured.
        let long = "W".repeat(60_000_000);
        let short = fit(&long, 10, 200.0);
        assert!(short.starts_with('W') && short.chars().count() < 40);
    }
}
