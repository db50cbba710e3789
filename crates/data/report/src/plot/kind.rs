//! The kinds of plots, and the recordings that each can show.

use punctual_model::{Nanos, Recording, ThreadRecord};

use super::PlotOptions;
use crate::ReportError;

/// A kind of plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Histogram of samples by latency: [`latency`](super::latency).
    Latency,
    /// Latency by percentile: [`percentiles`](super::percentiles).
    Percentiles,
    /// Latency over time: [`timeline`](super::timeline).
    Timeline,
    /// Heat map of pairs of CPUs: [`matrix`](super::matrix).
    Matrix,
    /// A bar for each thread: [`bars`](super::bars).
    Bars,
}

impl Kind {
    /// All kinds, each with the name that users type and see.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Latency, "latency"),
        (Self::Percentiles, "percentiles"),
        (Self::Timeline, "timeline"),
        (Self::Matrix, "matrix"),
        (Self::Bars, "bars"),
    ];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(kind, _)| *kind == self)
            .map_or("latency", |(_, name)| name)
    }

    /// Returns whether the end of the x-axis can be chosen.
    pub const fn has_x_max(self) -> bool {
        matches!(self, Self::Latency | Self::Timeline | Self::Bars)
    }

    /// Returns whether a plot of this kind shows anything for a recording, or for the given thread
    /// (an index into `threads`).
    pub fn shows(self, recording: &Recording, thread: Option<usize>) -> bool {
        let mut threads = recording.threads.iter().enumerate();
        let picked = |index: usize| thread.is_none_or(|asked| asked == index);
        let mut any = |holds: fn(&ThreadRecord) -> bool| {
            threads.any(|(index, record)| picked(index) && holds(record))
        };
        match self {
            Self::Latency | Self::Percentiles | Self::Bars => {
                any(|record| record.histogram.count() > 0)
            }
            Self::Matrix => any(|record| {
                record.from_cpu.is_some() && record.cpu.is_some() && record.histogram.count() > 0
            }),
            Self::Timeline => {
                let rows = &recording.series.rows;
                let holds = |row: &punctual_model::IntervalRow| row.count > 0 || row.missed > 0;
                rows.iter()
                    .any(|row| picked(row.thread as usize) && holds(row))
                    || (recording.top_samples.iter()).any(|sample| picked(sample.thread as usize))
            }
        }
    }

    /// Returns the smallest value of a recording on the x-axis.
    fn first(self, recording: &Recording, thread: Option<usize>) -> Option<Nanos> {
        let picked = |index: usize| thread.is_none_or(|asked| asked == index);
        match self {
            Self::Timeline => {
                let rows = recording.series.rows.iter();
                rows.filter(|row| picked(row.thread as usize))
                    .map(|row| row.start_ns)
                    .min()
            }
            _ => {
                let threads = recording.threads.iter().enumerate();
                threads
                    .filter(|(index, _)| picked(*index))
                    .filter_map(|(_, record)| record.histogram.min())
                    .min()
            }
        }
    }

    /// Returns what a recording is missing if this kind cannot show it.
    const fn lacks(self) -> &'static str {
        match self {
            Self::Latency | Self::Percentiles | Self::Bars => "no latencies",
            Self::Timeline => "no time series",
            Self::Matrix => "no pairs of CPUs",
        }
    }
}

/// Returns an error for plots that cannot be drawn: invalid sizes, threads that do not exist, or
/// recordings without data for this kind of plot.
pub(super) fn check(
    kind: Kind,
    recordings: &[&Recording],
    options: &PlotOptions,
) -> Result<(), ReportError> {
    let PlotOptions { width, height, .. } = *options;
    let first = recordings.first().ok_or(ReportError::NoRecording)?;
    if !(320..=8000).contains(&width) || !(240..=8000).contains(&height) {
        return Err(ReportError::Size { width, height });
    }
    if let Some(thread) = options.thread {
        for recording in recordings {
            let threads = recording.threads.len();
            if thread >= threads {
                return Err(ReportError::NoSuchThread { thread, threads });
            }
        }
    }
    if options.x_max.is_some() && !kind.has_x_max() {
        return Err(ReportError::NoXMax { kind: kind.name() });
    }
    if let Some(x_max) = options.x_max {
        let all = recordings.iter();
        let first = all.filter_map(|recording| kind.first(recording, options.thread));
        let first = first.min().unwrap_or_default();
        if x_max < first || x_max == Nanos::ZERO {
            return Err(ReportError::BelowAll { x_max, first });
        }
    }
    // It is enough if one recording can be shown. Any others without samples are only named in the
    // legend.
    if recordings
        .iter()
        .any(|recording| kind.shows(recording, options.thread))
    {
        Ok(())
    } else {
        Err(nothing_to_draw(kind, first, options.thread))
    }
}

fn nothing_to_draw(kind: Kind, recording: &Recording, thread: Option<usize>) -> ReportError {
    let id = recording.id.short();
    let all = Kind::ALL.iter();
    let names: Vec<&str> = all
        .filter(|(kind, _)| kind.shows(recording, thread))
        .map(|(_, name)| *name)
        .collect();
    if names.is_empty() {
        ReportError::NoLatencies { id }
    } else {
        ReportError::NotThisKind {
            id,
            kind: kind.name(),
            lacks: kind.lacks(),
            kinds: names.join(", "),
        }
    }
}
