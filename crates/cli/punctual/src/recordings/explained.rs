//! The explanations of the outliers of a recording, or of a trace.

use std::collections::BTreeMap;

use anyhow::Result;
use punctual_model::{Explanation, Outlier, Recording, Window};
use punctual_report::OutlierTimeline;
use punctual_session::ExplainedTrace;
use punctual_store::Store;

use crate::context::Context;
use crate::exit::UsageError;
use crate::options::select::OneRecording;
use crate::recordings::{perfetto, timelines};

/// Explained outliers, and the source of their events.
pub(crate) struct Explained {
    pub(crate) recording: Recording,
    pub(crate) explanation: Explanation,
    windows: Windows,
}

enum Windows {
    Stored(Box<Store>),
    Read(BTreeMap<u64, Window>),
}

impl Explained {
    /// Returns the outliers of a stored recording.
    pub(crate) fn stored(selected: &OneRecording, context: &Context) -> Result<Self> {
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
    pub(crate) fn read(explained: ExplainedTrace) -> Self {
        let ExplainedTrace { recording, windows } = explained;
        Self {
            explanation: recording.explanation.clone().unwrap_or_default(),
            recording,
            windows: Windows::Read(windows),
        }
    }

    /// Returns an outlier with its events, if they are still stored.
    pub(crate) fn timeline(&self, number: u64) -> Result<Option<OutlierTimeline>> {
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
    pub(crate) fn to_perfetto(&self, only: Option<u64>) -> Result<Vec<u8>> {
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

    pub(crate) fn largest(&self) -> Result<Option<OutlierTimeline>> {
        match timelines::longest(&self.recording) {
            Some(longest) => self.timeline(longest.number),
            None => Ok(None),
        }
    }

    pub(crate) fn one(&self, number: u64) -> Result<OutlierTimeline> {
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
}
