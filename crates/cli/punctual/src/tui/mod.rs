//! The interactive views: of a run, with a live histogram and the outliers with their causes as they
//! occur; of a watch; and the first screen.
//!
//! Its own thread draws the latest state and reads the keys. The run only replaces
//! that state, so a slow or lost terminal never delays it.

mod draw;
mod home;
#[cfg(test)]
mod home_tests;
mod key;
mod pages;
mod ranges;
mod screen;
mod scrolled;
mod state;
#[cfg(test)]
mod tests;
mod timeline;
mod trial;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_model::{Histogram, Outlier, Recording};
use punctual_session::{Snapshot, Watcher};
use punctual_store::Store;

use crate::exit::UsageError;
use crate::output;
use home::HomeState;
pub(crate) use home::{Checked, Chosen, Home, Listed};
use key::Key;
use pages::Pages;
use ratatui::Frame;
use screen::Shown;
use scrolled::Text;
use state::{Figures, State};
pub(crate) use trial::Trial;

/// How long the end of a run waits for the terminal.
const PATIENCE: Duration = Duration::from_secs(1);

/// Checks that there is a terminal for the view.
///
/// # Errors
/// Returns an error if there is no terminal to draw on, or none that can move its cursor.
pub(crate) fn need_terminal() -> Result<()> {
    let lacks = |what: &str| UsageError(format!("--tui needs a terminal: {what}"));
    if !std::io::stderr().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(lacks("stdin or stderr is none; without --tui, the run needs none").into());
    }
    if output::is_dumb() {
        return Err(lacks("TERM=dumb cannot move its cursor").into());
    }
    Ok(())
}

/// Shows the first screen until the user has chosen something.
///
/// # Errors
/// Returns the errors of the terminal.
pub(crate) fn home(home: Home<'_>) -> Result<Chosen> {
    let mut state = HomeState::new(home);
    screen::show(&mut state).context("the terminal failed")?;
    Ok(state.chosen.unwrap_or(Chosen::End))
}

/// Returns the interactive view. `stop` is set when the user ends the run. `trial`: how the remedy of
/// an outlier can be tried. `store`: the store of the run, which has the events of outliers.
pub(crate) fn view(
    stop: &Arc<AtomicBool>,
    trial: Option<Trial>,
    store: Option<&Store>,
) -> Box<dyn Watcher> {
    Box::new(View {
        figures: Arc::default(),
        trial,
        store: store.map(|store| store.path().to_owned()),
        stop: Arc::clone(stop),
        drawn: None,
    })
}

/// How a view and its run end each other.
struct Stop {
    /// Ends the run.
    run: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    /// Dropped at the end.
    _ended: Sender<()>,
}

impl Stop {
    fn ask(&self) {
        self.run.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// The thread that draws.
struct Drawn {
    is_over: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl Drawn {
    /// Starts the thread. Without it, a run has no view, but its result is the same.
    fn begin<S: Shown>(
        stop: &Arc<AtomicBool>,
        shown: impl FnOnce(Stop) -> S + Send + 'static,
    ) -> Option<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, ended) = channel();
        let stop = Stop {
            run: Arc::clone(stop),
            is_over: Arc::clone(&is_over),
            _ended: sender,
        };
        let spawned = thread::Builder::new().name("view".to_owned());
        // A terminal that is lost ends the view, not the run.
        let draw = move || screen::show(&mut shown(stop));
        spawned.spawn(draw).ok().map(|_| Self { is_over, ended })
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The sender is dropped when the terminal is restored.
        let _ = self.ended.recv_timeout(PATIENCE);
        screen::restore();
    }
}

struct View {
    figures: Arc<Mutex<Figures>>,
    trial: Option<Trial>,
    store: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    drawn: Option<Drawn>,
}

impl View {
    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Watcher for View {
    fn begin(&mut self, recording: &Recording) {
        self.change(|figures| *figures = Figures::new(recording));
        if self.drawn.is_none() {
            let figures = Arc::clone(&self.figures);
            let store = self.store.clone();
            let timelines = store.map(|store| timeline::stored(store, recording));
            let state = State::new(self.trial.clone(), timelines);
            self.drawn = Drawn::begin(&self.stop, |stop| Live {
                figures,
                state,
                stop,
            });
        }
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        self.change(|figures| figures.snapshot = Some(snapshot.clone()));
    }

    fn wants_details(&self) -> bool {
        true
    }

    fn latencies(&mut self, all: &Histogram) {
        self.change(|figures| figures.latencies = all.clone());
    }

    fn outliers(&mut self, new: &[Outlier]) {
        self.change(|figures| figures.add(new));
    }

    fn end(&mut self) {
        if let Some(drawn) = self.drawn.take() {
            drawn.end();
        }
    }
}

/// The view of a run, in the thread that draws.
struct Live {
    figures: Arc<Mutex<Figures>>,
    state: State,
    stop: Stop,
}

impl Shown for Live {
    fn refresh(&mut self) {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.take(figures.clone());
    }

    fn draw(&mut self, frame: &mut Frame<'_>, look: draw::Look) {
        draw::draw(frame, &mut self.state, look);
    }

    fn press(&mut self, key: Key) {
        self.state.press(key);
        if self.state.wants_stop {
            self.stop.ask();
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_over()
    }
}

/// The interactive view of a watch. Ends when it is dropped.
pub(crate) struct WatchView {
    latest: Arc<Mutex<String>>,
    drawn: Option<Drawn>,
}

impl WatchView {
    /// Begins the view. `stop` is set when the user ends the watch.
    pub(crate) fn begin(stop: &Arc<AtomicBool>) -> Self {
        let latest = Arc::new(Mutex::new("counting ...".to_owned()));
        let shown = Arc::clone(&latest);
        let drawn = Drawn::begin(stop, |stop| Pages {
            latest: shown,
            text: Text::default(),
            is_paused: false,
            stop,
        });
        Self { latest, drawn }
    }

    /// Replaces the text.
    pub(crate) fn set(&self, text: String) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for WatchView {
    fn drop(&mut self) {
        if let Some(drawn) = self.drawn.take() {
            drawn.end();
        }
    }
}
