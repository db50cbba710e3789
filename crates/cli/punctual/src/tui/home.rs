//! The first screen: what costs latency on this machine, the newest recordings, and what to do next.

use std::sync::mpsc::{Receiver, TryRecvError};

use punctual_model::{RecordingId, sanitize};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;

use super::draw::{self, Look};
use super::key::Key;
use super::screen::Shown;
use super::scrolled::Text;
use crate::live;

const HELP: &str = "\
q          end
m          measure the wake-up latency of all CPUs, until q
d          show the whole audit of this machine
up, down   select a recording (also k, j, page up, page down, home)
enter      show all figures of the recording
esc        back to this screen

The same as commands:
punctual measure timer --tui
punctual doctor
punctual list
punctual show ID
punctual --help";

/// The audit of this machine.
pub(crate) struct Checked {
    /// The number of problems, and the worst ones, each in one line.
    pub(crate) brief: Vec<String>,
    /// The whole audit.
    pub(crate) text: String,
}

/// A recording in the list.
pub(crate) struct Listed {
    pub(crate) id: RecordingId,
    /// When, what, and the largest latency.
    pub(crate) line: String,
}

/// The first screen.
pub(crate) struct Home<'a> {
    /// The machine and the program.
    pub(crate) title: String,
    /// Receives the audit.
    pub(crate) audit: Receiver<Checked>,
    /// The newest recordings, or the reason why there are none.
    pub(crate) recordings: Result<Vec<Listed>, String>,
    /// Returns all figures of a recording.
    pub(crate) figures: &'a dyn Fn(RecordingId) -> String,
}

/// Choice of the user on the first screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    End,
    Measure,
}

pub(super) struct HomeState<'a> {
    home: Home<'a>,
    checked: Option<Checked>,
    why_not_checked: &'static str,
    selected: usize,
    /// A text that fills the screen.
    page: Option<Text>,
    pub(super) chosen: Option<Chosen>,
}

impl<'a> HomeState<'a> {
    pub(super) const fn new(home: Home<'a>) -> Self {
        Self {
            home,
            checked: None,
            why_not_checked: "checking the settings of this machine ...",
            selected: 0,
            page: None,
            chosen: None,
        }
    }

    fn listed(&self) -> &[Listed] {
        self.home.recordings.as_deref().unwrap_or_default()
    }

    fn lines(&self, look: Look, width: usize, height: usize) -> Vec<Line<'static>> {
        let line = |text: &str| Line::raw(live::shortened(&sanitize(text), width));
        let heading = |text: &str| Line::styled(live::shortened(text, width), look.title());
        let mut lines = vec![heading(&sanitize(&self.home.title)), Line::default()];
        lines.push(heading("settings that cost latency here"));
        match &self.checked {
            Some(checked) => {
                let most = (height / 3).max(1);
                lines.extend(checked.brief.iter().take(most).map(|text| line(text)));
            }
            None => lines.push(line(self.why_not_checked)),
        }
        lines.extend([Line::default(), heading("recordings, newest first")]);
        match &self.home.recordings {
            Err(why) => lines.push(line(why)),
            Ok(all) => {
                let rows = height.saturating_sub(lines.len()).max(1);
                // The selected row stays in view.
                let first = self.selected.saturating_sub(rows.saturating_sub(1));
                for (at, one) in all.iter().enumerate().skip(first).take(rows) {
                    let mut row = line(&one.line);
                    if at == self.selected {
                        row = row.style(draw::SELECTED);
                    }
                    lines.push(row);
                }
            }
        }
        lines
    }
}

impl Shown for HomeState<'_> {
    fn refresh(&mut self) {
        match self.home.audit.try_recv() {
            Ok(checked) => self.checked = Some(checked),
            Err(TryRecvError::Disconnected) => {
                self.why_not_checked = "the audit failed: see punctual doctor";
            }
            Err(TryRecvError::Empty) => {}
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, look: Look) {
        let parts = [Constraint::Min(0), Constraint::Length(1)];
        let [body, foot] = Layout::vertical(parts).areas(frame.area());
        let (width, height) = (body.width.into(), body.height.into());
        let lines = match &mut self.page {
            Some(page) => page.shown(width, height),
            None => self.lines(look, width, height),
        };
        draw::put(frame, body, lines);
        let keys = match self.page {
            Some(_) => "q end  esc back  up, down scroll",
            None => "q end  m measure  d audit  enter recording  ? help",
        };
        draw::put(frame, foot, vec![Line::styled(keys, draw::SELECTED)]);
    }

    fn press(&mut self, key: Key) {
        match (key, &mut self.page) {
            (Key::Stop, _) => self.chosen = Some(Chosen::End),
            (Key::Back | Key::Help, page @ Some(_)) => *page = None,
            (key, Some(page)) => page.press(key),
            (Key::Measure, None) => self.chosen = Some(Chosen::Measure),
            (Key::Help, None) => self.page = Some(Text::new(HELP)),
            (Key::Audit, None) => {
                self.page = self.checked.as_ref().map(|all| Text::new(&all.text));
            }
            (Key::Open, None) => {
                let chosen = self.listed().get(self.selected).map(|one| one.id);
                self.page = chosen.map(|id| Text::new(&(self.home.figures)(id)));
            }
            (key, None) => {
                let last = self.listed().len().saturating_sub(1);
                self.selected = match key {
                    Key::Up => self.selected.saturating_sub(1),
                    Key::Down => self.selected + 1,
                    Key::PageUp => self.selected.saturating_sub(10),
                    Key::PageDown => self.selected + 10,
                    Key::First => 0,
                    _ => self.selected,
                }
                .min(last);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.chosen.is_some()
    }
}
