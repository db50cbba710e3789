//! The view that is redrawn during a watch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_report::document::Document;
use punctual_report::text::{self, TextStyle};

use crate::context::Context;
use crate::tui::WatchView;
use crate::{live, output};

/// Maximum number of rows of the interactive view, which scrolls.
const ROWS: usize = 1_000;

/// The text that is also printed at the end. On a terminal, it is redrawn during the watch.
pub(super) enum View {
    None,
    Lines(ProgressBar),
    Interactive(WatchView),
}

impl View {
    /// Begins the view. `stop` is set when the user ends an interactive view.
    pub(super) fn new(quiet: bool, interactive: bool, stop: &Arc<AtomicBool>) -> Self {
        if interactive {
            return Self::Interactive(WatchView::begin(stop));
        }
        if !live::is_shown(quiet) {
            return Self::None;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self::Lines(bar)
    }

    /// Draws the document that `of` returns for a maximum number of rows. `others` is the number of
    /// its other lines.
    pub(super) fn draw(
        &self,
        others: usize,
        context: &Context,
        of: impl FnOnce(usize) -> Document,
    ) {
        // The view is drawn on stderr, so its width does not depend on stdout.
        let style = TextStyle {
            width: live::terminal_width(),
            ..context.style()
        };
        match self {
            Self::None => {}
            Self::Lines(bar) => {
                let height = live::terminal_height();
                // If there were too many lines, they would scroll each time the view is drawn.
                let rows = height.saturating_sub(others).max(1);
                let text = text::render(&of(rows), &style);
                let lines: Vec<&str> = text.lines().take(height.saturating_sub(1)).collect();
                bar.set_message(output::safe(&lines.join("\n")).into_owned());
                bar.tick();
            }
            Self::Interactive(view) => {
                let plain = TextStyle {
                    colour: false,
                    ..style
                };
                view.set(text::render(&of(ROWS), &plain));
            }
        }
    }

    pub(super) fn clear(self) {
        if let Self::Lines(bar) = self {
            bar.finish_and_clear();
        }
    }
}
