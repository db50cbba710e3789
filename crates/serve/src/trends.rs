//! Series over time: which there are, how they are judged, what was decided.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use punctual_model::ChangeDecision;
use punctual_stats::trend::{ChangePoint, Run, Trend};

use crate::state::App;

/// How often all series are judged again: it takes seconds where there are many.
const AGAIN: Duration = Duration::from_secs(60);

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
    /// What was decided.
    pub decision: ChangeDecision,
    /// Who decided.
    pub who: String,
    /// Why.
    pub why: String,
}

/// Judges series; errors are sentences for the reader.
pub trait Trends: Send + Sync {
    /// All series, by name and machine.
    ///
    /// # Errors
    /// What reading can fail with.
    fn series(&self) -> Result<Vec<SeriesOf>, String>;

    /// A series, judged, with its runs.
    ///
    /// # Errors
    /// No such series, and what reading can fail with.
    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), String>;

    /// Writes a decision down.
    ///
    /// # Errors
    /// No such change point, and what writing can fail with.
    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), String>;
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

/// Machines with a worsening that stands unacknowledged, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Worse(RwLock<BTreeSet<String>>);

impl Worse {
    pub(crate) fn machines(&self) -> BTreeSet<String> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    fn set(&self, machines: BTreeSet<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = machines;
    }
}

/// Whether a worsening of it stands.
pub(crate) fn is_worse(trend: &Trend) -> bool {
    let mut changes = trend.groups.iter().flat_map(|group| &group.changes);
    changes.any(ChangePoint::is_open_worsening)
}

/// Judges all series again and again; ends with the runtime.
pub(crate) async fn follow(app: App) {
    loop {
        // An error is shown by the page of the changes, which reads the same.
        let _ = app
            .work(|app| {
                let Some(trends) = &app.config.trends.0 else {
                    return Ok(());
                };
                let all = trends.series().unwrap_or_default();
                let worse = all.into_iter().filter_map(|one| {
                    let (trend, _) = trends.trend(&one).ok()?;
                    one.machine.filter(|_| is_worse(&trend))
                });
                app.worse.set(worse.collect());
                Ok(())
            })
            .await;
        tokio::time::sleep(AGAIN).await;
    }
}
