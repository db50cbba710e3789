//! Series over time: listing and judging them, and deciding on their changes.

use std::fmt;
use std::sync::Arc;

use punctual_model::{ChangeDecision, Nanos, SeriesProof};
use punctual_stats::trend::{Run, Trend};

use crate::SourceError;

/// A series of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesOf {
    /// The name of the series.
    pub series: String,
    /// The machine; `None` if unknown.
    pub machine: Option<String>,
}

/// A decision on a change point.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The change point, as it appears in the list.
    pub change: String,
    /// The threshold for late periods that applied when the user decided, if one was given.
    pub threshold: Option<Nanos>,
    /// The decision.
    pub decision: ChangeDecision,
    /// The user who decided.
    pub who: String,
    /// The reason.
    pub why: String,
}

/// A user's note about a series.
#[derive(Clone, Debug)]
pub struct Noted {
    /// The time that the note is about.
    pub at: jiff::Timestamp,
    /// The author.
    pub who: String,
    /// The text of the note.
    pub text: String,
}

/// Judges series.
pub trait Trends: Send + Sync {
    /// Returns all series, by name and machine.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    fn series(&self) -> Result<Vec<SeriesOf>, SourceError>;

    /// Returns a judged series with its runs.
    ///
    /// # Errors
    /// Returns an error if there is no such series, or if reading fails.
    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), SourceError>;

    /// Returns the runs of a series without judging it, which would take long for many machines.
    ///
    /// # Errors
    /// Returns an error if there is no such series, or if reading fails.
    fn runs(&self, of: &SeriesOf) -> Result<Vec<Run>, SourceError> {
        self.trend(of).map(|(_, runs)| runs)
    }

    /// Returns the verdict over the runs of a sampled series, or `None` if its runs are not at
    /// random times.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    fn proof(&self, _of: &SeriesOf) -> Result<Option<SeriesProof>, SourceError> {
        Ok(None)
    }

    /// Stores a decision.
    ///
    /// # Errors
    /// Returns an error if there is no such change point, or if writing fails.
    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), SourceError>;

    /// Stores a note about a series.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn note(&self, of: &SeriesOf, noted: &Noted) -> Result<(), SourceError>;
}

/// The source of trends, if there is one.
#[derive(Clone, Default)]
pub struct TrendSource(pub Option<Arc<dyn Trends>>);

impl fmt::Debug for TrendSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "given" } else { "none" };
        f.debug_tuple("TrendSource").field(&known).finish()
    }
}
