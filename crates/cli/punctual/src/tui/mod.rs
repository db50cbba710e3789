//! The interactive view of a run: a live histogram, and the outliers with their causes as they occur.
//!
//! Its own thread draws the latest state and reads the keys. The run only replaces
//! that state, so a slow or lost terminal never delays it.

mod draw;
mod ranges;
mod screen;
mod state;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use punctual_model::{Histogram, Outlier, Recording};
use punctual_session::{Snapshot, Watcher};

use crate::exit::UsageError;
use crate::output;
use state::Figures;

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

/// Returns the interactive view. `stop` is set when the user ends the run.
pub(crate) fn view(stop: &Arc<AtomicBool>) -> Box<dyn Watcher> {
    Box::new(View {
        figures: Arc::default(),
        stop: Arc::clone(stop),
        drawn: None,
    })
}

/// The end of the run for the thread that draws.
struct Drawn {
    is_over: Arc<AtomicBool>,
    ended: Receiver<()>,
}

struct View {
    figures: Arc<Mutex<Figures>>,
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
        if self.drawn.is_some() {
            return;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, ended) = channel();
        let thread = Screen {
            figures: Arc::clone(&self.figures),
            stop: Arc::clone(&self.stop),
            is_over: Arc::clone(&is_over),
            _ended: sender,
        };
        // Without this thread, the run has no view, but its result is the same.
        let spawned = thread::Builder::new().name("view".to_owned());
        if spawned.spawn(move || thread.run()).is_ok() {
            self.drawn = Some(Drawn { is_over, ended });
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
        if let Some(Drawn { is_over, ended }) = self.drawn.take() {
            is_over.store(true, Ordering::Relaxed);
            // The sender is dropped when the terminal is restored.
            let _ = ended.recv_timeout(PATIENCE);
            screen::restore();
        }
    }
}

/// The thread that draws.
struct Screen {
    figures: Arc<Mutex<Figures>>,
    stop: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    /// Dropped at the end.
    _ended: Sender<()>,
}

impl Screen {
    /// Draws until the run is over, or until the terminal is lost.
    fn run(self) {
        let latest = || {
            let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
            figures.clone()
        };
        let is_over = || self.is_over.load(Ordering::Relaxed);
        let ask_to_stop = || self.stop.store(true, Ordering::Relaxed);
        // A terminal that is lost ends the view, not the run.
        let _ = screen::show(&latest, &is_over, &ask_to_stop);
    }
}
