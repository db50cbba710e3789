//! A text that may be longer than the screen.

use punctual_model::{counted, sanitize};
use ratatui::text::Line;

use super::key::Key;
use crate::live;

/// Number of lines that a page key moves.
const PAGE: usize = 10;

/// A text, and the part of it that is shown.
#[derive(Default)]
pub(super) struct Text {
    lines: Vec<String>,
    first: usize,
}

impl Text {
    pub(super) fn new(text: &str) -> Self {
        let mut page = Self::default();
        page.set(text);
        page
    }

    /// Replaces the text, and keeps the position.
    pub(super) fn set(&mut self, text: &str) {
        self.lines = (text.lines())
            .map(|line| sanitize(line).into_owned())
            .collect();
    }

    /// Scrolls, if this is a key for it.
    pub(super) fn press(&mut self, key: Key) {
        self.first = match key {
            Key::Up => self.first.saturating_sub(1),
            Key::Down => self.first.saturating_add(1),
            Key::PageUp => self.first.saturating_sub(PAGE),
            Key::PageDown => self.first.saturating_add(PAGE),
            Key::First => 0,
            _ => self.first,
        };
    }

    /// Returns the lines that fit. If some do not, the last one counts those below.
    pub(super) fn shown(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        let all = self.lines.len();
        self.first = self.first.min(all.saturating_sub(height));
        let below = all.saturating_sub(self.first + height);
        let room = if below > 0 {
            height.saturating_sub(1)
        } else {
            height
        };
        let lines = self.lines.iter().skip(self.first).take(room);
        let mut lines: Vec<Line<'static>> = lines
            .map(|line| Line::raw(live::shortened(line, width)))
            .collect();
        if below > 0 {
            let more = counted(below as u64 + 1, "more line", "more lines");
            lines.push(Line::raw(live::shortened(&format!("{more} below"), width)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_scrolls_to_its_last_line() {
        let mut text = Text::new("1\n2\n3\n4\n5");
        let shown = |text: &mut Text| {
            let lines = text.shown(80, 3);
            lines
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(shown(&mut text), "1,2,3 more lines below");
        for _ in 0..9 {
            text.press(Key::Down);
        }
        assert_eq!(shown(&mut text), "3,4,5");
        text.set("1\n2");
        assert_eq!(shown(&mut text), "1,2");
        text.press(Key::First);
        assert_eq!(text.shown(80, 0).len(), 1);
    }
}
