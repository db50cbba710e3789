//! The explanations of the outliers of a recording, or of a trace.

use std::collections::BTreeMap;

use anyhow::Result;
use punctual_model::{Explanation, Outlier, Recording, RecordingId, Segment, Window};
use punctual_report::{OutlierTimeline, document, text};
use punctual_session::ExplainedTrace;
use punctual_store::Store;
use serde::Serialize;

use super::{Explain, timelines};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::output::JsonSchema;
use crate::verbs::perfetto;
use crate::verbs::select::OneRecording;

/// Explained outliers, and the source of their events.
pub(in crate::verbs) struct Explained {
    pub(super) recording: Recording,
    pub(super) explanation: Explanation,
    windows: Windows,
}

enum Windows {
    Stored(Box<Store>),
    Read(BTreeMap<u64, Window>),
}

impl Explained {
    /// Returns the outliers of a stored recording.
    pub(in crate::verbs) fn stored(selected: &OneRecording, context: &Context) -> Result<Self> {
        let store = context.store_to_read()?;
        let mut recording = selected.load(&store)?;
        punctual_culprit::complete(&mut recording);
        let explanation = recording.explanation.clone().ok_or_else(|| {
            UsageError(format!(
                "recording {} has no explanations: measure with --threshold 100us --explain",
                recording.id.short()
            ))
        })?;
        Ok(Self {
            recording,
            explanation,
            windows: Windows::Stored(Box::new(store)),
        })
    }

    /// Returns the outliers of a trace.
    pub(super) fn read(explained: ExplainedTrace) -> Self {
        let ExplainedTrace { recording, windows } = explained;
        Self {
            explanation: recording.explanation.clone().unwrap_or_default(),
            recording,
            windows: Windows::Read(windows),
        }
    }

    /// Prints all outliers, or one of them.
    pub(super) fn print(self, options: &Explain, context: &Context) -> Result<Exit> {
        let (json, all) = (options.json, options.all_events);
        let style = context.style();
        let text = match options.outlier {
            Some(number) => {
                let timeline = self.one(number)?;
                if json {
                    pretty(&OutlierJson::from(timeline))?
                } else {
                    text::render(&document::outlier(&timeline, all), &style)
                }
            }
            None if json => pretty(&self.whole()?)?,
            None => {
                let list = document::outliers(&self.recording, &self.explanation);
                let list = text::render(&list, &style);
                match self.largest()? {
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

    /// Returns an outlier with its events, if they are still stored.
    pub(super) fn timeline(&self, number: u64) -> Result<Option<OutlierTimeline>> {
        match &self.windows {
            Windows::Stored(store) => timelines::timeline(store, &self.recording, number),
            Windows::Read(windows) => {
                let mut outliers = self.explanation.outliers.iter();
                let outlier = outliers.find(|outlier| outlier.number == number);
                let both = outlier.zip(windows.get(&number));
                Ok(both.map(|(outlier, window)| {
                    OutlierTimeline::new(&self.recording, outlier.clone(), window.clone())
                }))
            }
        }
    }

    /// Returns all outliers or one of them, with their events, in the format of Perfetto.
    pub(in crate::verbs) fn to_perfetto(&self, only: Option<u64>) -> Result<Vec<u8>> {
        if let Some(number) = only {
            self.one(number)?;
        }
        let mut outliers: Vec<(&Outlier, Option<Window>)> = Vec::new();
        for outlier in &self.explanation.outliers {
            if only.is_none_or(|number| number == outlier.number) {
                outliers.push((outlier, self.window(outlier.number)?));
            }
        }
        let mut bytes = Vec::new();
        perfetto::write(&self.recording, &outliers, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the events of an outlier, if they are still stored.
    fn window(&self, number: u64) -> Result<Option<Window>> {
        match &self.windows {
            Windows::Stored(store) => {
                let found = store.window(self.recording.id, number)?;
                Ok(found.map(|(_, window)| window))
            }
            Windows::Read(windows) => Ok(windows.get(&number).cloned()),
        }
    }

    pub(super) fn largest(&self) -> Result<Option<OutlierTimeline>> {
        match timelines::longest(&self.recording) {
            Some(longest) => self.timeline(longest.number),
            None => Ok(None),
        }
    }

    pub(super) fn one(&self, number: u64) -> Result<OutlierTimeline> {
        self.timeline(number)?.ok_or_else(|| {
            let outliers = self.explanation.outliers.iter();
            let kept: Vec<u64> = outliers.map(|o| o.number).collect();
            let which = match (kept.first(), kept.last()) {
                (Some(first), Some(last)) => format!("{} of {first} to {last} are", kept.len()),
                _ => "none is".to_owned(),
            };
            UsageError(format!("outlier {number} is not kept: {which}")).into()
        })
    }

    fn whole(&self) -> Result<ExplainedJson> {
        let mut explanation = self.explanation.clone();
        explanation.put_into_words();
        let mut outliers = Vec::new();
        for outlier in &explanation.outliers {
            let timeline = self.timeline(outlier.number)?;
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
            recording: self.recording.id,
            explanation,
            outliers,
        })
    }
}

/// One outlier with the events around it. The events have short keys, because a window can contain
/// hundreds of them.
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

fn pretty(value: &impl Serialize) -> Result<String> {
    output::json(value)
}
