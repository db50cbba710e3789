//! A canvas as PNG, by kuva's rasteriser.
//!
//! It draws text with DejaVu Sans, which it carries. Two things it does not do
//! as SVG does are done here: dashes run on along a line of many pieces, and
//! text is taken literally (it would read `$…$` as mathematics).

use kuva::backend::raster::RasterBackend;
use kuva::render::color::Color;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor};

use super::canvas::{Anchor, Canvas, Colour, Point, Shape, Stroke, corners};
use crate::ReportError;
use crate::sanitize::sanitize;

/// The longest side that is drawn, in pixels.
const LONGEST: f32 = 16_000.0;

pub(super) fn write(canvas: &Canvas, scale: f32) -> Result<Vec<u8>, ReportError> {
    let longest = canvas.width.max(canvas.height) as f32 * scale;
    if !(0.25..=8.0).contains(&scale) || longest > LONGEST {
        return Err(ReportError::Scale(scale));
    }
    let mut scene = Scene::new(canvas.width.into(), canvas.height.into());
    for shape in &canvas.shapes {
        push(&mut scene.elements, shape);
    }
    RasterBackend::new()
        .with_scale(scale)
        .render_scene(&scene)
        .map_err(ReportError::Png)
}

fn push(elements: &mut Vec<Primitive>, shape: &Shape) {
    match shape {
        Shape::Lines { lines, stroke } => {
            elements.extend(lines.iter().flat_map(|line| pieces(line, stroke)));
        }
        Shape::Area { outline, fill } => elements.push(filled(path(outline), *fill)),
        Shape::Cells { cells, fill } => {
            let paths = cells.iter().map(|cell| path(&corners(*cell)));
            elements.push(filled(paths.collect(), *fill));
        }
        Shape::Dots {
            centres,
            radius,
            fill,
        } => {
            elements.extend(centres.iter().map(|(cx, cy)| Primitive::Circle {
                cx: *cx,
                cy: *cy,
                r: *radius,
                fill: colour(*fill),
                fill_opacity: None,
                stroke: Some(colour(Colour::WHITE)),
                stroke_width: Some(0.6),
            }));
        }
        Shape::Text {
            at,
            text,
            size,
            anchor,
            colour: fill,
        } => {
            elements.push(Primitive::Text {
                x: at.0,
                y: at.1,
                content: literal(text),
                size: *size,
                anchor: match anchor {
                    Anchor::Start => TextAnchor::Start,
                    Anchor::Middle => TextAnchor::Middle,
                    Anchor::End => TextAnchor::End,
                },
                rotate: None,
                bold: false,
                color: Some(colour(*fill)),
            });
        }
    }
}

fn filled(d: String, fill: Colour) -> Primitive {
    Primitive::Path(Box::new(PathData {
        d,
        fill: Some(colour(fill)),
        stroke: Color::None,
        stroke_width: 0.0,
        opacity: None,
        stroke_dasharray: None,
    }))
}

fn literal(text: &str) -> String {
    sanitize(text).replace('$', "\\$")
}

fn colour(Colour(r, g, b): Colour) -> Color {
    Color::Rgb(r, g, b)
}

fn path(points: &[Point]) -> String {
    let mut d = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        d.push_str(&format!("{command}{x:.2} {y:.2} "));
    }
    d.push_str("Z ");
    d
}

fn pieces(line: &[Point], stroke: &Stroke) -> Vec<Primitive> {
    let lines = match stroke.dash {
        [] => vec![line.to_vec()],
        dash => dashes(line, dash),
    };
    lines
        .into_iter()
        .map(|points| Primitive::PolyLine {
            points,
            stroke: colour(stroke.colour),
            stroke_width: stroke.width,
            stroke_dasharray: None,
        })
        .collect()
}

/// The drawn parts of a dashed line.
fn dashes(line: &[Point], dash: &[f64]) -> Vec<Vec<Point>> {
    let mut parts = Vec::new();
    let mut turn = 0;
    let mut left = dash[0].max(0.1);
    let mut part: Vec<Point> = line.first().copied().into_iter().collect();
    for pair in line.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let share = done / length;
            let here = (
                from.0 + (to.0 - from.0) * share,
                from.1 + (to.1 - from.1) * share,
            );
            if turn % 2 == 0 {
                part.push(here);
                parts.push(std::mem::take(&mut part));
            } else {
                part = vec![here];
            }
            turn += 1;
            left = dash[turn % dash.len()].max(0.1);
        }
        left -= length - done;
        if turn % 2 == 0 {
            part.push(to);
        }
    }
    if turn % 2 == 0 && part.len() > 1 {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_run_on_around_corners() {
        let line = [(0.0, 0.0), (3.0, 0.0), (3.0, 4.0)];
        assert_eq!(
            dashes(&line, &[4.0, 2.0]),
            [
                vec![(0.0, 0.0), (3.0, 0.0), (3.0, 1.0)],
                vec![(3.0, 3.0), (3.0, 4.0)]
            ]
        );
    }

    #[test]
    fn dollars_are_no_mathematics() {
        assert_eq!(literal("a $x$"), "a \\$x\\$");
    }
}
