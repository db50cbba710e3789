//! A text that may be longer than the screen.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_model::{counted, sanitize};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;

use super::draw::{self, Look};
use super::screen::Shown;
use super::state::Key;
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

/// The view of a watch: its latest text.
pub(super) struct Pages {
    pub(super) latest: Arc<Mutex<String>>,
    pub(super) text: Text,
    pub(super) is_paused: bool,
    pub(super) stop: super::Stop,
}

impl Shown for Pages {
    fn refresh(&mut self) {
        if !self.is_paused {
            let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            self.text.set(&latest);
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, look: Look) {
        let parts = [Constraint::Min(0), Constraint::Length(1)];
        let [body, foot] = Layout::vertical(parts).areas(frame.area());
        let lines = self.text.shown(body.width.into(), body.height.into());
        draw::put(frame, body, lines);
        let keys = if self.is_paused {
            Line::styled("PAUSED  q end  p continue  up, down scroll", look.bad())
        } else {
            Line::styled("q end  p pause  up, down scroll", draw::SELECTED)
        };
        draw::put(frame, foot, vec![keys]);
    }

    fn press(&mut self, key: Key) {
        match key {
            Key::Stop => self.stop.ask(),
            Key::Pause => self.is_paused = !self.is_paused,
            key => self.text.press(key),
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_over()
    }
}
