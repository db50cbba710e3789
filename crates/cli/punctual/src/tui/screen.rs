//! The terminal: its modes, its keys, and when it is drawn.

use std::io::{self, Stderr, stderr};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use super::draw::Look;
use super::key::Key;
use crate::output;

/// Time between two drawings without keys.
const TURN: Duration = Duration::from_millis(200);
/// Time between two looks at the end of the run.
const LOOK: Duration = Duration::from_millis(50);

/// The terminal in the mode of a view, until this value is dropped.
struct Mode;

impl Mode {
    fn begin() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on, the mode is restored if something fails.
        let mode = Self;
        execute!(stderr(), EnterAlternateScreen, Hide)?;
        Ok(mode)
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        // A terminal that is lost needs no mode.
        let _ = execute!(stderr(), Show, LeaveAlternateScreen);
        restore();
    }
}

/// Restores the line discipline of the terminal. Does not wait for its output.
pub(super) fn restore() {
    let _ = disable_raw_mode();
}

/// Content of a screen.
pub(super) trait Shown {
    /// Takes the latest data.
    fn refresh(&mut self);
    fn draw(&mut self, frame: &mut Frame<'_>, look: Look);
    fn press(&mut self, key: Key);
    /// Returns whether the screen ends.
    fn is_over(&self) -> bool;
}

/// Shows this until it is over.
///
/// # Errors
/// Returns the errors of the terminal.
pub(super) fn show(shown: &mut dyn Shown) -> io::Result<()> {
    let _mode = Mode::begin()?;
    let mut terminal: Terminal<CrosstermBackend<Stderr>> =
        Terminal::new(CrosstermBackend::new(stderr()))?;
    let look = Look {
        has_colours: output::wants_colours(&stderr()),
    };
    while !shown.is_over() {
        shown.refresh();
        terminal.draw(|frame| shown.draw(frame, look))?;
        let mut waited = Duration::ZERO;
        while waited < TURN && !shown.is_over() {
            if !event::poll(LOOK)? {
                waited += LOOK;
                continue;
            }
            match event::read()? {
                Event::Key(pressed) => {
                    if let Some(key) = key_of(pressed) {
                        shown.press(key);
                    }
                    break;
                }
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
    Ok(())
}

fn key_of(pressed: KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    Some(match pressed.code {
        KeyCode::Char('c') if is_control => Key::Stop,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char('q') => Key::Stop,
        KeyCode::Char('p' | ' ') => Key::Pause,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Char('f') => Key::Filter,
        KeyCode::Char('t') => Key::Try,
        KeyCode::Char('y') => Key::Yes,
        KeyCode::Char('m') => Key::Measure,
        KeyCode::Char('d') => Key::Audit,
        KeyCode::Char('?' | 'h') => Key::Help,
        KeyCode::Char('j') | KeyCode::Down => Key::Down,
        KeyCode::Char('k') | KeyCode::Up => Key::Up,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::Home | KeyCode::Char('g') => Key::First,
        KeyCode::Enter | KeyCode::Right => Key::Open,
        KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => Key::Back,
        _ => return None,
    })
}
