//! A certificate as one A4 page.

use super::Plot;
use super::PlotOptions;
use super::canvas::{Anchor, Canvas, Colour, Stroke, fit, text_width};
use crate::ReportError;
use crate::certificate::Content;
use crate::document::{Field, Tone};
use crate::sanitize::sanitize;

/// A4 in pixels of 1/96 inch.
const PAGE: (u32, u32) = (794, 1123);
const MARGIN: f64 = 56.0;
/// Where the values of the fields begin.
const VALUES: f64 = MARGIN + 130.0;
/// Size of the text and height of its lines, in pixels.
const TEXT: u32 = 11;
const LINE: f64 = 14.0;
/// Heights of the plot, in pixels. Within them, the plot takes the free space of the page.
const PLOT: (f64, f64) = (240.0, 380.0);
/// Largest number of lines of a text, tried in this order until the page is full enough.
const LINES: [usize; 4] = [6, 3, 2, 1];
/// Space above a heading, in pixels.
const GAP: f64 = 8.0;

/// Draws the page. `draw` draws the plot at a given size.
///
/// # Errors
/// Returns the error of `draw`.
pub(crate) fn draw(
    content: &Content,
    draw: impl Fn(&PlotOptions) -> Result<Option<Plot>, ReportError>,
) -> Result<Plot, ReportError> {
    let bottom = f64::from(PAGE.1) - MARGIN;
    let mut page = Page::new(content, LINES[0]);
    for most in LINES {
        page = Page::new(content, most);
        if page.y + PLOT.0 <= bottom {
            break;
        }
    }
    let free = bottom - page.y;
    // With absurdly many fields, the page has no room for a plot.
    if free >= PLOT.0 {
        let options = PlotOptions {
            width: (f64::from(PAGE.0) - 2.0 * MARGIN) as u32,
            height: free.min(PLOT.1) as u32,
            ..PlotOptions::default()
        };
        if let Some(plot) = draw(&options)? {
            page.canvas.place((MARGIN, page.y + GAP), plot.canvas);
        }
    }
    page.canvas.text(
        (MARGIN, f64::from(PAGE.1) - MARGIN / 2.0),
        &format!(
            "punctual {}. Times are UTC. … marks a shortened text.",
            env!("CARGO_PKG_VERSION")
        ),
        TEXT - 2,
        Anchor::Start,
        Colour::GREY,
    );
    Ok(Plot {
        canvas: page.canvas,
    })
}

/// The page being filled from above.
struct Page {
    canvas: Canvas,
    /// The end of the used part.
    y: f64,
    /// Largest number of lines of a text.
    most: usize,
}

impl Page {
    /// Returns the page with all texts, each with at most `most` lines.
    fn new(content: &Content, most: usize) -> Self {
        let mut page = Self {
            canvas: Canvas {
                width: PAGE.0,
                height: PAGE.1,
                title: content.title.clone(),
                shapes: Vec::new(),
            },
            y: MARGIN,
            most,
        };
        page.y += 8.0;
        page.text(&content.title, 18, Colour::BLACK, MARGIN, 2);
        page.y += GAP;
        let answer = &content.answer;
        let badge = format!("{} {}", answer.sign, answer.word);
        page.text(badge.trim(), 15, colour(answer.tone), MARGIN, 1);
        page.text(&answer.text, TEXT + 1, Colour::BLACK, MARGIN, 4);
        if let Some(confidence) = &content.confidence {
            page.text(&format!("{confidence}."), TEXT, Colour::GREY, MARGIN, 4);
        }
        for warning in &content.warnings {
            let text = format!("! {warning}");
            page.text(&text, TEXT, colour(Tone::Warning), MARGIN, most.max(2));
        }
        for (heading, fields) in &content.groups {
            page.heading(heading);
            fields.iter().for_each(|field| page.field(field));
        }
        page
    }

    fn heading(&mut self, heading: &str) {
        self.y += GAP;
        self.text(heading, TEXT + 2, Colour::BLACK, MARGIN, 1);
        let y = self.y - LINE + 4.0;
        let end = f64::from(PAGE.0) - MARGIN;
        let line = Stroke::solid(Colour::GRID, 1.0);
        self.canvas.line((MARGIN, y), (end, y), line);
        self.y += 3.0;
    }

    fn field(&mut self, field: &Field) {
        let name = fit(&sanitize(&field.name), TEXT, VALUES - MARGIN - 8.0);
        let at = (MARGIN, self.y);
        self.canvas
            .text(at, &name, TEXT, Anchor::Start, Colour::GREY);
        self.text(&field.text, TEXT, colour(field.tone), VALUES, self.most);
    }

    /// Adds a text that begins at `x` and has at most `most` lines.
    fn text(&mut self, text: &str, size: u32, colour: Colour, x: f64, most: usize) {
        let room = f64::from(PAGE.0) - MARGIN - x;
        for line in lines(&sanitize(text), size, room, most) {
            self.canvas
                .text((x, self.y), &line, size, Anchor::Start, colour);
            self.y += LINE.max(f64::from(size) * 1.3);
        }
    }
}

/// Breaks a text into at most `most` lines of the width `room`. The last line is shortened.
fn lines(text: &str, size: u32, room: f64, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while lines.len() + 1 < most && text_width(rest, size) > room {
        let fitting = fitting(rest, size, room);
        // A word that is longer than a line is broken.
        let cut = match rest[..fitting].rfind(' ') {
            Some(space) if !rest[fitting..].starts_with(' ') => space,
            _ => fitting,
        };
        lines.push(rest[..cut].trim_end().to_owned());
        rest = rest[cut..].trim_start();
    }
    lines.push(fit(rest, size, room));
    lines
}

/// Returns the length in bytes of the longest start of `text` that fits into `room`, at least one
/// character.
fn fitting(text: &str, size: u32, room: f64) -> usize {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let mut fits = 0;
    for end in ends {
        if fits > 0 && text_width(&text[..end], size) > room {
            break;
        }
        fits = end;
    }
    fits
}

fn colour(tone: Tone) -> Colour {
    match tone {
        Tone::Plain | Tone::Heading => Colour::BLACK,
        Tone::Faint => Colour::GREY,
        Tone::Good => Colour(0x1a, 0x6b, 0x2d),
        Tone::Warning => Colour(0x8a, 0x55, 0x00),
        Tone::Bad => Colour(0xa8, 0x1c, 0x1c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_contain_all_words(text in "[a-zé 漢]{0,300}", room in 20.0..400.0) {
            let all = lines(&text, TEXT, room, usize::MAX);
            let words = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(words(&all.concat()), words(&text));
            for line in &all {
                prop_assert!(line.chars().count() <= 1 || text_width(line, TEXT) <= room, "{}", line);
            }
            let few = lines(&text, TEXT, room, 2);
            prop_assert!(few.len() <= 2);
            prop_assert_eq!(few.concat().contains('…'), all.len() > 2);
        }
    }
}
