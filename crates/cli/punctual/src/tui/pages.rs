//! The view of a watch.

use std::sync::{Arc, Mutex, PoisonError};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;

use super::draw::{self, Look};
use super::key::Key;
use super::screen::Shown;
use super::scrolled::Text;

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
