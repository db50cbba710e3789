//! Series over time: which there are, how they are judged, what was decided.

use std::fmt;
use std::sync::Arc;

use punctual_model::{ChangeDecision, Nanos};
use punctual_stats::trend::{Run, Trend};

use crate::SourceError;

/// A series of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesOf {
    /// Its name.
    pub series: String,
    /// The machine; `None` where it is not known.
    pub machine: Option<String>,
}

/// A decision on a change point.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The change point, as it is listed.
    pub change: String,
    /// The threshold above which late periods were counted then, where one was asked for.
    pub threshold: Option<Nanos>,
    /// What was decided.
    pub decision: ChangeDecision,
    /// Who decided.
    pub who: String,
    /// Why.
    pub why: String,
}

/// What somebody notes about a series.
#[derive(Clone, Debug)]
pub struct Noted {
    /// The moment it is about.
    pub at: jiff::Timestamp,
    /// Who wrote it.
    pub who: String,
    /// What was written.
    pub text: String,
}

/// Judges series.
pub trait Trends: Send + Sync {
    /// All series, by name and machine.
    ///
    /// # Errors
    /// What reading can fail with.
    fn series(&self) -> Result<Vec<SeriesOf>, SourceError>;

    /// A series, judged, with its runs.
    ///
    /// # Errors
    /// No such series, and what reading can fail with.
    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), SourceError>;

    /// The runs of a series, not judged: of many machines that would take long.
    ///
    /// # Errors
    /// No such series, and what reading can fail with.
    fn runs(&self, of: &SeriesOf) -> Result<Vec<Run>, SourceError> {
        self.trend(of).map(|(_, runs)| runs)
    }

    /// Writes a decision down.
    ///
    /// # Errors
    /// No such change point, and what writing can fail with.
    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), SourceError>;

    /// Keeps a note about a series.
    ///
    /// # Errors
    /// What writing can fail with.
    fn note(&self, of: &SeriesOf, noted: &Noted) -> Result<(), SourceError>;
}

/// Where trends come from, if from anywhere.
#[derive(Clone, Default)]
pub struct TrendSource(pub Option<Arc<dyn Trends>>);

impl fmt::Debug for TrendSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "given" } else { "none" };
        f.debug_tuple("TrendSource").field(&known).finish()
    }
}
