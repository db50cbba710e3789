//! Shows the explanations of the outliers of a recording, or of a trace.

use anyhow::Result;
use punctual_model::{Explanation, Outlier, RecordingId, Segment, Window};
use punctual_report::{OutlierTimeline, document, text};
use serde::Serialize;

use super::Explain;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::recordings::explained::Explained;

/// Prints all outliers, or one of them.
pub(super) fn print(explained: &Explained, options: &Explain, context: &Context) -> Result<Exit> {
    let (json, all) = (options.json, options.all_events);
    let style = context.style();
    let text = match options.outlier {
        Some(number) => {
            let timeline = explained.one(number)?;
            if json {
                output::json(&OutlierJson::from(timeline))
            } else {
                text::render(&document::outlier(&timeline, all), &style)
            }
        }
        None if json => output::json(&whole(explained)?),
        None => {
            let list = document::outliers(&explained.recording, &explained.explanation);
            let list = text::render(&list, &style);
            match explained.largest()? {
                Some(largest) => format!(
                    "{list}\n{}",
                    text::render(&document::outlier(&largest, all), &style)
                ),
                None => list,
            }
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

/// Returns all stored data.
fn whole(explained: &Explained) -> Result<ExplainedJson> {
    let mut explanation = explained.explanation.clone();
    explanation.put_into_words();
    let mut outliers = Vec::new();
    for outlier in &explanation.outliers {
        let timeline = explained.timeline(outlier.number)?;
        outliers.push(timeline.map_or_else(
            || OutlierJson {
                outlier: outlier.clone(),
                window: None,
                segments: Vec::new(),
            },
            OutlierJson::from,
        ));
    }
    Ok(ExplainedJson {
        recording: explained.recording.id,
        explanation,
        outliers,
    })
}

/// One outlier with the events around it. The events have short keys, because a window can contain
/// hundreds of them.
#[derive(Serialize)]
pub(in crate::verbs) struct OutlierJson {
    /// The explanation.
    outlier: Outlier,
    /// The events; null if they are not kept.
    window: Option<Window>,
    /// The cause of each time span.
    segments: Vec<Segment>,
}

/// All stored data of a recording's outliers.
#[derive(Serialize)]
pub(in crate::verbs) struct ExplainedJson {
    /// The recording. If a trace is explained, this recording is not in the store.
    recording: RecordingId,
    /// The summary of all explanations.
    explanation: Explanation,
    /// The outliers with their events.
    outliers: Vec<OutlierJson>,
}

impl From<OutlierTimeline> for OutlierJson {
    fn from(mut timeline: OutlierTimeline) -> Self {
        timeline.outlier.blame.put_into_words();
        for segment in &mut timeline.segments {
            segment.words = Some(Box::new(segment.cause.words()));
        }
        Self {
            outlier: timeline.outlier,
            window: Some(timeline.window),
            segments: timeline.segments,
        }
    }
}

punctual_model::to_json!(OutlierJson, ExplainedJson);
