//! The outliers of a recording, as a text file for a bundle.

use crate::document;
use crate::outlier_timeline::OutlierTimeline;
use crate::text::{self, TextStyle};

/// Returns outliers as text, one below the other, 110 columns wide.
pub fn outliers_text(timelines: &[OutlierTimeline]) -> String {
    let style = TextStyle {
        width: 110,
        ..TextStyle::default()
    };
    let shown = |timeline| text::render(&document::outlier(timeline, true), &style) + "\n";
    timelines.iter().map(shown).collect()
}
