//! A canvas as PNG, drawn by tiny-skia. The program includes the font for text (DejaVu Sans), so it
//! needs none on the machine.

use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, StrokeDash, Transform,
};
use ttf_parser::{Face, OutlineBuilder};

use super::canvas::{Anchor, Canvas, Colour, Painter, Point, Stroke};
use super::font;
use crate::ReportError;

/// The longest side of an image, in pixels.
const LONGEST: f32 = 16_000.0;

pub(super) fn write(canvas: &Canvas, scale: f32) -> Result<Vec<u8>, ReportError> {
    let longest = canvas.width.max(canvas.height) as f32 * scale;
    if !(0.25..=8.0).contains(&scale) || longest > LONGEST {
        return Err(ReportError::Scale(scale));
    }
    let failed = |why: String| ReportError::Png(why);
    let pixels = |side: u32| (side as f32 * scale).ceil() as u32;
    let (width, height) = (pixels(canvas.width), pixels(canvas.height));
    let pixmap = Pixmap::new(width, height);
    let mut pixmap = pixmap.ok_or_else(|| {
        failed(format!(
            "cannot create an image of {width} x {height} pixels"
        ))
    })?;
    pixmap.fill(Color::WHITE);
    let font = font::sans().map_err(|error| failed(format!("the font: {error}")))?;
    let face = Face::parse(&font, 0).map_err(|error| failed(error.to_string()))?;
    let mut page = Page {
        pixmap,
        transform: Transform::from_scale(scale, scale),
        face,
    };
    canvas.paint(&mut page);
    let encoded = page.pixmap.encode_png();
    encoded.map_err(|error| failed(error.to_string()))
}

/// The image being drawn.
struct Page<'a> {
    pixmap: Pixmap,
    /// The conversion of canvas pixels to image pixels.
    transform: Transform,
    face: Face<'a>,
}

impl Page<'_> {
    /// Draws a path. A path without points (`None`) changes nothing.
    fn stroke(&mut self, path: Option<Path>, stroke: &Stroke) {
        let Some(path) = path else { return };
        let dash = stroke.dash.iter().map(|length| *length as f32).collect();
        let look = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_join: LineJoin::Round,
            // `None` for a solid line.
            dash: StrokeDash::new(dash, 0.0),
            ..tiny_skia::Stroke::default()
        };
        let paint = paint(stroke.colour);
        let to = self.transform;
        self.pixmap.stroke_path(&path, &paint, &look, to, None);
    }

    fn fill(&mut self, path: Option<Path>, colour: Colour, to: Transform) {
        let Some(path) = path else { return };
        let paint = paint(colour);
        self.pixmap
            .fill_path(&path, &paint, FillRule::Winding, to, None);
    }
}

impl Painter for Page<'_> {
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
        self.fill(path.finish(), fill, self.transform);
    }

    fn disc(&mut self, centre: Point, radius: f64, fill: Colour) {
        self.fill(circle(centre, radius), fill, self.transform);
    }

    fn circle(&mut self, centre: Point, radius: f64, stroke: &Stroke) {
        self.stroke(circle(centre, radius), stroke);
    }

    fn text(&mut self, at: Point, text: &str, size: u32, anchor: Anchor, colour: Colour) {
        let mut glyphs = Glyphs {
            path: PathBuilder::new(),
            x: 0.0,
        };
        for character in text.chars() {
            // Glyph 0 is the box that represents an unknown character.
            let glyph = self.face.glyph_index(character).unwrap_or_default();
            self.face.outline_glyph(glyph, &mut glyphs);
            glyphs.x += f32::from(self.face.glyph_hor_advance(glyph).unwrap_or_default());
        }
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => glyphs.x / 2.0,
            Anchor::End => glyphs.x,
        };
        let unit = size as f32 / f32::from(self.face.units_per_em());
        let to = self
            .transform
            .pre_translate(at.0 as f32, at.1 as f32)
            // The vertical axis of the font points upwards.
            .pre_scale(unit, -unit)
            .pre_translate(-start, 0.0);
        self.fill(glyphs.path.finish(), colour, to);
    }
}

fn circle((x, y): Point, radius: f64) -> Option<Path> {
    PathBuilder::from_circle(x as f32, y as f32, radius as f32)
}

fn paint(Colour(red, green, blue): Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, u8::MAX);
    paint
}

fn push(path: &mut PathBuilder, points: &[Point]) {
    for (index, (x, y)) in points.iter().enumerate() {
        match index {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
}

/// Outlines of consecutive glyphs, in font units.
struct Glyphs {
    path: PathBuilder,
    x: f32,
}

impl OutlineBuilder for Glyphs {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.x + x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.x + x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.path.quad_to(self.x + x1, y1, self.x + x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.path
            .cubic_to(self.x + x1, y1, self.x + x2, y2, self.x + x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lowest red value in a rectangle of the image.
    fn darkest(png: &[u8], x: std::ops::Range<u32>, y: std::ops::Range<u32>) -> u8 {
        let picture = Pixmap::decode_png(png).unwrap();
        let pixels = y.flat_map(|y| x.clone().map(move |x| (x, y)));
        let red = pixels.map(|(x, y)| picture.pixel(x, y).unwrap().red());
        red.min().unwrap()
    }

    fn canvas() -> Canvas {
        Canvas {
            width: 100,
            height: 40,
            title: String::new(),
            shapes: Vec::new(),
        }
    }

    #[test]
    fn text_stands_where_it_is_anchored() {
        for (anchor, inked, blank) in [
            (Anchor::Start, 50..90, 0..49),
            (Anchor::End, 10..50, 51..100),
        ] {
            let mut canvas = canvas();
            canvas.text((50.0, 30.0), "HHHH", 12, anchor, Colour::BLACK);
            let png = write(&canvas, 1.0).unwrap();
            assert!(darkest(&png, inked, 21..30) < 80, "{anchor:?}");
            assert_eq!(darkest(&png, blank, 0..40), 255, "{anchor:?}");
        }
    }

    #[test]
    fn missing_glyph_is_a_box() {
        let mut canvas = canvas();
        canvas.text((10.0, 30.0), "\u{4e00}", 20, Anchor::Start, Colour::BLACK);
        let png = write(&canvas, 1.0).unwrap();
        assert!(darkest(&png, 10..30, 10..35) < 80);
    }

    #[test]
    fn a_scale_makes_the_picture_larger() {
        let mut canvas = canvas();
        let line = Stroke::solid(Colour::BLACK, 4.0);
        canvas.line((0.0, 20.0), (100.0, 20.0), line);
        let png = write(&canvas, 2.0).unwrap();
        let picture = Pixmap::decode_png(&png).unwrap();
        assert_eq!((picture.width(), picture.height()), (200, 80));
        assert_eq!(darkest(&png, 0..200, 37..43), 0);
        assert_eq!(darkest(&png, 0..200, 0..35), 255);
    }
}
