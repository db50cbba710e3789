//! A canvas as a PDF page, written by krilla. Text stays text, so readers can select and search it.

use krilla::color::rgb;
use krilla::geom::{Path, PathBuilder, Point as PdfPoint, Transform};
use krilla::metadata::Metadata;
use krilla::page::PageSettings;
use krilla::paint::{Fill, LineJoin, Stroke as PdfStroke, StrokeDash};
use krilla::surface::Surface;
use krilla::text::{Font, TextDirection};
use krilla::{Document, SerializeSettings};
use ttf_parser::Face;

use super::canvas::{Anchor, Canvas, Colour, Painter, Point, Stroke};
use super::font;
use crate::ReportError;
use crate::sanitize::sanitize;

/// Points (1/72 inch) of a pixel (1/96 inch).
const POINTS: f32 = 0.75;

/// Distance of the control points of a cubic curve that approximates a quarter of a circle, as a
/// share of the radius.
const QUARTER: f64 = 0.552_284_75;

pub(super) fn write(canvas: &Canvas) -> Result<Vec<u8>, ReportError> {
    let failed = |why: &str| ReportError::Pdf(why.to_owned());
    let sans = font::sans().map_err(|error| failed(&format!("the font: {error}")))?;
    let face = Face::parse(&sans, 0).map_err(|error| failed(&error.to_string()))?;
    let font = Font::new(sans.clone().into(), 0).ok_or_else(|| failed("the font is invalid"))?;
    let mut document = Document::new_with(SerializeSettings::default());
    let (width, height) = (canvas.width as f32 * POINTS, canvas.height as f32 * POINTS);
    let size = PageSettings::from_wh(width, height)
        .ok_or_else(|| failed(&format!("a page cannot have {width} x {height} points")))?;
    // The page is finished when it is dropped.
    {
        let mut page = document.start_page_with(size);
        let mut surface = page.surface();
        surface.push_transform(&Transform::from_scale(POINTS, POINTS));
        let mut ink = Ink {
            surface,
            font,
            face,
        };
        canvas.paint(&mut ink);
        ink.surface.pop();
    }
    let program = format!("punctual {}", env!("CARGO_PKG_VERSION"));
    let metadata = Metadata::new().title(sanitize(&canvas.title).into_owned());
    document.set_metadata(metadata.creator(program).language("en".to_owned()));
    document
        .finish()
        .map_err(|error| failed(&format!("{error:?}")))
}

/// The page being drawn.
struct Ink<'a> {
    surface: Surface<'a>,
    font: Font,
    face: Face<'a>,
}

impl Ink<'_> {
    /// Draws a path. A path without points (`None`) changes nothing.
    fn stroke(&mut self, path: Option<Path>, stroke: &Stroke) {
        let Some(path) = path else { return };
        let array: Vec<f32> = stroke.dash.iter().map(|length| *length as f32).collect();
        self.surface.set_fill(None);
        self.surface.set_stroke(Some(PdfStroke {
            paint: paint(stroke.colour).into(),
            width: stroke.width as f32,
            line_join: LineJoin::Round,
            dash: (!array.is_empty()).then_some(StrokeDash { array, offset: 0.0 }),
            ..PdfStroke::default()
        }));
        self.surface.draw_path(&path);
    }

    fn fill(&mut self, path: Option<Path>, colour: Colour) {
        let Some(path) = path else { return };
        self.set_fill(colour);
        self.surface.draw_path(&path);
    }

    fn set_fill(&mut self, colour: Colour) {
        self.surface.set_stroke(None);
        self.surface.set_fill(Some(Fill {
            paint: paint(colour).into(),
            ..Fill::default()
        }));
    }

    fn width(&self, text: &str, size: u32) -> f32 {
        let advance = |character| {
            let glyph = self.face.glyph_index(character).unwrap_or_default();
            f32::from(self.face.glyph_hor_advance(glyph).unwrap_or_default())
        };
        let units: f32 = text.chars().map(advance).sum();
        units * size as f32 / f32::from(self.face.units_per_em())
    }
}

impl Painter for Ink<'_> {
    fn lines(&mut self, lines: &[Vec<Point>], stroke: &Stroke) {
        let mut path = PathBuilder::new();
        lines.iter().for_each(|line| push(&mut path, line));
        self.stroke(path.finish(), stroke);
    }

    fn areas(&mut self, outlines: &[&[Point]], fill: Colour) {
        let mut path = PathBuilder::new();
        for outline in outlines {
            push(&mut path, outline);
            path.close();
        }
        self.fill(path.finish(), fill);
    }

    fn disc(&mut self, centre: Point, radius: f64, fill: Colour) {
        self.fill(circle(centre, radius), fill);
    }

    fn circle(&mut self, centre: Point, radius: f64, stroke: &Stroke) {
        self.stroke(circle(centre, radius), stroke);
    }

    fn text(&mut self, at: Point, text: &str, size: u32, anchor: Anchor, colour: Colour) {
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => self.width(text, size) / 2.0,
            Anchor::End => self.width(text, size),
        };
        self.set_fill(colour);
        let at = PdfPoint::from_xy(at.0 as f32 - start, at.1 as f32);
        let (font, direction) = (self.font.clone(), TextDirection::LeftToRight);
        self.surface
            .draw_text(at, font, size as f32, text, false, direction);
    }
}

fn paint(Colour(red, green, blue): Colour) -> rgb::Color {
    rgb::Color::new(red, green, blue)
}

fn push(path: &mut PathBuilder, points: &[Point]) {
    for (index, (x, y)) in points.iter().enumerate() {
        match index {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
}

fn circle((x, y): Point, radius: f64) -> Option<Path> {
    let control = radius * QUARTER;
    let mut path = PathBuilder::new();
    path.move_to((x + radius) as f32, y as f32);
    for (start, end) in [
        ((1.0, 0.0), (0.0, 1.0)),
        ((0.0, 1.0), (-1.0, 0.0)),
        ((-1.0, 0.0), (0.0, -1.0)),
        ((0.0, -1.0), (1.0, 0.0)),
    ] {
        let near = |from: Point, to: Point| {
            (
                (x + from.0 * radius + to.0 * control) as f32,
                (y + from.1 * radius + to.1 * control) as f32,
            )
        };
        let (x1, y1) = near(start, end);
        let (x2, y2) = near(end, start);
        let (x3, y3) = near(end, (0.0, 0.0));
        path.cubic_to(x1, y1, x2, y2, x3, y3);
    }
    path.close();
    path.finish()
}
