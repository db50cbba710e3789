//! A certificate as one A4 page.

use super::Plot;
use super::PlotOptions;
use super::canvas::{Anchor, Canvas, Colour, Stroke, fit, text_width};
use crate::ReportError;
use crate::sanitize::sanitize;

/// A4 in pixels of 1/96 inch.
const PAGE: (u32, u32) = (794, 1123);
const MARGIN: f64 = 56.0;
/// Horizontal position of the values.
const VALUES: f64 = MARGIN + 146.0;
/// Size of the text and height of its lines, in pixels.
const TEXT: u32 = 11;
const LINE: f64 = 14.0;
/// Heights of the plot, in pixels. Within them, the plot takes the free space of the page.
const PLOT: (f64, f64) = (250.0, 380.0);
/// Left edge of the right column, which is used if two short rows share a line.
const MIDDLE: f64 = PAGE.0 as f64 / 2.0;
/// Largest number of lines of a text, tried in this order until the page is full enough.
const LINES: [usize; 4] = [6, 3, 2, 1];
/// Largest number of lines of the answer.
const ANSWER: usize = 7;
/// Space above a heading, in pixels.
const GAP: f64 = 8.0;

/// The texts of the page.
pub(crate) struct Texts {
    pub(crate) title: String,
    /// The answer in one word, with its sign.
    pub(crate) badge: (Ink, String),
    pub(crate) answer: String,
    /// A less important remark about the answer.
    pub(crate) remark: Option<String>,
    pub(crate) warnings: Vec<String>,
    /// Headings with the rows below them.
    pub(crate) groups: Vec<(&'static str, Vec<TextRow>)>,
}

/// A name and its value.
pub(crate) struct TextRow {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) ink: Ink,
    /// Number of lines that the value may have even if the page is full.
    pub(crate) least: usize,
}

/// The meaning of a text, shown by its colour.
#[derive(Clone, Copy)]
pub(crate) enum Ink {
    Plain,
    Faint,
    Good,
    Warning,
    Bad,
}

impl Ink {
    const fn colour(self) -> Colour {
        match self {
            Self::Plain => Colour::BLACK,
            Self::Faint => Colour::GREY,
            Self::Good => Colour(0x1a, 0x6b, 0x2d),
            Self::Warning => Colour(0x8a, 0x55, 0x00),
            Self::Bad => Colour(0xa8, 0x1c, 0x1c),
        }
    }
}

/// Draws the page. `draw` draws the plot at a given size.
///
/// # Errors
/// Returns the error of `draw`.
pub(crate) fn draw(
    texts: &Texts,
    draw: impl Fn(&PlotOptions) -> Result<Option<Plot>, ReportError>,
) -> Result<Plot, ReportError> {
    let bottom = f64::from(PAGE.1) - MARGIN;
    let mut page = Page::new(texts, LINES[0]);
    for most in LINES {
        page = Page::new(texts, most);
        if page.y + PLOT.0 <= bottom {
            break;
        }
    }
    let free = bottom - page.y;
    let mut footer = format!(
        "punctual {}. Times are UTC. … marks a shortened text.",
        env!("CARGO_PKG_VERSION")
    );
    if free < PLOT.0 {
        footer.push_str(" The histogram has no room: see the full report.");
    } else {
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
        &footer,
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
    fn new(texts: &Texts, most: usize) -> Self {
        let mut page = Self {
            canvas: Canvas {
                width: PAGE.0,
                height: PAGE.1,
                title: texts.title.clone(),
                shapes: Vec::new(),
            },
            y: MARGIN,
            most,
        };
        page.y += 8.0;
        page.text(&texts.title, 18, Ink::Plain, MARGIN, 2);
        page.y += GAP;
        let (ink, badge) = &texts.badge;
        page.text(badge, 15, *ink, MARGIN, 1);
        page.text(&texts.answer, TEXT + 1, Ink::Plain, MARGIN, ANSWER);
        if let Some(remark) = &texts.remark {
            page.text(remark, TEXT, Ink::Faint, MARGIN, 4);
        }
        for warning in &texts.warnings {
            let text = format!("! {warning}");
            page.text(&text, TEXT, Ink::Warning, MARGIN, most.max(2));
        }
        for (heading, rows) in &texts.groups {
            page.heading(heading);
            page.rows(rows);
        }
        page
    }

    fn heading(&mut self, heading: &str) {
        self.y += GAP;
        self.text(heading, TEXT + 2, Ink::Plain, MARGIN, 1);
        let y = self.y - LINE + 4.0;
        let end = f64::from(PAGE.0) - MARGIN;
        let line = Stroke::solid(Colour::GRID, 1.0);
        self.canvas.line((MARGIN, y), (end, y), line);
        self.y += 3.0;
    }

    fn rows(&mut self, mut rows: &[TextRow]) {
        let is_short = |row: &TextRow| {
            let room = MIDDLE - VALUES - GAP;
            row.text.len() < 100 && text_width(&sanitize(&row.text), TEXT) <= room
        };
        while let Some((row, rest)) = rows.split_first() {
            rows = rest;
            let y = self.y;
            self.row(row, 0.0);
            if let Some((next, rest)) = rows.split_first()
                && is_short(row)
                && is_short(next)
            {
                self.y = y;
                self.row(next, MIDDLE - MARGIN);
                rows = rest;
            }
        }
    }

    /// Adds a row, moved to the right by `indent`.
    fn row(&mut self, row: &TextRow, indent: f64) {
        let name = fit(&sanitize(&row.name), TEXT, VALUES - MARGIN - GAP);
        let at = (MARGIN + indent, self.y);
        self.canvas
            .text(at, &name, TEXT, Anchor::Start, Colour::GREY);
        let x = VALUES + indent;
        self.text(&row.text, TEXT, row.ink, x, self.most.max(row.least));
    }

    /// Adds a text that begins at `x` and has at most `most` lines.
    fn text(&mut self, text: &str, size: u32, ink: Ink, x: f64, most: usize) {
        let room = f64::from(PAGE.0) - MARGIN - x;
        for line in lines(&sanitize(text), size, room, most) {
            self.canvas
                .text((x, self.y), &line, size, Anchor::Start, ink.colour());
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
