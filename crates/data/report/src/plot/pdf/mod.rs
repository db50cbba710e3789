//! A canvas as a PDF page. Text stays text, so readers can select and search it.

mod embedded;

use std::fmt::Display;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::LineJoinStyle;
use pdf_writer::{Content, Filter, Name, Pdf, Rect, Ref, Str, TextStr};

use super::canvas::{Anchor, Canvas, Colour, Painter, Point, Stroke};
use super::font;
use crate::ReportError;
use crate::sanitize::sanitize;
use embedded::Embedded;

/// Points (1/72 inch) of a pixel (1/96 inch).
const POINTS: f32 = 0.75;

/// Distance of the control points of a cubic curve that approximates a quarter of a circle, as a
/// share of the radius.
const QUARTER: f64 = 0.552_284_75;

/// The name of the font on the page.
const FONT: Name = Name(b"F0");

pub(super) fn write(canvas: &Canvas) -> Result<Vec<u8>, ReportError> {
    let sans = font::sans().map_err(|error| failed(&format!("the font: {error}")))?;
    let (width, height) = (canvas.width as f32 * POINTS, canvas.height as f32 * POINTS);
    let mut ink = Ink {
        content: Content::new(),
        font: Embedded::new(&sans)?,
    };
    // The vertical axis of a canvas points downwards.
    ink.content
        .transform([POINTS, 0.0, 0.0, -POINTS, 0.0, height])
        .set_line_join(LineJoinStyle::RoundJoin);
    canvas.paint(&mut ink);
    let Ink { content, font } = ink;

    let mut free = Ref::new(1);
    let (catalog, pages, page) = (free.bump(), free.bump(), free.bump());
    let (contents, used_font, info) = (free.bump(), free.bump(), free.bump());
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages).lang(TextStr("en"));
    pdf.pages(pages).kids([page]).count(1);
    let mut only = pdf.page(page);
    only.parent(pages)
        .media_box(Rect::new(0.0, 0.0, width, height))
        .contents(contents);
    only.resources().fonts().pair(FONT, used_font);
    drop(only);
    pdf.stream(contents, &compressed(&content.finish())?)
        .filter(Filter::FlateDecode);
    font.write(&mut pdf, used_font, &mut free)?;
    pdf.document_info(info)
        .title(TextStr(&sanitize(&canvas.title)))
        .creator(TextStr(concat!("punctual ", env!("CARGO_PKG_VERSION"))));
    Ok(pdf.finish())
}

fn failed(why: &impl Display) -> ReportError {
    ReportError::Pdf(why.to_string())
}

fn compressed(bytes: &[u8]) -> Result<Vec<u8>, ReportError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_err(|error: io::Error| failed(&error))
}

/// The page being drawn.
struct Ink<'a> {
    content: Content,
    font: Embedded<'a>,
}

impl Ink<'_> {
    fn set_stroke(&mut self, stroke: &Stroke) {
        let [red, green, blue] = shares(stroke.colour);
        let dash = stroke.dash.iter().map(|length| *length as f32);
        self.content
            .set_stroke_rgb(red, green, blue)
            .set_line_width(stroke.width as f32)
            .set_dash_pattern(dash, 0.0);
    }

    fn set_fill(&mut self, colour: Colour) {
        let [red, green, blue] = shares(colour);
        self.content.set_fill_rgb(red, green, blue);
    }

    fn push(&mut self, (first, rest): (&Point, &[Point])) {
        self.content.move_to(first.0 as f32, first.1 as f32);
        for (x, y) in rest {
            self.content.line_to(*x as f32, *y as f32);
        }
    }

    fn push_circle(&mut self, (x, y): Point, radius: f64) {
        let control = radius * QUARTER;
        self.content.move_to((x + radius) as f32, y as f32);
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
            self.content.cubic_to(x1, y1, x2, y2, x3, y3);
        }
        self.content.close_path();
    }
}

impl Painter for Ink<'_> {
    fn lines(&mut self, lines: &[Vec<Point>], stroke: &Stroke) {
        self.set_stroke(stroke);
        for line in lines.iter().filter_map(|line| line.split_first()) {
            self.push(line);
        }
        self.content.stroke();
    }

    fn areas(&mut self, outlines: &[&[Point]], fill: Colour) {
        self.set_fill(fill);
        for outline in outlines.iter().filter_map(|outline| outline.split_first()) {
            self.push(outline);
            self.content.close_path();
        }
        self.content.fill_nonzero();
    }

    fn disc(&mut self, centre: Point, radius: f64, fill: Colour) {
        self.set_fill(fill);
        self.push_circle(centre, radius);
        self.content.fill_nonzero();
    }

    fn circle(&mut self, centre: Point, radius: f64, stroke: &Stroke) {
        self.set_stroke(stroke);
        self.push_circle(centre, radius);
        self.content.stroke();
    }

    fn text(&mut self, at: Point, text: &str, size: u32, anchor: Anchor, colour: Colour) {
        let width = self.font.width(text) * size as f32;
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let codes = self.font.encode(text);
        self.set_fill(colour);
        self.content
            .begin_text()
            .set_font(FONT, size as f32)
            .set_text_matrix([1.0, 0.0, 0.0, -1.0, at.0 as f32 - start, at.1 as f32])
            .show(Str(&codes))
            .end_text();
    }
}

/// Returns the shares of red, green and blue in a colour.
fn shares(Colour(red, green, blue): Colour) -> [f32; 3] {
    [red, green, blue].map(|part| f32::from(part) / 255.0)
}
