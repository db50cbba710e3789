//! A canvas as SVG.
//!
//! Coordinates are rounded to a tenth of a pixel and written as relative moves, so a curve of a
//! thousand steps takes a few kilobytes.

use std::fmt::Write;

use super::canvas::{Anchor, Canvas, Colour, Point, Shape, Stroke, corners};
use crate::sanitize::push_xml;

/// The most common fonts, then any sans-serif.
const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

pub(super) fn write(canvas: &Canvas) -> String {
    let Canvas { width, height, .. } = canvas;
    let mut out = String::with_capacity(16 * 1024);
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="{FONTS}" fill="none" stroke-linejoin="round" xml:space="preserve" style="white-space:pre"><title>"#
    );
    push_xml(&mut out, &canvas.title);
    out.push_str("</title>\n");
    let _ = writeln!(
        out,
        r##"<path fill="#fff" d="M0 0h{width}v{height}h-{width}z"/>"##
    );
    for shape in &canvas.shapes {
        match shape {
            Shape::Lines { lines, stroke } => push_lines(&mut out, lines, stroke),
            Shape::Area { outline, fill } => {
                let _ = write!(out, r#"<path fill="{}" d=""#, Hex(*fill));
                push_path(&mut out, outline);
                out.push_str("z\"/>\n");
            }
            Shape::Cells { cells, fill } => {
                let _ = write!(out, r#"<path fill="{}" d=""#, Hex(*fill));
                for cell in cells {
                    push_path(&mut out, &corners(*cell));
                    out.push('z');
                }
                out.push_str("\"/>\n");
            }
            Shape::Dots {
                centres,
                radius,
                fill,
            } => push_dots(&mut out, centres, *radius, *fill),
            Shape::Text { .. } => push_text(&mut out, shape),
        }
    }
    out.push_str("</svg>\n");
    out
}

fn push_lines(out: &mut String, lines: &[Vec<Point>], stroke: &Stroke) {
    let Stroke {
        colour,
        width,
        dash,
    } = stroke;
    let _ = write!(
        out,
        r#"<path stroke="{}" stroke-width="{width}""#,
        Hex(*colour)
    );
    if !dash.is_empty() {
        let lengths: Vec<String> = dash.iter().map(f64::to_string).collect();
        let _ = write!(out, r#" stroke-dasharray="{}""#, lengths.join(" "));
    }
    out.push_str(r#" d=""#);
    for line in lines {
        push_path(out, line);
    }
    out.push_str("\"/>\n");
}

fn push_dots(out: &mut String, centres: &[Point], radius: f64, fill: Colour) {
    let _ = writeln!(
        out,
        r##"<g fill="{}" stroke="#fff" stroke-width="0.6">"##,
        Hex(fill)
    );
    for (x, y) in centres {
        let (x, y) = (Tenths::from_pixels(*x), Tenths::from_pixels(*y));
        let _ = writeln!(out, r#"<circle cx="{x}" cy="{y}" r="{radius}"/>"#);
    }
    out.push_str("</g>\n");
}

fn push_text(out: &mut String, shape: &Shape) {
    let Shape::Text {
        at,
        text,
        size,
        anchor,
        colour,
    } = shape
    else {
        return;
    };
    let (x, y) = (Tenths::from_pixels(at.0), Tenths::from_pixels(at.1));
    let _ = write!(
        out,
        r#"<text x="{x}" y="{y}" font-size="{size}" fill="{}""#,
        Hex(*colour)
    );
    match anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(r#" text-anchor="middle""#),
        Anchor::End => out.push_str(r#" text-anchor="end""#),
    }
    out.push('>');
    push_xml(out, text);
    out.push_str("</text>\n");
}

/// Appends a path such as `M10 20.5h3v-4`: absolute at the start, then relative. The points are
/// rounded rather than the moves, so that errors do not accumulate.
fn push_path(out: &mut String, points: &[Point]) {
    let mut points = points
        .iter()
        .map(|(x, y)| (Tenths::from_pixels(*x), Tenths::from_pixels(*y)));
    let Some(mut last) = points.next() else {
        return;
    };
    let _ = write!(out, "M{} {}", last.0, last.1);
    for point in points {
        let (dx, dy) = (Tenths(point.0.0 - last.0.0), Tenths(point.1.0 - last.1.0));
        let _ = match (dx.0, dy.0) {
            (0, 0) => Ok(()),
            (_, 0) => write!(out, "h{dx}"),
            (0, _) => write!(out, "v{dy}"),
            _ => write!(out, "l{dx} {dy}"),
        };
        last = point;
    }
}

/// A coordinate in tenths of a pixel.
#[derive(Clone, Copy)]
struct Tenths(i64);

impl Tenths {
    fn from_pixels(pixels: f64) -> Self {
        Self((pixels * 10.0).round() as i64)
    }
}

impl std::fmt::Display for Tenths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, tenth) = (self.0.unsigned_abs() / 10, self.0.unsigned_abs() % 10);
        match (whole, tenth) {
            (_, 0) => write!(f, "{sign}{whole}"),
            (0, _) => write!(f, "{sign}.{tenth}"),
            _ => write!(f, "{sign}{whole}.{tenth}"),
        }
    }
}

struct Hex(Colour);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Colour(r, g, b) = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_does_not_add_up() {
        let mut out = String::new();
        let points: Vec<Point> = (0..4).map(|i| (f64::from(i) * 0.26, -0.04)).collect();
        push_path(&mut out, &points);
        // 0, 0.26, 0.52, 0.78 are rounded to 0, .3, .5, .8.
        assert_eq!(out, "M0 0h.3h.2h.3");
    }
}
