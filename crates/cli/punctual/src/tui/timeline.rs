//! The timeline of an outlier: what ran when, as `explain` prints it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use punctual_model::{Explanation, Recording};
use punctual_report::text::{self, TextStyle};
use punctual_report::{OutlierTimeline, document};
use punctual_store::Store;
use ratatui::text::Line;

use super::key::Key;
use super::scrolled::Text;
use crate::recordings::timelines;

/// Finds the timeline of an outlier by its number; `None` if its events are not stored.
pub(super) type Timelines = Arc<dyn Fn(u64) -> Result<Option<OutlierTimeline>> + Send + Sync>;

/// Returns a function that reads the store of a run.
pub(super) fn stored(store: PathBuf, recording: &Recording) -> Timelines {
    let recording = recording.clone();
    Arc::new(move |number| {
        let store = Store::open_read_only(&store)?;
        timelines::timeline(&store, &recording, number)
    })
}

/// The timeline that is shown, or why there is none.
pub(super) struct ShownTimeline {
    found: Result<Box<OutlierTimeline>, String>,
    text: Text,
    /// Width of the rendered text.
    width: usize,
}

impl ShownTimeline {
    /// Reads a timeline, which takes a moment.
    pub(super) fn find(timelines: Option<&Timelines>, number: u64) -> Self {
        let found = match timelines.map(|find| find(number)) {
            None => Err("the run has no store, so its events are not kept".to_owned()),
            Some(Err(error)) => Err(format!("{error:#}")),
            Some(Ok(None)) => Err(format!(
                "its events are not stored: a run keeps those of its {} longest outliers",
                Explanation::KEPT
            )),
            Some(Ok(Some(timeline))) => Ok(Box::new(timeline)),
        };
        Self {
            found,
            text: Text::default(),
            width: 0,
        }
    }

    pub(super) fn press(&mut self, key: Key) {
        self.text.press(key);
    }

    pub(super) fn shown(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        if self.width != width {
            let style = TextStyle {
                colour: false,
                width,
            };
            let shown = match &self.found {
                Ok(timeline) => text::render(&document::outlier(timeline, false), &style),
                Err(why) => format!("no timeline: {why}"),
            };
            self.text.set(&shown);
            self.width = width;
        }
        self.text.shown(width, height)
    }
}
