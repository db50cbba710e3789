//! The explanations of the outliers of a recording.

use anyhow::Result;
use punctual_model::{Explanation, Outlier, Recording, RecordingId, Segment, Window};
use punctual_report::{OutlierTimeline, document, text};
use punctual_store::Store;
use serde::Serialize;

use super::{Explain, timelines};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::output::JsonSchema;

pub(super) fn run(options: &Explain, context: &Context) -> Result<Exit> {
    let store = context.store_to_read()?;
    let mut recording = options.selected.load(&store)?;
    punctual_culprit::complete(&mut recording);
    let explanation = recording.explanation.clone().ok_or_else(|| {
        UsageError(format!(
            "recording {} has no explanations: measure with --threshold 100us --explain",
            recording.id.short()
        ))
    })?;
    let (json, all) = (options.json, options.all_events);
    let style = context.style();
    let text = match options.outlier {
        Some(number) => {
            let timeline = one(&store, &recording, &explanation, number)?;
            match json {
                true => pretty(&OutlierJson::from(timeline))?,
                false => text::render(&document::outlier(&timeline, all), &style),
            }
        }
        None if json => pretty(&whole(&store, &recording, explanation)?)?,
        None => {
            let list = text::render(&document::outliers(&recording, &explanation), &style);
            match timelines::worst(&store, &recording)? {
                Some(worst) => format!(
                    "{list}\n{}",
                    text::render(&document::outlier(&worst, all), &style)
                ),
                None => list,
            }
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn one(
    store: &Store,
    recording: &Recording,
    explanation: &Explanation,
    number: u64,
) -> Result<OutlierTimeline> {
    let timeline = timelines::timeline(store, recording, number)?;
    timeline.ok_or_else(|| {
        let kept: Vec<u64> = explanation.outliers.iter().map(|o| o.number).collect();
        let which = match (kept.first(), kept.last()) {
            (Some(first), Some(last)) => format!("{} of {first} to {last} are", kept.len()),
            _ => "none is".to_owned(),
        };
        UsageError(format!("outlier {number} is not kept: {which}")).into()
    })
}

/// One outlier with the events around it; those have short keys, which a window
/// of hundreds of them needs.
#[derive(Serialize, JsonSchema)]
pub(in crate::verbs) struct OutlierJson {
    /// The explanation.
    outlier: Outlier,
    /// The events; null if they are not kept.
    window: Option<Window>,
    /// The cause of each time span.
    segments: Vec<Segment>,
}

/// All stored data of a recording's outliers.
#[derive(Serialize, JsonSchema)]
pub(in crate::verbs) struct ExplainedJson {
    /// The recording.
    recording: RecordingId,
    /// The summary of all explanations.
    explanation: Explanation,
    /// The outliers with their events.
    outliers: Vec<OutlierJson>,
}

impl From<OutlierTimeline> for OutlierJson {
    fn from(timeline: OutlierTimeline) -> Self {
        Self {
            outlier: timeline.outlier,
            window: Some(timeline.window),
            segments: timeline.segments,
        }
    }
}

fn whole(store: &Store, recording: &Recording, explanation: Explanation) -> Result<ExplainedJson> {
    let mut outliers = Vec::new();
    for outlier in &explanation.outliers {
        let timeline = timelines::timeline(store, recording, outlier.number)?;
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
        recording: recording.id,
        explanation,
        outliers,
    })
}

fn pretty(value: &impl Serialize) -> Result<String> {
    output::json(value)
}
